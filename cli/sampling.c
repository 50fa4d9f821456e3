#include "cli/sampling.h"

#include <time.h>

static uint64_t clock_seed(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_REALTIME, &t);
  return (uint64_t)t.tv_sec * 1000000007u + (uint64_t)t.tv_nsec;
}

void sampling_apply(const sampling_args *a, ga_generate_options *o, ga_sample_desc *sample) {
  o->sample = sample;
  o->max_tokens = (int32_t)(a->max_tokens < INT32_MAX ? a->max_tokens : INT32_MAX);
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
  (void)fprintf(stderr, "prompt %d tokens in %.3f s (%.1f tok/s), generated %d in %.3f s (%.1f tok/s)\n", r->n_prompt,
                r->prompt_seconds, rate(r->n_prompt, r->prompt_seconds), r->n_generated, r->generate_seconds,
                rate(decoded, r->generate_seconds));
}
