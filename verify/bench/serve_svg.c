/* A figure: throughput, TTFT and ITL by streams or rate, for light and dark pages. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "verify/bench/serve_client.h"

#define PANEL_W 300.0
#define PANEL_H 220.0
#define LEFT    52.0
#define RIGHT   16.0
#define TOP     62.0 /* of the lines; panels begin at 0 */
#define BOTTOM  36.0

typedef struct svg_line {
  const char *name, *style; /* style: a class */
  double y[CLIENT_MAX_LEVELS];
} svg_line;

typedef struct svg_panel {
  const char *title;
  svg_line lines[2];
  int n_lines;
} svg_panel;

static const char head[] =
    "<style>\n"
    "text{font:10px Helvetica,Arial,'DejaVu Sans',sans-serif;fill:#333}\n"
    ".page{fill:#fff}.grid{stroke:#d0d4da}.title{font-size:12px;font-weight:bold}.end{text-anchor:end}\n"
    ".mid{text-anchor:middle}polyline{fill:none;stroke-width:2}\n"
    ".a polyline{stroke:#00875a}.a circle,.a rect{fill:#00875a}.b polyline{stroke:#d1495b;stroke-dasharray:5 3}\n"
    ".b circle,.b rect{fill:#d1495b}\n"
    "@media(prefers-color-scheme:dark){text{fill:#dcdfe4}.page{fill:#16191d}.grid{stroke:#3a3f46}\n"
    ".a polyline{stroke:#3ecf97}.a circle,.a rect{fill:#3ecf97}.b polyline{stroke:#ff8090}\n"
    ".b circle,.b rect{fill:#ff8090}}\n"
    "</style>\n";

/* Text between tags; what XML cannot have is left out. */
static void put_escaped(FILE *f, const char *text) {
  for (; *text; text++) {
    if (*text == '<')
      (void)fputs("&lt;", f);
    else if (*text == '>')
      (void)fputs("&gt;", f);
    else if (*text == '&')
      (void)fputs("&amp;", f);
    else if ((unsigned char)*text >= 0x20 && *text != 0x7f)
      (void)putc(*text, f);
  }
}

/* The least of 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10 times a power of ten that is not below y. */
static double axis_top(double y) {
  static const double steps[] = {1, 1.5, 2, 2.5, 3, 4, 5, 6, 8};
  if (!(y > 0)) return 1;
  const double power = pow(10, floor(log10(y)));
  for (size_t i = 0; i < GA_COUNT_OF(steps); i++)
    if (steps[i] * power >= y) return steps[i] * power;
  return 10 * power;
}

/* Levels on a logarithmic axis; a single one in the middle. */
static double svg_x(const client_row *rows, int n, int i) {
  double low = rows[0].l->level, high = low;
  for (int j = 1; j < n; j++) {
    low = fmin(low, rows[j].l->level);
    high = fmax(high, rows[j].l->level);
  }
  const double share = high > low ? log(rows[i].l->level / low) / log(high / low) : 0.5;
  return LEFT + share * (PANEL_W - LEFT - RIGHT);
}

static double svg_y(double y, double top) { return PANEL_H - BOTTOM - y / top * (PANEL_H - BOTTOM - TOP); }

static void put_axes(FILE *f, const client_args *a, const svg_panel *p, const client_row *rows, int n, double top) {
  (void)fprintf(f, "<text class=\"title mid\" x=\"%.0f\" y=\"38\">%s</text>\n", (LEFT + PANEL_W - RIGHT) / 2, p->title);
  for (int i = 0; i <= 4; i++) {
    const double y = svg_y(top * i / 4, top);
    (void)fprintf(f, "<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", LEFT, y, PANEL_W - RIGHT,
                  y);
    (void)fprintf(f, "<text class=\"end\" x=\"%.1f\" y=\"%.1f\">%g</text>\n", LEFT - 5, y + 3, top * i / 4);
  }
  for (int i = 0; i < n; i++)
    (void)fprintf(f, "<text class=\"mid\" x=\"%.1f\" y=\"%.1f\">%g</text>\n", svg_x(rows, n, i), PANEL_H - BOTTOM + 14,
                  rows[i].l->level);
  (void)fprintf(f, "<text class=\"mid\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", (LEFT + PANEL_W - RIGHT) / 2, PANEL_H - 8,
                a->open_loop ? "requests a second that come" : "streams");
}

static void put_line(FILE *f, const svg_line *line, int which, const client_row *rows, int n, double top) {
  (void)fprintf(f, "<g class=\"%s\"><polyline points=\"", line->style);
  for (int i = 0; i < n; i++) (void)fprintf(f, "%.1f,%.1f ", svg_x(rows, n, i), svg_y(line->y[i], top));
  (void)fprintf(f, "\"/>");
  for (int i = 0; i < n; i++)
    (void)fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>", svg_x(rows, n, i), svg_y(line->y[i], top));
  (void)fprintf(f, "<rect x=\"%.1f\" y=\"46\" width=\"12\" height=\"6\"/></g><text x=\"%.1f\" y=\"53\">%s</text>\n",
                LEFT + 90 * which, LEFT + 90 * which + 16, line->name);
}

static void put_panel(FILE *f, const client_args *a, const svg_panel *p, int at, const client_row *rows, int n) {
  double most = 0;
  for (int j = 0; j < p->n_lines; j++)
    for (int i = 0; i < n; i++) most = fmax(most, p->lines[j].y[i]);
  const double top = axis_top(most);
  (void)fprintf(f, "<g transform=\"translate(%.0f 0)\">\n", at * PANEL_W);
  put_axes(f, a, p, rows, n, top);
  for (int j = 0; j < p->n_lines; j++) put_line(f, &p->lines[j], j, rows, n, top);
  (void)fprintf(f, "</g>\n");
}

static void put_figure_of(FILE *f, const client_args *a, const client_target *t, const client_row *rows, int n) {
  svg_panel p[3] = {
      {.title = "tokens a second", .lines = {{.name = "output", .style = "a"}}, .n_lines = 1},
      {.title = "time to first token, ms",
       .lines = {{.name = "median", .style = "a"}, {.name = "p99", .style = "b"}},
       .n_lines = 2},
      {.title = "inter-token latency, ms",
       .lines = {{.name = "median", .style = "a"}, {.name = "p99", .style = "b"}},
       .n_lines = 2},
  };
  for (int i = 0; i < n; i++) {
    p[0].lines[0].y[i] = rows[i].output_s;
    p[1].lines[0].y[i] = rows[i].ttft.median * 1e3;
    p[1].lines[1].y[i] = rows[i].ttft.p99 * 1e3;
    p[2].lines[0].y[i] = rows[i].itl.median * 1e3;
    p[2].lines[1].y[i] = rows[i].itl.p99 * 1e3;
  }
  (void)fprintf(f,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n",
                3 * PANEL_W, PANEL_H, 3 * PANEL_W, PANEL_H);
  (void)fprintf(f, "%s<rect class=\"page\" width=\"%.0f\" height=\"%.0f\"/>\n<text class=\"title\" x=\"12\" y=\"18\">",
                head, 3 * PANEL_W, PANEL_H);
  put_escaped(f, *t->model ? t->model : t->base);
  (void)fprintf(f, ": %s, ", a->chat ? "chat" : "completions");
  if (!a->prompts_path) (void)fprintf(f, "prompts of %lld, ", (long long)(a->prompt.most + a->shared_prefix));
  (void)fprintf(f, "answers of %lld tokens</text>\n", (long long)a->decode.most);
  for (int i = 0; i < 3; i++) put_panel(f, a, &p[i], i, rows, n);
  (void)fprintf(f, "</svg>\n");
}

ga_status client_write_svg(const client_args *a, const client_target *t, const client_row *rows, int n) {
  if (!a->svg_path || !n) return GA_OK;
  FILE *f = fopen(a->svg_path, "w");
  GA_REQUIRE(f, GA_ERR_IO, "%s: %s", a->svg_path, strerror(errno));
  put_figure_of(f, a, t, rows, n);
  const bool bad = ferror(f) != 0;
  GA_REQUIRE(!fclose(f) && !bad, GA_ERR_IO, "%s: cannot write: %s", a->svg_path, strerror(errno));
  return GA_OK;
}
