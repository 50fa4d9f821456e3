#include "cli/sampling.h"

#include <string.h>
#include <time.h>

#include "cli/sampling_model.h"
#include "cmdline/error.h"
#include "cmdline/words.h"

static uint64_t clock_seed(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_REALTIME, &t);
  return (uint64_t)t.tv_sec * 1000000007u + (uint64_t)t.tv_nsec;
}

int sampling_check(const char *name, sampling_args *a) {
  a->has_presence = cmd_is_given(&a->presence);
  a->has_frequency = cmd_is_given(&a->frequency);
  a->has_seed = cmd_is_given(&a->seed);
  a->has_max_tokens = cmd_is_given(&a->max_tokens);
  a->has_repeat_last = cmd_is_given(&a->repeat_last);
  if (a->max_tokens == 0)
    return cmd_usage_error(name, "--max-tokens '0': must be at least 1, or -1 for an answer to its end");
  return EXIT_OK;
}

static void take_default(double *value, double with) {
  if (isnan(*value)) *value = with;
}

static void take_whole(int64_t *value, bool is_given, int64_t with) {
  if (!is_given && with != MODELFILE_NONE) *value = with;
}

static void fill_from_named(sampling_args *a, const modelfile *m) {
  take_default(&a->temperature, m->temperature);
  take_default(&a->top_p, m->top_p);
  take_default(&a->min_p, m->min_p);
  take_default(&a->repeat, m->repeat);
  if (!a->has_presence && !isnan(m->presence)) a->presence = m->presence;
  if (!a->has_frequency && !isnan(m->frequency)) a->frequency = m->frequency;
  take_whole(&a->top_k, a->top_k >= 0, m->top_k);
  take_whole(&a->seed, a->has_seed, m->seed);
  take_whole(&a->repeat_last, a->has_repeat_last, m->repeat_last);
  take_whole(&a->max_tokens, a->has_max_tokens, m->max_tokens < 0 && m->max_tokens > -3 ? -1 : m->max_tokens);
  for (size_t i = 0; !a->stop.n && i < m->n_stop; i++) a->stop.item[i] = m->stop[i];
  if (!a->stop.n) a->stop.n = m->n_stop;
}

static void fill_all(sampling_args *a, const model_sampling *m) {
  take_default(&a->temperature, m->temperature);
  const bool greedy = a->temperature == 0;
  take_default(&a->top_p, m->top_p);
  take_default(&a->min_p, m->min_p);
  take_default(&a->repeat, greedy ? 1 : m->repeat);
  if (a->top_k < 0) a->top_k = m->top_k;
}

ga_status sampling_defaults(const char *path, model_sampling *out) {
  TRY(model_sampling_read(path, out));
  if (!out->found)
    *out = (model_sampling){.temperature = FALLBACK_TEMPERATURE,
                            .top_p = FALLBACK_TOP_P,
                            .repeat = FALLBACK_REPEAT,
                            .top_k = FALLBACK_TOP_K};
  return GA_OK;
}

ga_status sampling_fill(sampling_args *a, const char *path, const modelfile *named, bool is_answer) {
  model_sampling m = {.temperature = 0, .top_p = 1, .min_p = 0, .repeat = 1, .top_k = 0};
  fill_from_named(a, named);
  if (is_answer) TRY(sampling_defaults(path, &m));
  fill_all(a, &m);
  return GA_OK;
}

void sampling_apply(const sampling_args *a, ga_generate_options *o, ga_sample_desc *sample) {
  const int64_t most = a->max_tokens < 0 ? INT32_MAX : a->max_tokens;
  o->sample = sample;
  o->max_tokens = (int32_t)(most < INT32_MAX ? most : INT32_MAX);
  o->seed = a->seed < 0 ? clock_seed() : (uint64_t)a->seed;
  const bool penalties = a->repeat_last != 0; /* the library takes 0 for its default */
  o->penalty_last = (int32_t)(a->repeat_last < INT32_MAX ? a->repeat_last : INT32_MAX);
  sample->temperature = (float)a->temperature;
  sample->top_k = (int32_t)(a->top_k < INT32_MAX ? a->top_k : INT32_MAX);
  sample->top_p = (float)a->top_p;
  sample->min_p = (float)a->min_p;
  sample->typical_p = (float)a->typical;
  sample->repetition_penalty = penalties ? (float)a->repeat : 1;
  sample->presence_penalty = penalties ? (float)a->presence : 0;
  sample->frequency_penalty = penalties ? (float)a->frequency : 0;
}

static double rate(int32_t n, double seconds) { return seconds > 0 ? n / seconds : 0; }

void print_speed(const ga_generate_result *r) {
  /* The first token comes out of the prompt's pass, so n - 1 were decoded one by one. */
  int32_t decoded = r->n_generated > 1 ? r->n_generated - 1 : 0;
  (void)fflush(stdout); /* both may be one file */
  words_print(stderr, 2, "prompt %d tokens in %.3f s (%.1f tok/s), generated %d in %.3f s (%.1f tok/s)\n", r->n_prompt,
              r->prompt_seconds, rate(r->n_prompt, r->prompt_seconds), r->n_generated, r->generate_seconds,
              rate(decoded, r->generate_seconds));
}

void print_cut(const ga_generate_result *r) {
  (void)fflush(stdout);
  if (r->finish == GA_FINISH_LENGTH)
    words_print(stderr, 2, "(cut after %d token%s; -n N allows more, -n -1 goes on to the end)\n", r->n_generated,
                r->n_generated == 1 ? "" : "s");
  if (r->finish == GA_FINISH_CONTEXT)
    words_print(stderr, 2, "(cut after %d token%s: the context is full; -c N makes it larger)\n", r->n_generated,
                r->n_generated == 1 ? "" : "s");
}
