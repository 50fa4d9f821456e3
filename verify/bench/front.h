/* The front door of ga bench, for cli/bench.c. Each function prints its report and returns an exit code. */
#ifndef GA_VERIFY_BENCH_FRONT_H
#define GA_VERIFY_BENCH_FRONT_H

#include "ga/llm.h"

typedef struct bench_options {
  const char *device, *shapes;
  double seconds; /* seconds for each row and shape */
  uint64_t seed;
  int threads;
  bool hot; /* true: one set of buffers is used again and again, instead of rotating */
} bench_options;

/* Times the kernels whose ids match `patterns`; prints a line for each, or JSON. */
int bench_kernels(const bench_options *o, const char *patterns, bool json);

/* ga bench --error: prints the error of FP8 attention for each kind of scales. */
int bench_accuracy(const bench_options *o);

/* Prints the changes between two files of `ga bench --json`. */
int bench_compare(const char *before, const char *after);

/* ga bench --serve: times a server, with its own options. With a request for help and without --serve, prints the
 * second half of the help of ga bench. argv[0] is "bench". */
int bench_serve(int argc, char **argv);

/* An open model with a session, owned by the caller. The last context computes the logits. */
typedef struct bench_model_target {
  ga_ctx *const *ctx; /* [n_ctx] */
  int32_t n_ctx;
  ga_model *model;
  ga_session *session;
} bench_model_target;

typedef struct bench_model_args {
  int64_t prompt; /* tokens of the prompt */
  int64_t decode; /* tokens to decode */
  int64_t depth;  /* tokens in the cache before decoding */
  int64_t repeat; /* number of rounds */
  double energy;  /* seconds of a window for measuring energy; 0 = times are measured instead */
  bool json;
} bench_model_args;

/* ga bench --model: prefill and decode of a whole model. */
int bench_model(const bench_model_args *a, const bench_model_target *o);

#endif
