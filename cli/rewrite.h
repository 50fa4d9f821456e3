/* Code that `ga quantize` and `ga convert` share: it writes the new file, and a report on its tensors. */
#ifndef GA_CLI_REWRITE_H
#define GA_CLI_REWRITE_H

#include "cli/commands.h"

typedef struct rewrite_args {
  const char *in;  /* path of the model, or name of a pulled one */
  const char *out; /* path of the new file */
  const char *type, *importance;
  cmd_texts tensor_types;
  int64_t threads;
  bool force, pure, json, each, dry_run;
} rewrite_args;

/* Rows of a command's option table that set the fields of `a`, a rewrite_args. */
#define REWRITE_OPTIONS(a)                                                                                  \
  {"threads", 't', OPT_INT, &(a).threads, 0, 1024, "N", "CPU threads; 0 = one per CPU"},                    \
      {"force", 'f', OPT_FLAG, &(a).force, 0, 0, NULL, "overwrite OUT if it is there"},                     \
      {"dry-run", 0, OPT_FLAG, &(a).dry_run, 0, 0, NULL, "print what would be written, and write nothing"}, \
      {"each", 'v', OPT_FLAG, &(a).each, 0, 0, NULL, "a line for each tensor: its type before and now"}, {  \
    "json", 0, OPT_FLAG, &(a).json, 0, 0, NULL, "one JSON object on stdout"                                 \
  }

/* The names of the types to which tensors can be converted, for a help line. */
#define REWRITE_TYPES                                                                                            \
  "f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q2_k, q2_k_s, q3_k_s, q3_k_m, q3_k_l, q4_k_s, q4_k_m, q5_k_s, " \
  "q5_k_m, q6_k, iq4_nl, iq4_xs, mxfp4, copy"

/* Writes the new file, prints the report and returns an exit code. name: the command's name. */
int rewrite_model(const char *name, const rewrite_args *a);

#endif
