/* GA, language models: load a file, feed tokens, get logits, text or embeddings.
 *
 *   ga_model   weights on a device, tokenizer, chat template; immutable, shared by sessions
 *   ga_session one growing sequence with its KV cache
 *
 * A session is used by one thread at a time. Sessions of one model share its context, so they take turns.
 */
#ifndef GA_LLM_H
#define GA_LLM_H

#include "ga/chat.h"
#include "ga/comm.h"
#include "ga/ctx.h"
#include "ga/model_file.h"
#include "ga/sample.h"
#include "ga/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ga_model ga_model;
typedef struct ga_session ga_session;

/* A callback that long work calls when it has done `done` units out of `total`. A result other than 0 stops the work
 * with GA_ERR_CANCELLED. */
typedef int (*ga_progress_fn)(void *user, uint64_t done, uint64_t total);

/* GA_SESSION_DETERMINISTIC: on one build, device and model, logits depend bit by bit on the ids so far and on nothing
 * else. They do not depend on how the ids were divided into calls, on rewinds, or on which ids were generated. Nor do
 * they depend on the size of the context, the number of CPU threads, or other sessions. Each token is evaluated by
 * itself (batch 1), since kernels are chosen by the number of tokens: prompts run at the speed of generation. Every
 * kernel that models use gives the same bits in every run; only gradients of attention have kernels that do not.
 * Another placement of the layers counts as another device.
 *
 * GA_SESSION_E4M3_ACTIVATIONS is for e4m3 weights with scales (FP8 checkpoints). In steps of nine tokens and more,
 * their products round activations to e4m3. Each 128 elements of a token have a scale, as such checkpoints specify
 * ("W8A8", dynamic). An activation then keeps 4 significant bits. GA_ERR_UNSUPPORTED: the model has no such weights, or
 * a device no kernel for them. GA_ERR_ARG: steps cannot have nine tokens, as with GA_SESSION_DETERMINISTIC. */
typedef enum ga_session_flags { GA_SESSION_DETERMINISTIC = 1, GA_SESSION_E4M3_ACTIVATIONS = 2 } ga_session_flags;

typedef struct ga_session_options {
  size_t struct_size;
  int32_t context;  /* tokens that the KV cache holds; 0 = the model's own context, at most 4096 */
  int32_t batch;    /* tokens evaluated at once, 1 to 4096; 0 = 512 on a CPU, 2048 on a GPU */
  int32_t kv_dtype; /* ga_dtype: f16 (0 means this), f32, bf16, e4m3 (a scale for each token of a head), q8_0, q4_0 */
  uint32_t flags;   /* ga_session_flags */
} ga_session_options;
#define GA_SESSION_OPTIONS_INIT \
  { sizeof(ga_session_options), 0, 0, 0, 0 }

#define GA_CPU_MOE_ALL INT32_MAX /* ga_model_options.n_cpu_moe: all layers */

/* Options of ga_model_load, among them where layers are placed. The CPU has the first layers, if any; the contexts
 * `more` have the next ones. The context that the model is loaded to has the last layers and the output head. In each
 * step the hidden state is copied from each device to the next. */
typedef struct ga_model_options {
  size_t struct_size;
  ga_progress_fn progress; /* called with the bytes of weights loaded so far, and of all weights; may be NULL */
  void *user;
  /* number of layers on GPUs, counted from the last layer; the CPU has the other layers. -1 = as many as fit */
  int32_t gpu_layers;
  /* number of further contexts, at most 7. They share the layers with the first context by the memory that each has
   * free */
  int32_t n_more;
  ga_ctx *const *more; /* [n_more] the further contexts; NULL if n_more is 0 */
  /* options of the one session for which memory is reserved when layers are placed; NULL = the defaults */
  const ga_session_options *session;
  bool plan_only;      /* true: read and plan only, load no weights; for ga_model_get_info and ga_model_placement_at */
  uint8_t reserved[7]; /* must be 0 */
  /* true: copy the tensors that would stay in the mapped file, such as the embedding of a CPU. Once the model is
   * loaded, the file may be shortened, overwritten or removed. false: the file must not change while the model
   * lives. */
  bool no_mmap;
  uint8_t reserved2[7]; /* must be 0 */
  /* NULL, or this rank's end of a communicator whose ranks share the model by tensor parallelism. It must outlive the
   * model. Each rank loads the same file on its own device, and holds some of the heads and some columns of the
   * feed-forward layers. Sessions of all ranks take the same calls with the same ids, and get the same logits, bit by
   * bit. A rank waits for the others for the communicator's timeout, also while they still load. */
  ga_comm *comm;
  /* Models with experts on GPUs: number of first layers whose experts stay in host memory, or GA_CPU_MOE_ALL. There the
   * CPU multiplies by them; the GPU computes the rest of these layers. -1 = as few as fit, before whole layers go to
   * the CPU */
  int32_t n_cpu_moe;
  int32_t reserved3; /* must be 0 */
  /* bytes of GPU memory for a cache of experts that are in host memory; 0 = none. The GPU multiplies by the experts
   * that it has while the CPU multiplies by the others. Missed experts are loaded in the background and stay until less
   * recently used ones have made way. Results then depend on what the cache holds, within rounding. Several GPUs share
   * the bytes by their layers. Models of ga_model_share do not use it */
  uint64_t expert_cache;
  /* NULL, or the path of a file that gets the experts that tokens choose in each layer, for `ga bench --replay`. Steps
   * then wait for each layer. GA_ERR_ARG: the model has no experts */
  const char *expert_trace;
} ga_model_options;
#define GA_MODEL_OPTIONS_INIT \
  { sizeof(ga_model_options), NULL, NULL, -1, 0, NULL, NULL, false, {0}, false, {0}, NULL, -1, 0, 0, NULL }

/* One device's part of a model; sizes are in bytes. The session is the one for which memory was reserved. */
typedef struct ga_model_placement {
  const char *device; /* name of the device: "cpu", "cuda:0" */
  int32_t first_layer, n_layers;
  uint64_t weights;         /* bytes of the weights in the types and layouts in which the device holds them */
  uint64_t kv, activations; /* bytes of the session's KV cache, and of its activations */
  uint64_t workspace;       /* bytes of the kernels' workspace */
  uint64_t staging;         /* bytes of the buffer for weights that are not packed yet; freed after loading */
  /* bytes left unused: for code and other programs, and the unfilled ends of buffers that several weights share */
  uint64_t spare;
  uint64_t kv_token;  /* bytes of the KV cache for each token */
  uint64_t available; /* bytes of the device that were free before loading */
  /* bytes of host memory for experts of these layers, by which the CPU multiplies (ga_model_options.n_cpu_moe). They
   * are no part of `weights` */
  uint64_t host_experts;
  int32_t n_host_expert_layers; /* number of these layers whose experts are in host memory */
  int32_t reserved;             /* always 0 */
  uint64_t expert_cache;        /* bytes of the device for the cache of these experts (ga_model_options.expert_cache) */
} ga_model_placement;

/* Properties of a model, read from its file. */
typedef struct ga_model_info {
  const char *arch; /* general.architecture of the file: "llama", "qwen2" ... */
  char name[96];    /* general.name of the file, "" if it has none */
  int32_t n_layers, width, ff_width, n_heads, n_kv_heads, head_dim, vocab;
  int32_t context;     /* tokens of the context that the model was trained for */
  int32_t window;      /* tokens of the sliding window of the model's local layers; 0 = none */
  bool is_encoder;     /* the model gives embeddings only; it cannot generate */
  uint64_t n_params;   /* number of weights (single numbers) of the model */
  uint64_t file_bytes; /* bytes of the weights in the file */
  /* bytes of the weights in memory; tables for look-up are included unless they stay in the mapped file */
  uint64_t weight_bytes;
  uint64_t kv_token_bytes; /* bytes of the KV cache for each token, in f16, of all layers */
  /* Elements of an encoder's embedding: `width`, unless the file has several kinds of pooling or Dense modules. 0: the
   * model generates text. */
  int32_t embedding_width;
  int32_t n_labels; /* labels of a cross-encoder's head; 0 = the model has none. ga_rank_ids needs 1 */
} ga_model_info;

/* Finds the path of a model by its name, as -m of the program takes it. Nothing is fetched. In this order, `name` is
 *   a path that ga_model_file_open takes;
 *   a path relative to the models' folder: $GA_MODELS, else $XDG_CACHE_HOME/ga/models, else ~/.cache/ga/models;
 *   a name of `ga pull --list` whose file is in that folder;
 *   hf:ORGANISATION/REPOSITORY in that folder, followed by :TYPE, by /FILE, or by nothing.
 * path has `capacity` bytes; 4096 are always enough. GA_ERR_IO: the model is not here; the text names the models that
 * are. GA_ERR_ARG: an empty name, a name as long as capacity, or hf: followed by anything else. On an error path is
 * "". */
GA_API GA_NODISCARD ga_status ga_model_path(const char *name, char *path, size_t capacity);

/* Loads a model. name: see ga_model_path. The contexts must outlive the model. GA_ERR_NOMEM, before anything is loaded:
 * the requested layers do not fit; the text has the planned placements. */
GA_API GA_NODISCARD ga_status ga_model_load(ga_ctx *ctx, const char *name, const ga_model_options *options,
                                            ga_model **out);
/* Destroys the model. Its sessions and the models that share its weights must be destroyed before; NULL is fine */
GA_API void ga_model_destroy(ga_model *model);

/* Makes another model of the same weights, whose sessions and engine use `ctx`. One copy of the weights then serves
 * several contexts, each with its own thread. Only a fixed-size record is allocated, and a CPU context where the CPU
 * has some of the layers. ctx must be of the device that `model` is on. `model` and its context must outlive the new
 * one; another thread may use them meanwhile. GA_ERR_ARG: a null argument, another device. GA_ERR_UNSUPPORTED:
 * ranks share the model (ga_model_options.comm), or further contexts have some of its layers (more). */
GA_API GA_NODISCARD ga_status ga_model_share(const ga_model *model, ga_ctx *ctx, ga_model **out);
GA_API const ga_model_info *ga_model_get_info(const ga_model *model);
/* Returns the number of the model's placements. */
GA_API int32_t ga_model_placement_count(const ga_model *model);
/* Returns placement `index`, from 0 to count - 1; placements are in the order of their layers. Owned by the model. */
GA_API const ga_model_placement *ga_model_placement_at(const ga_model *model, int32_t index);
/* Returns the model's tokenizer; NULL if the file has none. Owned by the model. */
GA_API const ga_tokenizer *ga_model_tokenizer(const ga_model *model);
/* Returns the model's chat template; NULL if the file has none or GA cannot compile it. Owned by the model. */
GA_API const ga_template *ga_model_template(const ga_model *model);
/* Returns the template for conversations with tools: the file's template of the name "tool_use", else the template that
 * ga_model_template returns. NULL if the file has none or GA cannot compile it. Owned by the model. */
GA_API const ga_template *ga_model_tool_template(const ga_model *model);
/* Returns why GA cannot compile one of the file's chat templates; "" if it can, or if there is none. Owned by the
 * model. */
GA_API const char *ga_model_template_error(const ga_model *model);

/* Counts of a model's caches of experts (ga_model_options.expert_cache), since the model was loaded. */
typedef struct ga_expert_cache_stats {
  size_t struct_size;
  uint64_t lookups;   /* experts of steps' layers that were looked up, each once a step and layer */
  uint64_t hits;      /* lookups whose expert was in the cache, so that the GPU multiplied by it */
  uint64_t loads;     /* experts that were loaded into the cache */
  int64_t slots;      /* experts that the cache can hold */
  int64_t slots_used; /* experts that it holds now */
  uint64_t bytes;     /* bytes of GPU memory of the cache; 0: the model has none */
} ga_expert_cache_stats;
#define GA_EXPERT_CACHE_STATS_INIT \
  { sizeof(ga_expert_cache_stats), 0, 0, 0, 0, 0, 0 }
/* Fills in the numbers. Any thread may call it while the model lives. */
GA_API GA_NODISCARD ga_status ga_model_expert_cache(const ga_model *model, ga_expert_cache_stats *stats);

GA_API GA_NODISCARD ga_status ga_session_create(ga_model *model, const ga_session_options *options, ga_session **out);
GA_API void ga_session_destroy(ga_session *session); /* NULL is fine */
/* Returns the number of tokens that the session holds. */
GA_API int32_t ga_session_length(const ga_session *session);
/* Returns the number of tokens that the session can hold. */
GA_API int32_t ga_session_context(const ga_session *session);
/* Returns the bytes of the session's KV cache. */
GA_API uint64_t ga_session_kv_bytes(const ga_session *session);
/* Removes all tokens but the first n_tokens. Where layers keep a state of fixed size, the next call that evaluates
 * tokens first restores an earlier snapshot of it. That call then evaluates the tokens since the snapshot again. */
GA_API GA_NODISCARD ga_status ga_session_rewind(ga_session *session, int32_t n_tokens);

/* Appends n ids (n >= 1). logits: host memory for the rows of ids [n - n_logits, n), each of `vocab` floats; n_logits 0
 * = none. A GPU copies rows several times as fast to memory of ga_host_alloc, from the context that the model was
 * loaded to. progress, called with numbers of tokens, may be NULL. GA_ERR_SHAPE: the context is too small. After any
 * failure the session is as before the call. */
GA_API GA_NODISCARD ga_status ga_session_eval(ga_session *session, const int32_t *ids, int32_t n, float *logits,
                                              int32_t n_logits, ga_progress_fn progress, void *user);

/* Appends n ids and writes the natural-log probability of each of ids[first + 1 .. n), given all ids before it.
 * logprobs has n - first - 1 elements; 0 <= first < n. progress is called with numbers of tokens after each batch; it
 * may be NULL. Errors are those of ga_session_eval; after one, the contents of logprobs are undefined. */
GA_API GA_NODISCARD ga_status ga_session_score(ga_session *session, const int32_t *ids, int32_t n, int32_t first,
                                               double *logprobs, ga_progress_fn progress, void *user);

/* A callback that receives one piece of generated text: valid UTF-8, possibly empty. id is the token that completed
 * it. A result other than 0 stops the generation. */
typedef int (*ga_text_fn)(void *user, int32_t id, const char *text, size_t bytes);

typedef enum ga_finish {
  GA_FINISH_LENGTH = 0,
  GA_FINISH_EOG = 1,
  GA_FINISH_CONTEXT = 2,
  GA_FINISH_STOPPED = 3
} ga_finish;

typedef struct ga_generate_options {
  size_t struct_size;
  int32_t max_tokens;           /* largest number of tokens to generate, at least 1 */
  bool ignore_eog;              /* true: generation goes on after an end-of-generation token */
  bool show_special;            /* true: the text of control tokens is passed to `text`, too */
  uint64_t seed;                /* seed of the random generator that draws the tokens */
  const ga_sample_desc *sample; /* parameters of the draws, whose vocab is ignored; NULL = greedy */
  int32_t penalty_last;         /* number of last tokens to which penalties apply; 0 = 64, -1 = all */
  int32_t n_bias;
  const ga_logit_bias *bias;
  /* called with the number of prompt tokens evaluated so far, and of all prompt tokens; may be NULL */
  ga_progress_fn progress;
  ga_text_fn text;
  void *user;
} ga_generate_options;
#define GA_GENERATE_OPTIONS_INIT \
  { sizeof(ga_generate_options), 256, false, false, 0, NULL, 0, 0, NULL, NULL, NULL, NULL }

typedef struct ga_generate_result {
  size_t struct_size;
  int32_t n_prompt, n_generated;
  /* seconds of evaluating the prompt and drawing the first token (prompt_seconds), and of generating the other tokens
   * (generate_seconds) */
  double prompt_seconds, generate_seconds;
  ga_finish finish;
  int32_t reserved; /* always 0 */
} ga_generate_result;
#define GA_GENERATE_RESULT_INIT \
  { sizeof(ga_generate_result), 0, 0, 0.0, 0.0, GA_FINISH_LENGTH, 0 }

/* Evaluates the prompt ids after the session's tokens, then generates tokens. Only tokens that the tokenizer has are
 * drawn. Each generated token is appended to the session, except the last one if max_tokens, a full context or `text`
 * ended the generation. After a failure in the prompt the session is as it was before. After a later failure it holds
 * the prompt and the tokens generated so far. GA_ERR_STATE: every logit is NaN or -infinity, or the biases ban every
 * token. */
GA_API GA_NODISCARD ga_status ga_generate(ga_session *session, const int32_t *ids, int32_t n,
                                          const ga_generate_options *options, ga_generate_result *result);

/* Computes the sentence embedding of n ids: pooled as the model says, through the modules of its file, and
 * L2-normalised. Writes info.embedding_width floats. GA_ERR_SHAPE: `capacity` floats are fewer than that; n is beyond
 * the context. */
GA_API GA_NODISCARD ga_status ga_embed_vector(ga_model *model, const int32_t *ids, int32_t n, float *out,
                                              size_t capacity);
/* Calls ga_embed_vector with a capacity of `width` floats. */
GA_API GA_NODISCARD ga_status ga_embed_ids(ga_model *model, const int32_t *ids, int32_t n, float *out);

/* Computes how relevant a document is to a query, by a cross-encoder of the BERT family (arXiv 1901.04085). ids: the
 * beginning token, the query, the separator, the document, the separator. The first n_query ids, which end with the
 * first separator, have token type 0, the others type 1. *score: the logit of the only label; larger is more relevant.
 * GA_ERR_UNSUPPORTED: the model has no such head, or several labels. GA_ERR_SHAPE: more ids than the context. */
GA_API GA_NODISCARD ga_status ga_rank_ids(ga_model *model, const int32_t *ids, int32_t n, int32_t n_query,
                                          float *score);

#ifdef __cplusplus
}
#endif
#endif
