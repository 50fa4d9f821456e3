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

/* Called during long work with done out of total; a result other than 0 stops it with GA_ERR_CANCELLED. */
typedef int (*ga_progress_fn)(void *user, uint64_t done, uint64_t total);

/* GA_SESSION_DETERMINISTIC: logits follow bit by bit from the ids so far, on one build, device and model: not from how
 * they were cut into calls, what was rewound, prompted or generated, the size of the context, the number of CPU
 * threads, or other sessions. Each token is evaluated by itself (batch 1), so that no row of a kernel table is chosen
 * by how many there are: prompts go at the speed of generation. No op of a model has rows that differ from run to run
 * (GA_KERNEL_NONDET: gradients of attention alone). Another layout of the layers over devices is another device. */
/* GA_SESSION_E4M3_ACTIVATIONS: in steps of nine tokens and more, products by e4m3 weights with scales (FP8 checkpoints)
 * round their activations to e4m3, with a scale for each 128 of a token, as such checkpoints specify ("W8A8", dynamic).
 * Results then have 4 significant bits of each activation. GA_ERR_UNSUPPORTED where the model has no such weights, or a
 * device no row for that; GA_ERR_ARG where steps have fewer tokens, as with GA_SESSION_DETERMINISTIC. */
typedef enum ga_session_flags { GA_SESSION_DETERMINISTIC = 1, GA_SESSION_E4M3_ACTIVATIONS = 2 } ga_session_flags;

typedef struct ga_session_options {
  size_t struct_size;
  int32_t context;  /* tokens the KV cache holds; 0 = the model's own, at most 4096 */
  int32_t batch;    /* tokens evaluated at once, 1 to 4096; 0 = 512 on a CPU, 2048 on a GPU */
  int32_t kv_dtype; /* ga_dtype: f16 (0 means this), f32, bf16, e4m3 (a scale for each token of a head), q8_0, q4_0 */
  uint32_t flags;   /* ga_session_flags */
} ga_session_options;
#define GA_SESSION_OPTIONS_INIT \
  { sizeof(ga_session_options), 0, 0, 0, 0 }

/* Where a model's layers are. Layers run in order over the places: those of the CPU, if any, then `more`, then the
 * context that the model is loaded to, which also has the head. What is handed from place to place is the hidden state,
 * once a step. */
typedef struct ga_model_options {
  size_t struct_size;
  ga_progress_fn progress; /* bytes of weights; may be NULL */
  void *user;
  int32_t gpu_layers; /* how many layers, the last ones, GPUs take; the others are the CPU's. -1 = as many as fit */
  int32_t n_more;     /* further contexts, which share the layers with the first by what fits on each: at most 7 */
  ga_ctx *const *more;
  const ga_session_options *session; /* room is kept for one such session; NULL = for one with the defaults */
  bool plan_only;       /* read and plan, load no weights: for ga_model_get_info and ga_model_placement_at */
  uint8_t reserved[7];  /* 0 */
  bool no_mmap;         /* copy what would stay in the mapped file, such as the embedding of a CPU: then the file may be
                   shortened, overwritten or removed once the model is loaded. false: it must stay as it is */
  uint8_t reserved2[7]; /* 0 */
  ga_comm *comm; /* NULL, or this rank's end of a communicator whose ranks share the model by tensors: each loads the
                    same file, each on a device of its own, and has some heads and columns of the feed-forward. Sessions
                    of all ranks take the same calls with the same ids, and get the same logits, bit by bit. It outlives
                    the model */
} ga_model_options;
#define GA_MODEL_OPTIONS_INIT \
  { sizeof(ga_model_options), NULL, NULL, -1, 0, NULL, NULL, false, {0}, false, {0}, NULL }

/* One device's part of a model, in bytes; the session is the one that room was kept for. */
typedef struct ga_model_placement {
  const char *device; /* "cpu", "cuda:0" */
  int32_t first_layer, n_layers;
  uint64_t weights;         /* as held */
  uint64_t kv, activations; /* of the session */
  uint64_t workspace;       /* of the kernels */
  uint64_t staging;         /* while loading, given back after: weights before they are packed */
  uint64_t spare;           /* left alone: code, what other programs may take, ends of shared buffers */
  uint64_t kv_token;        /* one token's part of kv */
  uint64_t available;       /* what was there before loading */
} ga_model_placement;

/* What a model is; see ga_model_file for the meaning of the fields' keys. */
typedef struct ga_model_info {
  const char *arch; /* general.architecture of the file: "llama", "qwen2" ... */
  char name[96];    /* general.name of the file, "" if it has none */
  int32_t n_layers, width, ff_width, n_heads, n_kv_heads, head_dim, vocab;
  int32_t context; /* tokens it was trained for */
  int32_t window;  /* sliding window of its local layers, 0 = none */
  bool is_encoder; /* embeddings only: no generation */
  uint64_t n_params;
  uint64_t file_bytes;     /* weights in the file */
  uint64_t weight_bytes;   /* weights as held; looked-up tables are counted unless they stay in the mapped file */
  uint64_t kv_token_bytes; /* KV cache of one token in f16, all layers */
} ga_model_info;

/* What `name` opens, as the -m of the program takes it: a path that ga_model_file_open takes; where there is none, a
 * model in the models' folder ($GA_MODELS, else $XDG_CACHE_HOME/ga/models, else ~/.cache/ga/models) by its place in it,
 * by a name of `ga pull --list`, or as hf:ORGANISATION/REPOSITORY, with :TYPE or /FILE behind it or not. Nothing is
 * fetched. path: of `capacity` bytes, 4096 are always enough. GA_ERR_IO: it is not here, and the text names what is.
 * GA_ERR_ARG: an empty name, one as long as capacity, or hf: with something else behind it. *path is then "". */
GA_API GA_NODISCARD ga_status ga_model_path(const char *name, char *path, size_t capacity);

/* name: see ga_model_path. The contexts must outlive the model. GA_ERR_NOMEM, before anything is loaded, when the
 * layers asked for do not fit: the text has the plan. */
GA_API GA_NODISCARD ga_status ga_model_load(ga_ctx *ctx, const char *name, const ga_model_options *options,
                                            ga_model **out);
GA_API void ga_model_destroy(ga_model *model); /* after its sessions and what shares its weights; NULL is fine */

/* Another model of the same weights, whose sessions and engine use `ctx`: one copy of the weights serves several
 * contexts, of which each has its own thread. Only a fixed-size record is allocated, and a CPU's context where the CPU
 * has a part of the layers. ctx: of the device that `model` is on. `model` and its context must outlive the new one;
 * they may be in use by another thread meanwhile. GA_ERR_ARG: a null argument, another device. GA_ERR_UNSUPPORTED: a
 * model that was loaded to `more` contexts. */
GA_API GA_NODISCARD ga_status ga_model_share(const ga_model *model, ga_ctx *ctx, ga_model **out);
GA_API const ga_model_info *ga_model_get_info(const ga_model *model);
/* Places in the order of their layers; 0 <= index < count. Owned by the model. */
GA_API int32_t ga_model_placement_count(const ga_model *model);
GA_API const ga_model_placement *ga_model_placement_at(const ga_model *model, int32_t index);
/* Owned by the model. The tokenizer is NULL when the file has none, the template when it has none or GA cannot compile
 * it; ga_model_template_error then tells why ("" if there is none). */
GA_API const ga_tokenizer *ga_model_tokenizer(const ga_model *model);
GA_API const ga_template *ga_model_template(const ga_model *model);
GA_API const char *ga_model_template_error(const ga_model *model);

GA_API GA_NODISCARD ga_status ga_session_create(ga_model *model, const ga_session_options *options, ga_session **out);
GA_API void ga_session_destroy(ga_session *session); /* NULL is fine */
/* Tokens in the cache, and how many fit. */
GA_API int32_t ga_session_length(const ga_session *session);
GA_API int32_t ga_session_context(const ga_session *session);
/* Bytes of KV cache reserved. */
GA_API uint64_t ga_session_kv_bytes(const ga_session *session);
/* Forgets all but the first n_tokens. Where layers keep a state of fixed size, the next call that evaluates tokens goes
 * back to a snapshot of it first, and evaluates the tokens from there on again. */
GA_API GA_NODISCARD ga_status ga_session_rewind(ga_session *session, int32_t n_tokens);

/* Appends n ids (n >= 1). logits, host memory: rows [n - n_logits, n), each `vocab` floats; n_logits 0 = none. A GPU
 * copies them several times as fast to memory of ga_host_alloc (its context: the one that the model was loaded to).
 * GA_ERR_SHAPE when the context is too small: nothing is appended. progress may be NULL. After a failure other than
 * that the session is as before the call. */
GA_API GA_NODISCARD ga_status ga_session_eval(ga_session *session, const int32_t *ids, int32_t n, float *logits,
                                              int32_t n_logits, ga_progress_fn progress, void *user);

/* Appends n ids and gives the natural-log probability of each of ids[first + 1 .. n) given all before it:
 * logprobs[n - first - 1], 0 <= first < n. progress (tokens, after each batch) may be NULL. Errors as ga_session_eval;
 * after one logprobs is not to be used. */
GA_API GA_NODISCARD ga_status ga_session_score(ga_session *session, const int32_t *ids, int32_t n, int32_t first,
                                               double *logprobs, ga_progress_fn progress, void *user);

/* One piece of generated text: valid UTF-8, possibly empty; id is the token that completed it. Not 0 = stop. */
typedef int (*ga_text_fn)(void *user, int32_t id, const char *text, size_t bytes);

typedef enum ga_finish {
  GA_FINISH_LENGTH = 0,
  GA_FINISH_EOG = 1,
  GA_FINISH_CONTEXT = 2,
  GA_FINISH_STOPPED = 3
} ga_finish;

typedef struct ga_generate_options {
  size_t struct_size;
  int32_t max_tokens; /* at least 1 */
  bool ignore_eog;    /* go on after an end-of-generation token */
  bool show_special;  /* pass the text of control tokens too */
  uint64_t seed;
  const ga_sample_desc *sample; /* NULL = greedy; vocab is not looked at */
  int32_t penalty_last;         /* tokens that penalties look back on; 0 = 64, -1 = all */
  int32_t n_bias;
  const ga_logit_bias *bias;
  ga_progress_fn progress; /* of the prompt, in tokens; may be NULL */
  ga_text_fn text;
  void *user;
} ga_generate_options;
#define GA_GENERATE_OPTIONS_INIT \
  { sizeof(ga_generate_options), 256, false, false, 0, NULL, 0, 0, NULL, NULL, NULL, NULL }

typedef struct ga_generate_result {
  size_t struct_size;
  int32_t n_prompt, n_generated;
  double prompt_seconds, generate_seconds; /* the first token counts to the prompt */
  ga_finish finish;
  int32_t reserved; /* 0 */
} ga_generate_result;
#define GA_GENERATE_RESULT_INIT \
  { sizeof(ga_generate_result), 0, 0, 0.0, 0.0, GA_FINISH_LENGTH, 0 }

/* Evaluates the prompt ids after what the session holds, then samples from the tokenizer's tokens. Each generated token
 * joins the session, but for a last one that nothing follows (max_tokens, a full context, stopped by `text`). After a
 * failure in the prompt the session is as before; after a later one it holds the prompt and what was generated.
 * GA_ERR_STATE when every logit is NaN or -infinity, or the biases ban every token. */
GA_API GA_NODISCARD ga_status ga_generate(ga_session *session, const int32_t *ids, int32_t n,
                                          const ga_generate_options *options, ga_generate_result *result);

/* Sentence embedding of n ids, L2-normalised, pooled as the model says: out holds `width` floats. */
GA_API GA_NODISCARD ga_status ga_embed_ids(ga_model *model, const int32_t *ids, int32_t n, float *out);

#ifdef __cplusplus
}
#endif
#endif
