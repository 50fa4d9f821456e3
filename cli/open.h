/* Options and helpers of the commands that use a model. They find the file, open the device, and load the model with a
 * progress bar. */
#ifndef GA_CLI_OPEN_H
#define GA_CLI_OPEN_H

#include "cli/commands.h"
#include "cli/folders.h"
#include "cli/modelfile.h"
#include "cmdline/interrupt.h"
#include "ga/llm.h"

typedef struct open_args {
  const char *model;  /* path of a model, or name of a pulled one; NULL = the default model */
  const char *device; /* name of a device, or several separated by commas; NULL = auto */
  int64_t threads, context, batch, gpu_layers, n_cpu_moe;
  const char *trace_experts; /* file for the experts that tokens choose; NULL: none */
  double expert_cache;       /* GiB of GPU memory for a cache of experts that are in host memory */
  const char *kv_type;
  const char *activations;   /* type of the inputs of matrix products with FP8 weights: "full" or "e4m3" */
  const char *chat_template; /* name or file of a chat template that replaces the model's own; NULL = the model's own */
  bool explain, deterministic, no_mmap, cpu_moe;
} open_args;

/* Rows of a command's option table that set the fields of `a`, an open_args. */
#define OPEN_DEVICE_OPTIONS(a)                                                                                         \
  {"device",   'd',                                                                                                    \
   OPT_STRING, &(a).device,                                                                                            \
   0,          0,                                                                                                      \
   "DEVICE",   "auto, cpu, ref (the oracles, slow) or cuda:N; for a model also cuda:0,cuda:1: they share its layers"}, \
  {                                                                                                                    \
    "threads", 't', OPT_INT, &(a).threads, 0, 1024, "N", "CPU threads; 0 = one per CPU"                                \
  }
#define OPEN_MODEL_OPTIONS(a)                                                                                    \
  {"model", 'm', OPT_STRING, &(a).model,                                                                         \
   0,       0,   "MODEL",    "file, folder, name of a pulled model (ga list), or hf:ORG/REPOSITORY[:TYPE]"},     \
      {"no-mmap", 0, OPT_FLAG, &(a).no_mmap,                                                                     \
       0,         0, NULL,     "read the model into memory instead of mapping its file, which may then change"}, \
      OPEN_DEVICE_OPTIONS(a)
#define OPEN_TEMPLATE_OPTION(a)                                                                                \
  {                                                                                                            \
    "chat-template", 0, OPT_STRING, &(a).chat_template, 0, 0, "NAME",                                          \
        "chat template in the place of the model's: chatml, gemma, llama3, mistral, plain, or a file in Jinja" \
  }
/* Rows of a command's option table that place the experts of a model; `a` is an open_args. */
#define OPEN_EXPERT_OPTIONS(a)                                                                                     \
  {"cpu-moe", 0,                                                                                                   \
   OPT_FLAG,  &(a).cpu_moe,                                                                                        \
   0,         0,                                                                                                   \
   NULL,      "the experts of all layers stay in host memory: the CPU multiplies by them, the GPU does the rest"}, \
      {"n-cpu-moe",                                                                                                \
       0,                                                                                                          \
       OPT_INT,                                                                                                    \
       &(a).n_cpu_moe,                                                                                             \
       -1,                                                                                                         \
       512,                                                                                                        \
       "N",                                                                                                        \
       "so do the experts of the first N layers; -1 = as few as the GPU's memory needs, before whole layers"},     \
  {                                                                                                                \
    "expert-cache", 0, OPT_FLOAT, &(a).expert_cache, 0, 1e6, "GIB",                                                \
        "GPU memory for a cache of these experts: the GPU multiplies by those that it has; 0 = none"               \
  }
/* The row of --trace-experts in a command's option table; `a` is an open_args. */
#define OPEN_TRACE_OPTION(a)                                                              \
  {                                                                                       \
    "trace-experts", 0, OPT_STRING, &(a).trace_experts, 0, 0, "FILE",                     \
        "write which experts tokens choose in which layer, for ga bench --replay; slower" \
  }
/* The row of --activations in a command's option table, for sessions and engines; `a` is an open_args. */
#define OPEN_ACTIVATIONS_OPTION(a)                                                                            \
  {                                                                                                           \
    "activations", 0, OPT_STRING, &(a).activations, 0, 0, "TYPE",                                             \
        "inputs of products with FP8 weights, from nine tokens on: full, or rounded to e4m3, which is faster" \
  }
#define OPEN_SESSION_OPTIONS(a)                                                                                      \
  {"context", 'c',                                                                                                   \
   OPT_INT,   &(a).context,                                                                                          \
   0,         1e9,                                                                                                   \
   "N",       "tokens of prompt and answer together; 0 = as many as the model was trained for, at most 4096"},       \
      {"batch", 'b',  OPT_INT, &(a).batch,                                                                           \
       0,       4096, "N",     "prompt tokens evaluated at once; 0 = 512 on a CPU, 2048 on a GPU"},                  \
      {"kv-type", 0, OPT_STRING, &(a).kv_type, 0, 0, "TYPE", "KV cache: f16, f32, bf16, e4m3, q8_0, q4_0"},          \
      OPEN_ACTIVATIONS_OPTION(a),                                                                                    \
      {"gpu-layers", 0,   OPT_INT, &(a).gpu_layers,                                                                  \
       -1,           512, "N",     "layers on the GPU, the last ones; the CPU has the others; -1 = as many as fit"}, \
      OPEN_EXPERT_OPTIONS(a),                                                                                        \
      {"deterministic",                                                                                              \
       0,                                                                                                            \
       OPT_FLAG,                                                                                                     \
       &(a).deterministic,                                                                                           \
       0,                                                                                                            \
       0,                                                                                                            \
       NULL,                                                                                                         \
       "the same tokens give the same logits to the bit; prompts are read one token at a time, which is slower"},    \
  {                                                                                                                  \
    "explain", 0, OPT_FLAG, &(a).explain, 0, 0, NULL,                                                                \
        "print on stderr which layers run where, which kernel was chosen for what, and why"                          \
  }
#define OPEN_ARGS_INIT .gpu_layers = -1, .n_cpu_moe = -1, .activations = "full"

enum { OPEN_MAX_DEVICES = 8 };

typedef struct opened {
  ga_ctx *ctx;                    /* context of the last device, which computes the logits */
  ga_ctx *more[OPEN_MAX_DEVICES]; /* [n_more] contexts of the other devices */
  int32_t n_more;
  ga_model *model;
  ga_session *session;
  /* template of --chat-template or of the named model; NULL: the model's own template is used */
  ga_template *given;
  char path[4096]; /* path of the model's file or folder */
  modelfile named; /* Modelfile of a named model; empty for other models */
  bool explain;    /* close_model prints the chosen plans (explain) */
} opened;

/* Checks options. Prints an error and returns EXIT_USAGE if --device, --kv-type or --activations has an impossible
 * value. Otherwise returns EXIT_OK. */
int open_args_check(const char *name, const open_args *args);
bool open_rounds_activations(const open_args *args);
/* Opens the device and the model and, if with_session, a session. close_model releases them. On failure everything is
 * released, and the error text is set. */
ga_status open_model(const open_args *args, bool with_session, opened *out);
/* Opens device and model without weights, so that ga_model_placement_at can be called. close_model releases them. */
ga_status plan_model(const open_args *args, opened *out);
void close_model(opened *o);
/* Prints a line for each device: the layers that it runs, and their memory. */
void print_placements(FILE *f, const ga_model *model);

/* Prints the plans of a context on stderr: the chosen kernels, their shapes, and the reasons against other kernels
 * (ga_plan_explain). */
void explain(const ga_ctx *ctx);

/* Finds the path of a model that is given as a path or a name. If there is none, returns GA_ERR_IO; the error text
 * mentions `ga pull`. */
ga_status find_model(const char *model, char *path, size_t capacity);

/* Tokenizes a text. flags: as for ga_tokenize. The caller frees *ids with free. */
ga_status encode(const ga_tokenizer *tok, const char *text, size_t bytes, uint32_t flags, int32_t **ids, size_t *n);
/* Returns the chat template in use; NULL: the model has none. */
const ga_template *chat_template(const opened *o);
/* Renders messages with the chat template, with the start of an answer after them, and tokenizes the result. The caller
 * frees *ids with free. */
ga_status chat_ids(const opened *o, const ga_chat_message *messages, size_t n, int32_t **ids, size_t *n_ids);

/* Reads a whole file, or stdin for "-". *text has a NUL at its end; the caller frees it with free. */
ga_status read_text(const char *path, char **text, size_t *bytes);

#endif
