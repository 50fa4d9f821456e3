/* What ga bench --serve prints, and its JSON. */
#include <stdio.h>
#include <string.h>

#include "cmdline/cmd.h"
#include "verify/bench/serve_client.h"

#define BUSY_CPU  0.8 /* from here on the client may be what is measured */
#define LONG_TAIL 0.1 /* of the duration */

static void print_range(const char *name, client_range r) {
  printf(", %s %lld", name, (long long)r.least);
  if (r.most > r.least) printf(":%lld", (long long)r.most);
}

void client_report_head(const client_args *a, const client_target *t) {
  printf("%s", t->endpoint);
  if (*t->model) {
    printf(", model ");
    cmd_put_text(stdout, t->model, strlen(t->model));
  }
  if (a->prompts_path)
    printf(", prompts of %s", a->prompts_path);
  else
    print_range(a->ids ? "prompt ids" : "prompt words", a->prompt);
  if (a->shared_prefix && !a->prompts_path) printf(" after %lld shared", (long long)a->shared_prefix);
  print_range("decode", a->decode);
  printf(", seed %llu\n", (unsigned long long)a->seed);
  printf("%8s %6s %6s %8s %9s %9s | TTFT %s | ITL  %s", a->open_loop ? "rate" : "streams", "done", "failed", "req/s",
         "out tok/s", "all tok/s", "median     p90     p99     max", "median     p90     p99     max ms");
  printf(a->ttft_bound > 0 ? " | good/s\n" : "\n");
  (void)fflush(stdout);
}

static void print_times(const client_summary *s) {
  const double x[] = {s->median, s->p90, s->p99, s->max};
  printf(" |");
  for (int i = 0; i < 4; i++) {
    const int width = i ? 7 : 11, places = x[i] < 1 ? 2 : 0;
    if (s->n)
      printf(" %*.*f", width, places, x[i] * 1e3);
    else
      printf(" %*s", width, "-");
  }
}

/* What a reader of the row should know. */
static void print_notes(const client_level *l) {
  for (int i = 0; i < l->n_errors; i++) {
    const client_error *e = &l->errors[i];
    printf("%8s %lld failed: %s%s", "", (long long)e->n, e->kind, *e->text ? ": " : "");
    cmd_put_text(stdout, e->text, strlen(e->text));
    printf("\n");
  }
  const double chunks = (double)l->chunks;
  if (l->no_usage) printf("%8s %lld answers without usage: their chunks count as tokens\n", "", (long long)l->no_usage);
  if (l->chunks && (double)l->output_tokens > 1.05 * chunks)
    printf("%8s a chunk has %.2f tokens: ITL is of chunks\n", "", (double)l->output_tokens / chunks);
  if (l->tail > LONG_TAIL * l->duration)
    printf("%8s the last %.2f of %.2f s ran with fewer streams: ask for more requests\n", "", l->tail, l->duration);
  if (l->late > 0.01)
    printf("%8s requests left up to %.0f ms late; their times count from when due\n", "", l->late * 1e3);
  if (l->cpu > BUSY_CPU) printf("%8s this program took %.0f%% of a processor: it may be the limit\n", "", 100 * l->cpu);
  if (l->lost) printf("%8s the server refuses connections: given up\n", "");
  if (l->stopped) printf("%8s stopped; %lld requests were under way\n", "", (long long)l->unfinished);
}

void client_report_row(const client_args *a, const client_row *r) {
  const client_level *l = r->l;
  printf("%8g %6lld %6lld %8.2f %9.1f %9.1f", l->level, (long long)l->completed, (long long)l->failed, r->requests_s,
         r->output_s, r->total_s);
  print_times(&r->ttft);
  print_times(&r->itl);
  if (a->ttft_bound > 0) printf(" | %6.2f", r->good_s);
  printf("\n");
  print_notes(l);
  (void)fflush(stdout);
}

/* --- JSON --- */

static json_t *times_json(const client_summary *s) {
  if (!s->n) return json_null();
  return json_pack("{s:I, s:f, s:f, s:f, s:f, s:f}", "n", (json_int_t)s->n, "mean", s->mean * 1e3, "median",
                   s->median * 1e3, "p90", s->p90 * 1e3, "p99", s->p99 * 1e3, "max", s->max * 1e3);
}

static json_t *errors_json(const client_level *l) {
  json_t *all = json_array();
  for (int i = 0; i < l->n_errors; i++) {
    const client_error *e = &l->errors[i];
    (void)json_array_append_new(all, json_pack("{s:s, s:I, s:o}", "kind", e->kind, "n", (json_int_t)e->n, "first",
                                               cmd_json_text(e->text, strlen(e->text))));
  }
  return all;
}

static json_t *row_json(const client_args *a, const client_row *r) {
  const client_level *l = r->l;
  json_t *row = json_pack("{s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", a->open_loop ? "rate" : "streams", l->level,
                          "started", (json_int_t)l->started, "completed", (json_int_t)l->completed, "failed",
                          (json_int_t)l->failed, "unfinished", (json_int_t)l->unfinished, "prompt_tokens",
                          (json_int_t)l->prompt_tokens, "output_tokens", (json_int_t)l->output_tokens, "chunks",
                          (json_int_t)l->chunks, "without_usage", (json_int_t)l->no_usage);
  json_t *rest =
      json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:b, s:o, s:o, s:o, s:o, s:o}", "seconds", l->duration,
                "tail_seconds", l->tail, "late_seconds", l->late, "client_cpu", l->cpu, "requests_s", r->requests_s,
                "output_tok_s", r->output_s, "total_tok_s", r->total_s, "connections", (json_int_t)l->connections,
                "stopped", l->stopped, "ttft_ms", times_json(&r->ttft), "itl_ms", times_json(&r->itl), "tpot_ms",
                times_json(&r->tpot), "e2e_ms", times_json(&r->e2e), "errors", errors_json(l));
  (void)json_object_update(row, rest);
  json_decref(rest);
  if (a->ttft_bound > 0) (void)json_object_set_new(row, "goodput_s", json_real(r->good_s));
  return row;
}

static json_t *text_or_null(const char *text) { return text ? cmd_json_text(text, strlen(text)) : json_null(); }

json_t *client_report_json(const client_args *a, const client_target *t, const client_row *rows, int n) {
  json_t *all =
      json_pack("{s:s, s:s, s:o, s:s, s:[II], s:[II], s:I, s:b, s:o, s:I, s:I, s:f, s:f}", "version", ga_version(),
                "url", t->base, "model", text_or_null(*t->model ? t->model : NULL), "api",
                a->chat ? "chat" : "completions", "prompt", (json_int_t)a->prompt.least, (json_int_t)a->prompt.most,
                "decode", (json_int_t)a->decode.least, (json_int_t)a->decode.most, "shared_prefix",
                (json_int_t)a->shared_prefix, "prompt_ids", a->ids, "prompts", text_or_null(a->prompts_path), "seed",
                (json_int_t)a->seed, "requests", (json_int_t)a->requests, "seconds", a->seconds, "timeout", a->timeout);
  json_t *list = json_array();
  for (int i = 0; i < n; i++) (void)json_array_append_new(list, row_json(a, &rows[i]));
  if (a->ttft_bound > 0)
    (void)json_object_set_new(all, "goodput",
                              json_pack("{s:f, s:f}", "ttft_ms", a->ttft_bound * 1e3, "itl_ms", a->itl_bound * 1e3));
  (void)json_object_set_new(all, "rows", list);
  return all;
}
