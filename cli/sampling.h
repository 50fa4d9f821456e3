/* Sampling options that `ga run` and `ga chat` share. */
#ifndef GA_CLI_SAMPLING_H
#define GA_CLI_SAMPLING_H

#include "cli/open.h"

typedef struct sampling_args {
  double temperature, top_p, min_p, typical, repeat, presence, frequency;
  int64_t top_k, seed, max_tokens, repeat_last;
} sampling_args;

#define SAMPLING_DEFAULTS \
  { .top_p = 1, .typical = 1, .repeat = 1, .max_tokens = 256, .repeat_last = 64, .seed = -1 }

#define SAMPLING_OPTIONS(a)                                                                                           \
  {"max-tokens", 'n', OPT_INT, &(a).max_tokens, 1, 1e9, "N", "most tokens to generate"},                              \
      {"temp", 0, OPT_FLOAT, &(a).temperature, 0, 100, "T", "temperature; 0 = the likeliest token always"},           \
      {"top-k", 0, OPT_INT, &(a).top_k, 0, 1e9, "K", "keep the K likeliest; 0 = all"},                                \
      {"top-p", 0, OPT_FLOAT, &(a).top_p, 1e-6, 1, "P", "keep the likeliest that add up to P; 1 = all"},              \
      {"min-p", 0, OPT_FLOAT, &(a).min_p, 0, 0.999999, "P", "drop those below P times the likeliest; 0 = none"},      \
      {"typical", 0, OPT_FLOAT, &(a).typical, 1e-6, 1, "P", "locally typical sampling; 1 = off"},                     \
      {"repeat-penalty", 0, OPT_FLOAT, &(a).repeat, 1e-6, 100, "X", "divide logits of seen tokens; 1 = off"},         \
      {"repeat-last",                                                                                                 \
       0,                                                                                                             \
       OPT_INT,                                                                                                       \
       &(a).repeat_last,                                                                                              \
       -1,                                                                                                            \
       1e9,                                                                                                           \
       "N",                                                                                                           \
       "tokens that penalties look back on; -1 = all, 0 = none"},                                                     \
      {"presence-penalty", 0, OPT_FLOAT, &(a).presence, -100, 100, "X", "subtract from logits of seen tokens"},       \
      {"frequency-penalty", 0, OPT_FLOAT, &(a).frequency, -100, 100, "X", "subtract for each time a token was seen"}, \
  {                                                                                                                   \
    "seed", 's', OPT_INT, &(a).seed, -1, 9e18, "N", "random seed; -1 = from the clock"                                \
  }

/* *sample must live as long as *o. */
void sampling_apply(const sampling_args *a, ga_generate_options *o, ga_sample_desc *sample);

/* Prints "prompt 12 tokens, 34.5 tok/s; ..." on stderr. */
void print_speed(const ga_generate_result *r);

#endif
