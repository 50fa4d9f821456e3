#include "engine/pace.h"

#include "base/mem.h"

#define NEW_SHARE 0.2 /* of the newest step in an average */

static const int32_t class_rows[PACE_CLASSES] = {128, 192, 256, 512, 1024, INT32_MAX};
/* Where even the smallest takes too long: that one for many, for a few a size that costs the prompt less. */
enum { CLASS_LEAST = 2, MANY = 8 };

static void average(double *mean, double x) { *mean = *mean > 0 ? *mean + NEW_SHARE * (x - *mean) : x; }

/* What is new about one class is so for all: a longer context, another clock rate. */
static void note_class(step_pace *p, int32_t rows, double token) {
  int c = 0;
  while (class_rows[c] < rows) c++;
  const double before = p->token[c];
  average(&p->token[c], token);
  if (!(before > 0)) return;
  for (int k = 0; k < PACE_CLASSES; k++)
    if (k != c) p->token[k] *= p->token[c] / before;
}

void pace_note(step_pace *p, int32_t n_decode, int32_t n_prompt, double seconds) {
  if (!n_prompt) {
    average(&p->decode, seconds);
    return;
  }
  const double others = n_decode ? p->decode : 0;
  if (n_decode && !(others > 0)) return;       /* nobody can tell the two apart yet */
  const double least = seconds / 8 / n_prompt; /* steps differ: a token of a prompt is never free */
  const double each = (seconds - others) / n_prompt;
  const double token = each > least ? each : least;
  average(&p->prompt_token, token);
  if (n_decode) note_class(p, n_decode + n_prompt, token);
}

int32_t pace_chunk(const step_pace *p, int32_t most) {
  const int32_t least = (int32_t)ga_min_i64(p->least, most);
  if (!(p->decode > 0 && p->prompt_token > 0)) return (int32_t)ga_max_i64(least, most / 4);
  const double stretched = (PACE_STRETCH - 1) * p->decode / p->prompt_token, brief = p->brief / p->prompt_token,
               in_any_case = brief < PACE_TOKENS_CPU ? brief : PACE_TOKENS_CPU,
               tokens = stretched > in_any_case ? stretched : in_any_case;
  if (tokens >= most) return most;
  return tokens > least ? (int32_t)tokens : least;
}

int32_t pace_alone(const step_pace *p, int32_t most, bool is_shared) {
  if (!(p->alone > 0)) return most;
  const int32_t least = PACE_ALONE_LEAST_CPU / (is_shared ? 2 : 1);
  const double tokens = p->prompt_token > 0 ? p->alone / p->prompt_token : least;
  return tokens >= most ? most : (int32_t)ga_min_i64(ga_max_i64(least, (int64_t)tokens), most);
}

/* Of a class that has not been seen, what the nearest one takes, a larger one first. */
static double class_token(const step_pace *p, int c) {
  for (int k = c; k < PACE_CLASSES; k++)
    if (p->token[k] > 0) return p->token[k];
  while (c > 0 && !(p->token[c] > 0)) c--;
  return p->token[c] > 0 ? p->token[c] : p->prompt_token;
}

int32_t pace_even_rows(const step_pace *p, int32_t n_decode) {
  if (!(p->decode > 0 && p->prompt_token > 0)) return 0;
  for (int c = PACE_CLASSES - 2; c >= 0; c--) {
    const int32_t n = class_rows[c] - n_decode;
    if (n > 0 && p->decode + n * class_token(p, c) <= PACE_EVEN * p->decode) return class_rows[c];
  }
  const int32_t rows = class_rows[n_decode < MANY ? CLASS_LEAST : 0];
  return (int32_t)ga_max_i64(rows, (int64_t)n_decode + p->least / (n_decode < MANY ? 2 : 4));
}
