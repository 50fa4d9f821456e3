#include "cmdline/foreign.h"

#include <string.h>

#include "cmdline/error.h"

#define SAME(name, ...) \
  { name, FOREIGN_SAME, {__VA_ARGS__}, NULL }
#define ALWAYS(name, note) \
  { name, FOREIGN_ALWAYS, {NULL}, note }
#define NONE(name, note) \
  { name, FOREIGN_NONE, {NULL}, note }

#define BLOCKS   "attention is always computed in blocks"
#define LAYERS   "as many layers as fit are put on the GPU"
#define DRAFTS   "not there yet: speculative decoding needs two models in one session"
#define GRAMMARS "not there yet: the sampler would have to follow a grammar"
#define ADAPTERS "not there yet: merge the adapter into the model before"
#define TENSORS  "--cpu-moe and --n-cpu-moe N place experts; other tensors are where their layer is"
#define SAMPLERS "not planned: min-p and the penalties serve the same purposes"
#define THREADS  "use taskset, nice and numactl: threads keep to the CPUs that the program may use"
#define PAGES    "keys and values lie in pages that sequences share"
#define ROPES    "the file has them"
#define SHARES   "--device cuda:0,cuda:1 shares the layers by the memory of each GPU"
#define KV_TYPES "--kv-type TYPE: keys and values get the same type"
#define THINKS   "the model's template decides; ga serve takes chat_template_kwargs in requests"
#define CHATS    "ga chat has conversations"
#define IMAGES   "there are no images or audio"
#define TLS      "not planned: put a proxy such as nginx before it"

static const foreign_option table[] = {
    {"-ngl", FOREIGN_LAYERS, {"gpu-layers"}, LAYERS},
    {"--n-gpu-layers", FOREIGN_LAYERS, {"gpu-layers"}, LAYERS},
    {"--num-gpu", FOREIGN_LAYERS, {"gpu-layers"}, LAYERS},
    {"-fa", FOREIGN_ON, {NULL}, BLOCKS},
    {"--flash-attn", FOREIGN_ON, {NULL}, BLOCKS},
    {"-hf", FOREIGN_HUB, {"model"}, NULL},
    {"--hf-repo", FOREIGN_HUB, {"model"}, NULL},
    SAME("-cmoe", "cpu-moe"),
    SAME("-ncmoe", "n-cpu-moe"),
    SAME("-np", "max-sequences"),
    SAME("--parallel", "max-sequences"),
    SAME("--max-num-seqs", "max-sequences"),
    SAME("--ctx-size", "context"),
    SAME("--num-ctx", "context"),
    SAME("--max-model-len", "context"),
    SAME("--n-predict", "max-tokens"),
    SAME("--predict", "max-tokens"),
    SAME("--num-predict", "max-tokens"),
    SAME("--batch-size", "batch", "step-tokens"),
    SAME("--max-num-batched-tokens", "step-tokens", "batch"),
    SAME("--temperature", "temp"),
    SAME("--repeat-last-n", "repeat-last"),
    SAME("-sys", "system"),
    SAME("--system-prompt", "system"),
    SAME("-r", "stop"),
    SAME("--reverse-prompt", "stop"),
    SAME("-sp", "special"),
    SAME("-no-cnv", "no-template"),
    SAME("--no-conversation", "no-template"),
    SAME("--chat-template-file", "chat-template"),
    SAME("--served-model-name", "alias"),
    SAME("--models-max", "max-models"),
    SAME("-a", "alias"),
    SAME("--api-key-file", "api-keys"),
    SAME("--threads-http", "http-threads"),
    SAME("--keepalive", "keep-alive"),
    SAME("--no-enable-prefix-caching", "no-prefix-cache"),
    SAME("--allowed-origins", "cors-origin"),
    ALWAYS("--jinja", "templates are always Jinja"),
    ALWAYS("-st", "one question is answered"),
    ALWAYS("--single-turn", "one question is answered"),
    ALWAYS("--no-warmup", "nothing runs before the prompt"),
    ALWAYS("--no-display-prompt", "the prompt is never shown"),
    ALWAYS("--simple-io", "a pipe gets plain text"),
    ALWAYS("-cb", "requests always join the running ones"),
    ALWAYS("--cont-batching", "requests always join the running ones"),
    ALWAYS("--metrics", "/metrics is always there"),
    ALWAYS("--props", "/props is always there"),
    ALWAYS("--slots", "/slots is always there"),
    ALWAYS("--embedding", "encoders give embeddings"),
    ALWAYS("--embeddings", "encoders give embeddings"),
    ALWAYS("--reranking", "cross-encoders score pairs"),
    ALWAYS("--rerank", "cross-encoders score pairs"),
    ALWAYS("--enable-prefix-caching", "common prefixes are shared"),
    ALWAYS("--enable-chunked-prefill", "prompts are always read in steps"),
    ALWAYS("--enable-auto-tool-choice", "tools are chosen where the request says so"),
    NONE("-ub", "--batch or --step-tokens is the number of tokens evaluated at once"),
    NONE("--ubatch-size", "--batch or --step-tokens is the number of tokens evaluated at once"),
    NONE("-tb", "prompts and answers run on the same threads"),
    NONE("--threads-batch", "prompts and answers run on the same threads"),
    NONE("-ts", SHARES),
    NONE("--tensor-split", SHARES),
    NONE("-sm", SHARES),
    NONE("--split-mode", SHARES),
    NONE("-mg", SHARES),
    NONE("--main-gpu", SHARES),
    NONE("-tp", SHARES),
    NONE("--tensor-parallel-size", SHARES),
    NONE("--pipeline-parallel-size", SHARES),
    NONE("-dev", "--device cuda:0,cuda:1 names GPUs; ga info lists them"),
    NONE("-ctk", KV_TYPES),
    NONE("-ctv", KV_TYPES),
    NONE("--cache-type-k", KV_TYPES),
    NONE("--cache-type-v", KV_TYPES),
    NONE("--kv-cache-dtype", KV_TYPES),
    NONE("-ot", TENSORS),
    NONE("--override-tensor", TENSORS),
    NONE("-md", DRAFTS),
    NONE("--model-draft", DRAFTS),
    NONE("--draft", DRAFTS),
    NONE("--draft-max", DRAFTS),
    NONE("--speculative-config", DRAFTS),
    NONE("--grammar", GRAMMARS),
    NONE("--grammar-file", GRAMMARS),
    NONE("-j", GRAMMARS),
    NONE("--json-schema", GRAMMARS),
    NONE("-jf", GRAMMARS),
    NONE("--format", GRAMMARS),
    NONE("--lora", ADAPTERS),
    NONE("--lora-scaled", ADAPTERS),
    NONE("--enable-lora", ADAPTERS),
    NONE("--control-vector", ADAPTERS),
    NONE("--mirostat", SAMPLERS),
    NONE("--samplers", SAMPLERS),
    NONE("--xtc-probability", SAMPLERS),
    NONE("--dry-multiplier", SAMPLERS),
    NONE("--top-nsigma", SAMPLERS),
    NONE("--numa", THREADS),
    NONE("--prio", THREADS),
    NONE("--cpu-mask", THREADS),
    NONE("--swa-full", PAGES),
    NONE("-kvu", PAGES),
    NONE("--kv-unified", PAGES),
    NONE("--rope-scaling", ROPES),
    NONE("--rope-scale", ROPES),
    NONE("--rope-freq-base", ROPES),
    NONE("--rope-freq-scale", ROPES),
    NONE("--yarn-orig-ctx", ROPES),
    NONE("--override-kv", "not planned: write the file anew with the right value"),
    NONE("--think", THINKS),
    NONE("--hidethinking", THINKS),
    NONE("--reasoning-budget", THINKS),
    NONE("--reasoning-format", THINKS),
    NONE("--chat-template-kwargs", THINKS),
    NONE("-cnv", CHATS),
    NONE("--conversation", CHATS),
    NONE("-i", CHATS),
    NONE("--interactive", CHATS),
    NONE("-if", CHATS),
    NONE("-mli", CHATS),
    NONE("--mmproj", IMAGES),
    NONE("--image", IMAGES),
    NONE("--mlock", "not planned: the system's page cache keeps the file"),
    NONE("-nkvo", "a layer, its keys and values lie on one device"),
    NONE("--prompt-cache", "ga chat and ga serve keep the tokens that they have read while they run"),
    NONE("--context-shift", "ga chat drops the oldest turns and keeps the system message"),
    NONE("--api-key", "keys stand in a file, never on the command line: --api-keys FILE"),
    NONE("-hft", "the variable HF_TOKEN has it, never the command line"),
    NONE("--hf-token", "the variable HF_TOKEN has it, never the command line"),
    NONE("--ssl-key-file", TLS),
    NONE("--ssl-cert-file", TLS),
    NONE("--no-webui", "the page at / has no keys or data of its own"),
    NONE("--nowordwrap", "words wrap on a terminal alone"),
    NONE("--quantize", "ga quantize IN OUT q4_k_m writes the model before"),
    NONE("--dtype", "weights keep the types of the file"),
    NONE("--quantization", "the file says how weights are quantised; ga quantize writes other files"),
    NONE("--gpu-memory-utilization", "--kv-tokens N bounds the KV cache"),
    NONE("--trust-remote-code", "GA runs no code of a model's files"),
};

const foreign_option *foreign_find(const char *arg, const char **value) {
  const size_t n = strcspn(arg, "=");
  *value = arg[n] ? arg + n + 1 : NULL;
  for (size_t i = 0; i < COUNT_OF(table); i++)
    if (strlen(table[i].name) == n && !strncmp(arg, table[i].name, n)) return &table[i];
  return NULL;
}

const char *foreign_command(const char *name) {
  static const struct {
    const char *name, *note;
  } commands[] = {{"cp", "models are plain files in one folder"},
                  {"push", "GA uploads nothing"},
                  {"signin", "GA uploads nothing"},
                  {"signout", "GA uploads nothing"},
                  {"launch", "point the program at the address of ga serve"}};
  for (size_t i = 0; i < COUNT_OF(commands); i++)
    if (!strcmp(commands[i].name, name)) return commands[i].note;
  return NULL;
}
