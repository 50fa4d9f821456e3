/* The functions of ga bench that cli/bench.c calls. Each prints its report and returns an exit code. */
#ifndef GA_VERIFY_BENCH_FRONT_H
#define GA_VERIFY_BENCH_FRONT_H

#include "ga/llm.h"

typedef struct bench_options {
  const char *device, *shapes;
  double seconds; /* seconds of measuring for each row and shape */
  uint64_t seed;
  int threads;
  bool hot; /* true: all calls use the same buffers, instead of rotating through sets of them */
} bench_options;

/* Times the kernels whose ids match `patterns`. Prints a line for each, or JSON. */
int bench_kernels(const bench_options *o, const char *patterns, bool json);

/* ga bench --error: prints the error of FP8 attention for each way of choosing scales. */
int bench_accuracy(const bench_options *o);

/* Prints the changes of times between two files that `ga bench --json` has written. */
int bench_compare(const char *before, const char *after);

/* ga bench --replay: replays a file of --trace-experts through caches of experts, and prints their hit rates. */
int bench_replay(const char *path, bool json);

/* ga bench --serve: times a server, with options of its own. If help is requested without --serve, it prints the second
 * half of the help of ga bench. argv[0] is "bench". */
int bench_serve(int argc, char **argv);

/* An open model with a session, owned by the caller. The context ctx[n_ctx - 1] computes the logits. */
typedef struct bench_model_target {
  ga_ctx *const *ctx; /* [n_ctx] contexts of the model's devices */
  int32_t n_ctx;
  ga_model *model;
  ga_session *session;
} bench_model_target;

typedef struct bench_model_args {
  int64_t prompt; /* number of tokens of the prompt */
  int64_t decode; /* number of tokens to decode */
  int64_t depth;  /* number of tokens in the cache before decoding */
  int64_t repeat; /* number of rounds of measuring */
  double energy;  /* seconds of a window in which energy is measured; 0 = times are measured instead */
  bool json;
} bench_model_args;

/* ga bench --model: measures prefill and decode of a whole model. */
int bench_model(const bench_model_args *a, const bench_model_target *o);

#endif
