#include "engine/pace.h"

#include "base/mem.h"

#define NEW_SHARE 0.2 /* of the newest step in an average */

static void average(double *mean, double x) { *mean = *mean > 0 ? *mean + NEW_SHARE * (x - *mean) : x; }

void pace_note(step_pace *p, int32_t n_decode, int32_t n_prompt, double seconds) {
  if (!n_prompt) {
    average(&p->decode, seconds);
    return;
  }
  const double others = n_decode ? p->decode : 0;
  if (n_decode && !(others > 0)) return;       /* nobody can tell the two apart yet */
  const double least = seconds / 8 / n_prompt; /* steps differ: a token of a prompt is never free */
  const double each = (seconds - others) / n_prompt;
  average(&p->prompt_token, each > least ? each : least);
}

int32_t pace_chunk(const step_pace *p, int32_t most) {
  const int32_t least = (int32_t)ga_min_i64(p->least, most);
  if (!(p->decode > 0 && p->prompt_token > 0)) return (int32_t)ga_max_i64(least, most / 4);
  const double tokens = (PACE_STRETCH - 1) * p->decode / p->prompt_token;
  if (tokens >= most) return most;
  return tokens > least ? (int32_t)tokens : least;
}
