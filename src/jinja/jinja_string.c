/* String operations that both filters and methods offer. */
#include "jinja/jinja_builtin.h"

/* Python: "ab".replace("", "-") is "-a-b-". */
static ga_status replace_empty(jj_run *run, const jj_str *s, const jj_str *new_, int64_t count, jj_buf *buf) {
  size_t len, at = 0;
  for (; count && at < s->n; at += len, count--) {
    (void)ga_jj_decode(s->p + at, s->p + s->n, &len);
    GA_TRY(ga_jj_step(run, 1));
    GA_TRY(ga_jj_buf_part(run, buf, new_, 0, new_->n));
    GA_TRY(ga_jj_buf_part(run, buf, s, at, len));
  }
  if (count) return ga_jj_buf_part(run, buf, new_, 0, new_->n);
  return ga_jj_buf_part(run, buf, s, at, s->n - at);
}

ga_status ga_jj_replace(jj_run *run, const jj_str *s, const jj_str *old, const jj_str *new_, int64_t count,
                        jj_val *out) {
  jj_buf buf = {0};
  size_t at = 0, hit;
  GA_TRY(ga_jj_step(run, s->n / 64));
  if (!old->n) {
    GA_TRY(replace_empty(run, s, new_, count, &buf));
    return ga_jj_buf_str(run, &buf, out);
  }
  for (; count && (hit = ga_jj_find(s, old, at)) != SIZE_MAX; at = hit + old->n, count--) {
    GA_TRY(ga_jj_step(run, 1));
    GA_TRY(ga_jj_buf_part(run, &buf, s, at, hit - at));
    GA_TRY(ga_jj_buf_part(run, &buf, new_, 0, new_->n));
  }
  GA_TRY(ga_jj_buf_part(run, &buf, s, at, s->n - at));
  return ga_jj_buf_str(run, &buf, out);
}

static bool is_line_break(int32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

ga_status ga_jj_splitlines(jj_run *run, const jj_str *s, bool keep, jj_val *out) {
  size_t len, begin = 0;
  jj_val line;
  GA_TRY(ga_jj_step(run, s->n / 16));
  GA_TRY(ga_jj_seq_new(run, JJ_LIST, 0, out));
  for (size_t at = 0; at < s->n; at += len) {
    int32_t c = ga_jj_decode(s->p + at, s->p + s->n, &len);
    if (!is_line_break(c)) continue;
    if (c == '\r' && at + 1 < s->n && s->p[at + 1] == '\n') len = 2;
    GA_TRY(ga_jj_str_part(run, s, begin, (keep ? at + len : at) - begin, &line));
    GA_TRY(ga_jj_seq_push(run, out->u.q, line));
    begin = at + len;
  }
  if (begin == s->n) return GA_OK;
  GA_TRY(ga_jj_str_part(run, s, begin, s->n - begin, &line));
  return ga_jj_seq_push(run, out->u.q, line);
}

ga_status ga_jj_pad(jj_run *run, jj_str *s, int64_t width, int side, const jj_str *fill, jj_val *out) {
  static const jj_str space = {" ", 1, 1, NULL};
  int64_t gap = width - (int64_t)ga_jj_str_points(s);
  jj_buf buf = {0};
  if (!fill) fill = &space;
  if (ga_jj_points(fill->p, fill->n) != 1)
    return ga_fail(GA_ERR_FORMAT, "padding: the fill character must be one character");
  if (gap < 0) gap = 0;
  GA_TRY(ga_jj_step(run, (uint64_t)gap / 8));
  /* str.center puts the odd one left when the width is odd too */
  int64_t before = side < 0 ? 0 : side > 0 ? gap : gap / 2 + (gap & width & 1), after = gap - before;
  while (before--) GA_TRY(ga_jj_buf_part(run, &buf, fill, 0, fill->n));
  GA_TRY(ga_jj_buf_part(run, &buf, s, 0, s->n));
  while (after--) GA_TRY(ga_jj_buf_part(run, &buf, fill, 0, fill->n));
  return ga_jj_buf_str(run, &buf, out);
}

ga_status ga_jj_strip_paid(jj_run *run, const jj_str *s, const jj_str *chars, int sides, jj_val *out) {
  jj_str kept;
  uint64_t cost;
  if (!ga_mul_ok(s->n / 16 + 1, chars ? chars->n / 16 + 1 : 1, &cost)) cost = UINT64_MAX;
  GA_TRY(ga_jj_step(run, cost));
  kept = ga_jj_strip(s, chars, sides);
  return ga_jj_str_part(run, &kept, 0, kept.n, out);
}
