/* Sampling options that `ga run` and `ga chat` share. Their defaults are the model's own values, where its files have
 * them. */
#ifndef GA_CLI_SAMPLING_H
#define GA_CLI_SAMPLING_H

#include <math.h>

#include "cli/open.h"
#include "cli/sampling_model.h"

typedef struct sampling_args {
  /* temperature, top_p, min_p, repeat: NaN if the option was not given */
  double temperature, top_p, min_p, typical, repeat, presence, frequency;
  int64_t top_k, seed, max_tokens, repeat_last; /* top_k: -1 if the option was not given */
  /* whether the options were given; sampling_check sets these */
  bool has_presence, has_frequency, has_seed, has_max_tokens, has_repeat_last;
  cmd_texts stop;
} sampling_args;

#define SAMPLING_DEFAULTS                                                                                        \
  {                                                                                                              \
    .temperature = NAN, .top_p = NAN, .min_p = NAN, .typical = 1, .repeat = NAN, .top_k = -1, .max_tokens = 256, \
    .repeat_last = 64, .seed = -1                                                                                \
  }

/* Defaults for a model whose files have no sampling values: top-k and top-p (nucleus) sampling (arXiv 1904.09751), with
 * a repetition penalty. The penalty is small enough not to change names and code. */
#define FALLBACK_TEMPERATURE 0.7
#define FALLBACK_TOP_P       0.9
#define FALLBACK_TOP_K       40
#define FALLBACK_REPEAT      1.1

#define SAMPLING_OPTIONS(a)                                                                                           \
  {"max-tokens", 'n', OPT_INT, &(a).max_tokens, -1, 1e9, "N", "most tokens to generate; -1 = to the end"},            \
      {"temp",                                                                                                        \
       0,                                                                                                             \
       OPT_FLOAT,                                                                                                     \
       &(a).temperature,                                                                                              \
       0,                                                                                                             \
       100,                                                                                                           \
       "T",                                                                                                           \
       "temperature; 0 = the likeliest token always. Default: the model's own, else 0.7; 0 without a chat template"}, \
      {"top-k", 0,   OPT_INT, &(a).top_k,                                                                             \
       0,       1e9, "K",     "keep the K likeliest; 0 = all. Default: the model's own, else 40"},                    \
      {"top-p", 0, OPT_FLOAT, &(a).top_p,                                                                             \
       1e-6,    1, "P",       "keep the likeliest that add up to P; 1 = all. Default: the model's own, else 0.9"},    \
      {"min-p",   0,                                                                                                  \
       OPT_FLOAT, &(a).min_p,                                                                                         \
       0,         0.999999,                                                                                           \
       "P",       "drop those below P times the likeliest; 0 = none. Default: the model's own, else 0"},              \
      {"typical", 0, OPT_FLOAT, &(a).typical, 1e-6, 1, "P", "locally typical sampling; 1 = off"},                     \
      {"repeat-penalty",                                                                                              \
       0,                                                                                                             \
       OPT_FLOAT,                                                                                                     \
       &(a).repeat,                                                                                                   \
       1e-6,                                                                                                          \
       100,                                                                                                           \
       "X",                                                                                                           \
       "divide logits of seen tokens; 1 = off. Default: the model's own, else 1.1"},                                  \
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
      {"seed", 's', OPT_INT, &(a).seed, -1, 9e18, "N", "random seed; -1 = from the clock"}, {                         \
    "stop", 0, OPT_LIST, &(a).stop, 0, 0, "TEXT", "the answer ends before this text; may be given several times"      \
  }

/* Checks sampling options. Returns EXIT_OK, or prints an error and returns EXIT_USAGE. name: the command's name. */
int sampling_check(const char *name, sampling_args *a);

/* Reads the values of the model's files; else out->found is false, and the values are FALLBACK_*. */
ga_status sampling_defaults(const char *path, model_sampling *out);
/* Fills in options that were not given: from the Modelfile `named` first, which may be empty. Answers through a chat
 * template (is_answer) then get the values of the model's files, else FALLBACK_*. Without a template the defaults are
 * greedy. Greedy sampling gets no penalty unless one was given. A model's value that is out of range is reported on
 * stderr and ignored. path: path of the model. */
ga_status sampling_fill(sampling_args *a, const char *path, const modelfile *named, bool is_answer);
/* Sets *o and *sample from the options. *o points to *sample, which must outlive it. */
void sampling_apply(const sampling_args *a, ga_generate_options *o, ga_sample_desc *sample);

/* Prints the speed of a generation on stderr, such as "prompt 12 tokens, 34.5 tok/s; ...". Flushes stdout before. */
void print_speed(const ga_generate_result *r);
/* Prints on stderr that the answer was cut, if it reached the limit of tokens or of the context. */
void print_cut(const ga_generate_result *r);

#endif
