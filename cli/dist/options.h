/* Rows of option tables that several verbs of `ga dist` share. */
#ifndef GA_CLI_DIST_OPTIONS_H
#define GA_CLI_DIST_OPTIONS_H

#include "cmdline/cmd.h"

/* Each macro makes one row of an option table. value: the variable that the option sets; it has the default before
 * parsing. */
#define DIST_FLAG(name, value, help) \
  { name, 0, OPT_FLAG, &(value), 0, 0, NULL, help }
#define DIST_WORD(name, value, arg, help) \
  { name, 0, OPT_STRING, &(value), 0, 0, arg, help }
#define DIST_INT(name, value, min, max, arg, help) \
  { name, 0, OPT_INT, &(value), min, max, arg, help }
#define DIST_FLOAT(name, value, min, max, arg, help) \
  { name, 0, OPT_FLOAT, &(value), min, max, arg, help }
#define DIST_METHOD(value, help) \
  { "method", 'm', OPT_STRING, &(value), 0, 0, "NAME", help }
#define DIST_RANKS(value, max, help) \
  { "ranks", 'n', OPT_INT, &(value), 1, max, "N", help }
#define DIST_SEED(value, help) \
  { "seed", 's', OPT_INT, &(value), 0, 0, "SEED", help }
#define DIST_COPIES(value, help) \
  { "copies", 0, OPT_STRING, &(value), 0, 0, "NAME", help }

/* Rows of an option table that set the fields of `s`, a dist_shape. */
#define DIST_SHAPE_OPTIONS(s)                                                                                         \
  DIST_WORD("tokens", (s).tokens, "LIST", "tokens of each document"),                                                 \
      DIST_WORD("queries", (s).queries, "LIST", "queries of each document, its last tokens; else all"),               \
      DIST_INT("heads", (s).heads, 1, 65536, "N", "of queries"),                                                      \
      DIST_INT("kv-heads", (s).kv_heads, 1, 65536, "N", "of keys and values; divides --heads"),                       \
      DIST_INT("head-dim", (s).head_dim, 1, 1024, "N", "elements of a head"),                                         \
      DIST_INT("v-dim", (s).v_dim, 0, 1024, "N", "elements of a value; 0 = --head-dim"),                              \
      DIST_FLAG("full", (s).full, "no causal mask"),                                                                  \
      DIST_INT("window", (s).window, 0, 2147483647, "N",                                                              \
               "keys that a query sees, its own included; 0 = all before it"),                                        \
      DIST_FLAG("backward", (s).backward, "the gradients"),                                                           \
      DIST_FLAG("unordered", (s).unordered,                                                                           \
                "backward on GPUs: sums in no fixed order, faster; two runs differ in last bits"),                    \
      DIST_WORD("order", (s).order, "NAME",                                                                           \
                "of tokens: contiguous, striped, zigzag, chunks, doc-zigzag, pieces, documents, method"),             \
      DIST_INT("chunks", (s).chunks, 1, 1024, "N", "with order chunks or pieces: how many a rank has"),               \
      DIST_WORD("grid", (s).grid, "HxQxKV", "ranks by heads, queries and keys; 0 = as the method has it"),            \
      DIST_INT("inner", (s).inner, 0, 4096, "N",                                                                      \
               "ranks of the inner ring of a double ring; 0 = as the method has it"),                                 \
      DIST_WORD("need", (s).need, "NAME",                                                                             \
                "which data is sent: all, needed blocks, needed stretches, or as the method does"),                   \
      DIST_WORD("type", (s).type, "TYPE", "of inputs and results: f32, f16, bf16"),                                   \
      DIST_WORD(                                                                                                      \
          "partials", (s).partials, "TYPE",                                                                           \
          "type of partial results: f32; or type, which means that of --type, with errors that grow with the ranks"), \
      DIST_INT("prefetch", (s).prefetch, 0, 1024, "N", "stages between the arrival of data and its use; 0 = 1"),      \
      DIST_INT("groups", (s).groups, 0, 8, "N",                                                                       \
               "GPUs that gather keys or split heads: number of groups of heads; one is sent while another is "       \
               "computed; 0 = by the shape")

/* Rows of an option table that set the fields of `m`, a dist_machine: the machine for simulate and -m auto. */
#define DIST_MACHINE_OPTIONS(m)                                                                                       \
  DIST_FLOAT("tflops", (m).tflops, 1e-6, 1e9, "X", "arithmetic of attention, 10^12 a second and rank"),               \
      DIST_FLOAT("merged-tflops", (m).merged_tflops, 0, 1e9, "X",                                                     \
                 "on GPUs, the same for tiles whose results are merged, with merging; 0 = as --tflops; on GPUs 0.78 " \
                 "of it, and passes over memory"),                                                                    \
      DIST_FLOAT("backward-tflops", (m).backward_tflops, 0, 1e9, "X",                                                 \
                 "the same of gradients; 0 = as --tflops, on GPUs 0.73 of it, 0.87 with --unordered: medians of one " \
                 "H200"),                                                                                             \
      DIST_FLOAT(                                                                                                     \
          "memory-gbytes", (m).memory_gbytes, -1, 1e9, "X",                                                           \
          "memory that partial results pass through, 10^9 bytes a second; 0 = in --merged-tflops; -1 = on GPUs "      \
          "2200: fitted to two H200"),                                                                                \
      DIST_FLOAT("gbytes", (m).gbytes, 1e-6, 1e9, "X",                                                                \
                 "speed of a rank's incoming link, and of its outgoing one, 10^9 bytes a second"),                    \
      DIST_FLOAT("latency", (m).latency, -1, 1e9, "US",                                                               \
                 "microseconds of a transfer; -1 = 5, on GPUs 8: fitted to two and four H200 "                        \
                 "(docs/results/distributed.md)"),                                                                    \
      DIST_FLOAT("launch", (m).launch, -1, 1e9, "US",                                                                 \
                 "microseconds of a call beside its arithmetic; -1 = 5, on GPUs 15: fitted as --latency"),            \
      DIST_FLOAT("start-keys", (m).start_keys, -1, 1e9, "N",                                                          \
                 "fixed time of a kernel's tile, as the number of keys that would take as long; -1 = on GPUs 230: "   \
                 "fitted to one H200"),                                                                               \
      DIST_FLOAT(                                                                                                     \
          "start-queries", (m).start_queries, -1, 1e9, "N",                                                           \
          "the same of gradients, in queries of a key; -1 = on GPUs 2050, 400 with --unordered: fitted to H200"),     \
      DIST_WORD("rates", (m).rates, "FILE",                                                                           \
                "rates measured by size, instead of the numbers above: JSON of ga bench or ga dist links, or lists "  \
                "(docs/guide/distributed.md)")

/* Rows of an option table that set the fields of `r`, a dist_ranks, for verbs that start ranks. */
#define DIST_RANKS_OPTIONS(r)                                                                                    \
  DIST_RANKS((r).n, 4096, "number of ranks, at most 64; else as a launcher such as mpirun says, or 4"),          \
      DIST_WORD("transport", (r).transport, "NAME", "ranks are threads, processes, or mpi: those of mpirun"),    \
      DIST_WORD("device", (r).device, "LIST",                                                                    \
                "cpu, or cuda:0,cuda:1,...: one for each rank, from the first again when there are more ranks"), \
      DIST_SEED((r).seed, "of random numbers, and of the order in which messages arrive; 0 = at once"),          \
      DIST_FLAG("buffered", (r).buffered, "sends do not wait for their receiver"),                               \
      DIST_FLOAT("timeout", (r).timeout, 0.01, 86400, "S",                                                       \
                 "a rank that waits longer for another ends the run for all")

#define DIST_JSON_OPTION(value) DIST_FLAG("json", value, "JSON on stdout")

#endif
