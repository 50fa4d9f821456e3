/* Options and helpers of the commands that run an engine, such as `ga serve`. */
#ifndef GA_CLI_ENGINE_ARGS_H
#define GA_CLI_ENGINE_ARGS_H

#include "cli/open.h"
#include "ga/engine.h"
#include "names/names.h"
#include "serve/profile.h"
#include "serve/tool_calls.h"

typedef struct engine_args {
  open_args open;
  const char *alias, *tools;
  int64_t max_sequences, step_tokens, kv_tokens;
  double swap_gib;
  bool no_prefix_cache, no_reasoning, offload_prefixes, time_steps;
} engine_args;
#define ENGINE_ARGS_INIT \
  { .open = {.model = ga_known_models[0].name, OPEN_ARGS_INIT}, .tools = "auto" }

/* Rows of a command's option table that set the fields of `a`, an engine_args. They stand after OPEN_MODEL_OPTIONS. */
#define ENGINE_OPTIONS(a)                                                                                          \
  {"alias", 0, OPT_STRING, &(a).alias,                                                                             \
   0,       0, "NAME",     "names of the model in requests, separated by commas; else the name of its file"},      \
      {"context", 'c', OPT_INT, &(a).open.context,                                                                 \
       0,         1e9, "N",     "tokens of the longest sequence; 0 = the model's own, on a CPU at most 4096"},     \
      {"max-sequences",                                                                                            \
       0,                                                                                                          \
       OPT_INT,                                                                                                    \
       &(a).max_sequences,                                                                                         \
       0,                                                                                                          \
       1024,                                                                                                       \
       "N",                                                                                                        \
       "requests that run at once; 0 = 16 on a CPU, 256 on a GPU"},                                                \
      {"step-tokens",                                                                                              \
       0,                                                                                                          \
       OPT_INT,                                                                                                    \
       &(a).step_tokens,                                                                                           \
       0,                                                                                                          \
       16384,                                                                                                      \
       "N",                                                                                                        \
       "tokens of one step; 0 = 512 on a CPU, 2048 on a GPU"},                                                     \
      {"kv-tokens", 0,    OPT_INT, &(a).kv_tokens,                                                                 \
       0,           1e12, "N",     "tokens that the KV cache holds; 0 = as many as memory allows"},                \
      {"kv-type", 0, OPT_STRING, &(a).open.kv_type, 0, 0, "TYPE", "KV cache: f16, f32, bf16, e4m3, q8_0, q4_0"},   \
      OPEN_EXPERT_OPTIONS((a).open), OPEN_ACTIVATIONS_OPTION((a).open),                                            \
      {"swap-space",                                                                                               \
       0,                                                                                                          \
       OPT_FLOAT,                                                                                                  \
       &(a).swap_gib,                                                                                              \
       0,                                                                                                          \
       1e6,                                                                                                        \
       "GIB",                                                                                                      \
       "host memory for the KV pages of requests that make room for others; 0 = they are evaluated again"},        \
      {"offload-prefixes",                                                                                         \
       0,                                                                                                          \
       OPT_FLAG,                                                                                                   \
       &(a).offload_prefixes,                                                                                      \
       0,                                                                                                          \
       0,                                                                                                          \
       NULL,                                                                                                       \
       "keys and values of earlier prompts go to the swap space, too; needs --swap-space"},                        \
      {"deterministic",                                                                                            \
       0,                                                                                                          \
       OPT_FLAG,                                                                                                   \
       &(a).open.deterministic,                                                                                    \
       0,                                                                                                          \
       0,                                                                                                          \
       NULL,                                                                                                       \
       "the same request gives the same answer to the bit, whatever else runs; slower"},                           \
      {"no-prefix-cache",                                                                                          \
       0,                                                                                                          \
       OPT_FLAG,                                                                                                   \
       &(a).no_prefix_cache,                                                                                       \
       0,                                                                                                          \
       0,                                                                                                          \
       NULL,                                                                                                       \
       "do not keep the keys and values of earlier prompts"},                                                      \
      {"tool-call-parser",                                                                                         \
       0,                                                                                                          \
       OPT_STRING,                                                                                                 \
       &(a).tools,                                                                                                 \
       0,                                                                                                          \
       0,                                                                                                          \
       "NAME",                                                                                                     \
       "how the model writes tool calls: auto (by its template), none, hermes, qwen3_coder, llama3, mistral"},     \
      OPEN_TEMPLATE_OPTION((a).open),                                                                              \
      {"time-steps", 0, OPT_FLAG, &(a).time_steps, 0, 0, NULL, "measure the time between steps for /metrics"},     \
      {"no-reasoning", 0, OPT_FLAG, &(a).no_reasoning, 0, 0, NULL, "leave <think> in the content of answers"}, {   \
    "explain", 0, OPT_FLAG, &(a).open.explain, 0, 0, NULL, "at the end: which kernel was chosen for what, and why" \
  }

/* Writes the model's name in requests: the first name of --alias, else the name of its file or folder. It is "" if
 * --alias is empty. */
void engine_model_name(const engine_args *a, char *name, size_t capacity);
/* Finds the format of the model's tool calls, and whether it writes reasoning, by the markers in its chat template:
 * that of the profile, else the model's own. --tool-call-parser and --no-reasoning have precedence. */
ga_status engine_formats(const engine_args *a, const sv_profile *profile, tool_format *tools, bool *thinks);
/* Finds the model's profile: the chat template of --chat-template, the values of a named model's Modelfile, and the
 * defaults of sampling. Defaults come from the Modelfile, else from the model's files, else from `ga run`. The
 * caller releases *out with sv_profile_free. */
ga_status engine_profile(const engine_args *a, sv_profile *out);
/* Checks options that depend on each other. Returns 0, or an exit code after printing an error. name: the command's
 * name. */
int engine_check(const char *name, const engine_args *a);
/* Creates an engine for the model. *out is NULL if the model is an encoder, for which there is no engine. */
ga_status engine_open(const engine_args *a, int32_t max_waiting, ga_model *model, ga_engine **out);

#endif
