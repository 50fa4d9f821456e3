/* Series of times, their quantiles, and the failures of a level. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verify/bench/serve_client.h"

bool client_series_add(client_series *s, double x) {
  if (s->n == s->room) {
    const size_t room = s->room ? 2 * s->room : 64;
    double *larger = realloc(s->x, room * sizeof *larger);
    if (!larger) return false;
    s->x = larger;
    s->room = room;
  }
  s->x[s->n++] = x;
  return true;
}

bool client_series_join(client_series *s, const client_series *more) {
  for (size_t i = 0; i < more->n; i++)
    if (!client_series_add(s, more->x[i])) return false;
  return true;
}

double client_quantile(const double *x, size_t n, double q) {
  if (!n) return 0;
  const double at = q * (double)(n - 1);
  const size_t i = (size_t)at;
  return i + 1 < n ? x[i] + (at - (double)i) * (x[i + 1] - x[i]) : x[n - 1];
}

static int series_order(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

client_summary client_summarise(client_series *s) {
  client_summary r = {.n = s->n};
  if (!s->n) return r;
  qsort(s->x, s->n, sizeof *s->x, series_order);
  for (size_t i = 0; i < s->n; i++) r.mean += s->x[i];
  r.mean /= (double)s->n;
  r.median = client_quantile(s->x, s->n, 0.5);
  r.p90 = client_quantile(s->x, s->n, 0.9);
  r.p99 = client_quantile(s->x, s->n, 0.99);
  r.max = s->x[s->n - 1];
  return r;
}

void client_level_free(client_level *l) {
  free(l->ttft.x);
  free(l->itl.x);
  free(l->tpot.x);
  free(l->e2e.x);
  *l = (client_level){0};
}

void client_level_fail(client_level *l, const char *kind, const char *text) {
  int i = 0;
  l->failed++;
  while (i < l->n_errors && strcmp(l->errors[i].kind, kind) != 0) i++;
  if (i == CLIENT_MAX_ERRORS) { /* more kinds than there is room for */
    i--;
    (void)snprintf(l->errors[i].kind, sizeof l->errors[i].kind, "several");
  }
  if (i == l->n_errors) {
    client_error *e = &l->errors[l->n_errors++];
    (void)snprintf(e->kind, sizeof e->kind, "%s", kind);
    (void)snprintf(e->text, sizeof e->text, "%s", text);
  }
  l->errors[i].n++;
}

client_row client_row_of(client_level *l) {
  client_row r = {.l = l,
                  .ttft = client_summarise(&l->ttft),
                  .itl = client_summarise(&l->itl),
                  .tpot = client_summarise(&l->tpot),
                  .e2e = client_summarise(&l->e2e)};
  if (!(l->duration > 0)) return r;
  r.requests_s = (double)l->completed / l->duration;
  r.output_s = (double)l->output_tokens / l->duration;
  r.total_s = (double)(l->output_tokens + l->prompt_tokens) / l->duration;
  r.good_s = (double)l->good / l->duration;
  return r;
}
