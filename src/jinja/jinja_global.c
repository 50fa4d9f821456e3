/* Functions a template finds without being given them. */
#include <time.h>

#include "jinja/jinja_builtin.h"

#define MAX_RANGE 100000 /* as in Jinja's sandbox */

JJ_BUILTIN(global_range) {
  int64_t start, stop, step;
  GA_TRY(ga_jj_param_int(call, 0, 0, &start));
  GA_TRY(ga_jj_param_int(call, 1, 0, &stop));
  GA_TRY(ga_jj_param_int(call, 2, 1, &step));
  for (int i = 0; i < 3; i++)
    if (call->v[i].kind == JJ_NONE) return ga_fail(GA_ERR_FORMAT, "range: takes integers, not none");
  if (call->v[1].kind == JJ_MISSING) {
    stop = start;
    start = 0;
  }
  if (!step) return ga_fail(GA_ERR_FORMAT, "range: the step must not be 0");
  const int64_t far = INT64_MAX / 4; /* no range that short of it can be wanted, and nothing below overflows */
  if (start > far || start < -far || stop > far || stop < -far || step > far || step < -far)
    return ga_fail(GA_ERR_UNSUPPORTED, "range: bounds beyond 2^61");
  int64_t span = step > 0 ? stop - start : start - stop, stride = step > 0 ? step : -step;
  int64_t n = span > 0 ? (span - 1) / stride + 1 : 0;
  if (n > MAX_RANGE) return ga_fail(GA_ERR_TIMEOUT, "range: %lld items; at most %d", (long long)n, MAX_RANGE);
  GA_TRY(ga_jj_seq_new(run, JJ_RANGE, (size_t)n, out));
  jj_seq *q = out->u.q;
  q->start = start;
  q->stop = stop;
  q->step = step;
  for (; (int64_t)q->n < n; q->n++) q->v[q->n] = ga_jj_int(start + (int64_t)q->n * step);
  return ga_jj_step(run, (uint64_t)n / 8);
}

/* dict(mapping or pairs, **more), also what namespace() starts from. */
static ga_status new_dict(jj_run *run, const jj_call *call, jj_val *out) {
  const jj_args *args = call->args;
  const jj_val *items = NULL, *pair;
  size_t n = 0, n_pair;
  if (args->n_pos > 1) return ga_fail(GA_ERR_FORMAT, "%s: takes one dict and keyword arguments", call->def->name);
  GA_TRY(ga_jj_dict_new(run, 0, out));
  const jj_dict *from = args->n_pos && args->pos[0].kind == JJ_DICT ? args->pos[0].u.d : NULL;
  for (size_t i = 0; from && i < from->n; i++) GA_TRY(ga_jj_dict_set(run, out->u.d, from->e[i].key, from->e[i].value));
  if (args->n_pos && !from) GA_TRY(ga_jj_items(run, args->pos[0], &items, &n));
  for (size_t i = 0; i < n; i++) {
    GA_TRY(ga_jj_items(run, items[i], &pair, &n_pair));
    if (n_pair != 2) return ga_fail(GA_ERR_FORMAT, "%s: item %zu is no pair", call->def->name, i);
    GA_TRY(ga_jj_dict_set(run, out->u.d, pair[0], pair[1]));
  }
  for (size_t i = 0; i < args->n_kw; i++) {
    jj_val key;
    GA_TRY(ga_jj_str_part(run, args->kw[i].name, 0, args->kw[i].name->n, &key));
    key.u.s->points = args->kw[i].name->points;
    GA_TRY(ga_jj_dict_set(run, out->u.d, key, args->kw[i].value));
  }
  return GA_OK;
}

JJ_BUILTIN(global_dict) { return new_dict(run, call, out); }

JJ_BUILTIN(global_namespace) {
  GA_TRY(new_dict(run, call, out));
  out->kind = JJ_NS;
  return GA_OK;
}

JJ_BUILTIN(global_raise_exception) {
  jj_val text;
  (void)out;
  GA_TRY(ga_jj_to_str(run, call->v[0], &text));
  return ga_fail(GA_ERR_FORMAT, "raise_exception: %.*s", (int)(text.u.s->n < 800 ? text.u.s->n : 800), text.u.s->p);
}

JJ_BUILTIN(global_strftime_now) {
  char text[512];
  jj_str *format;
  struct tm tm;
  time_t now = run->now == GA_TEMPLATE_NOW_LOCAL ? time(NULL) : (time_t)run->now;
  GA_TRY(ga_jj_param_str(call, 0, &format));
  if (!format || memchr(format->p, 0, format->n) || format->n > 200)
    return ga_fail(GA_ERR_FORMAT, "strftime_now: takes a format of at most 200 bytes");
  if (!(run->now == GA_TEMPLATE_NOW_LOCAL ? localtime_r(&now, &tm) : gmtime_r(&now, &tm)))
    return ga_fail(GA_ERR_ARG, "strftime_now: the time %lld has no date", (long long)now);
  char pattern[256];
  memcpy(pattern, format->p, format->n);
  memcpy(pattern + format->n, "x", 2); /* so that nothing is told from too long */
  size_t n = strftime(text, sizeof text, pattern, &tm);
  if (!n || !ga_jj_utf8_ok(text, n))
    return ga_fail(GA_ERR_FORMAT, "strftime_now: the date is longer than %zu bytes", sizeof text);
  jj_buf buf = {0};
  if (format->n) GA_TRY(ga_jj_buf_stand(run, &buf, format, 0, text, n - 1));
  return ga_jj_buf_str(run, &buf, out);
}

const jj_def ga_jj_globals[] = {
    {"dict", "*", global_dict},
    {"namespace", "*", global_namespace},
    {"raise_exception", "message", global_raise_exception},
    {"range", "start stop? step?", global_range},
    {"strftime_now", "format", global_strftime_now},
    {NULL, NULL, NULL},
};
