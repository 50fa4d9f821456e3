/* ga synth: a model of random weights in the shape of a real one, for speed and memory work. Its text is noise. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "cmdline/cmd.h"
#include "cmdline/interrupt.h"
#include "file/gguf.h"
#include "file/gguf_write.h"
#include "model/arch/arch.h"
#include "verify/synth/synth_weights.h"
#include "verify/verify.h"

/* --- shapes --- */

/* Sizes that only models with a shared feed-forward beside experts have. */
typedef struct synth_extra {
  int32_t rotated;       /* elements of a head that are rotated */
  int32_t dense, shared; /* layers without experts, which come first; width of the feed-forward that is shared */
  int32_t groups, chosen_groups;      /* of experts */
  double weights_scale;               /* factor of the experts' weights */
  int32_t kv_latent, q_latent, v_dim; /* latent attention; 0: none */
  double yarn_multiplier;
} synth_extra;

typedef struct synth_shape {
  const char *name;
  const char *arch;
  int64_t layers, width, ff, heads, kv_heads, head_dim, vocab, context;
  double rope_base, eps;
  int32_t window;
  bool has_head;                      /* a matrix of its own for the logits, not the embedding's */
  int32_t experts, chosen, expert_ff; /* experts 0: one feed-forward */
  double yarn;                        /* factor of yarn from a context of 4096 tokens; 0: none */
  const synth_extra *extra;           /* NULL: none */
} synth_shape;

static const synth_extra glm_air = {.rotated = 64, .dense = 1, .shared = 1408, .weights_scale = 1};
static const synth_extra deepseek_v3 = {.rotated = 64,
                                        .dense = 3,
                                        .shared = 2048,
                                        .groups = 8,
                                        .chosen_groups = 4,
                                        .weights_scale = 2.5,
                                        .kv_latent = 512,
                                        .q_latent = 1536,
                                        .v_dim = 128,
                                        .yarn_multiplier = 0.1};

/* As the models' own configurations have it. */
static const synth_shape shapes[] = {
    {"llama-3-8b", "llama", 32, 4096, 14336, 32, 8, 128, 128256, 8192, 5e5, 1e-5, 0, true, 0, 0, 0, 0, NULL},
    {"llama-3-70b", "llama", 80, 8192, 28672, 64, 8, 128, 128256, 8192, 5e5, 1e-5, 0, true, 0, 0, 0, 0, NULL},
    {"llama-3.2-1b", "llama", 16, 2048, 8192, 32, 8, 64, 128256, 131072, 5e5, 1e-5, 0, false, 0, 0, 0, 0, NULL},
    {"smollm2-135m", "llama", 30, 576, 1536, 9, 3, 64, 49152, 8192, 1e5, 1e-5, 0, false, 0, 0, 0, 0, NULL},
    {"qwen2.5-0.5b", "qwen2", 24, 896, 4864, 14, 2, 64, 151936, 32768, 1e6, 1e-6, 0, false, 0, 0, 0, 0, NULL},
    {"qwen3-0.6b", "qwen3", 28, 1024, 3072, 16, 8, 128, 151936, 40960, 1e6, 1e-6, 0, false, 0, 0, 0, 0, NULL},
    {"qwen3-8b", "qwen3", 36, 4096, 12288, 32, 8, 128, 151936, 40960, 1e6, 1e-6, 0, true, 0, 0, 0, 0, NULL},
    {"gemma-3-270m", "gemma3", 18, 640, 2048, 4, 1, 256, 262144, 32768, 1e6, 1e-6, 512, false, 0, 0, 0, 0, NULL},
    {"gemma-3-1b", "gemma3", 26, 1152, 6912, 4, 1, 256, 262144, 32768, 1e6, 1e-6, 512, false, 0, 0, 0, 0, NULL},
    {"qwen3-30b-a3b", "qwen3moe", 48, 2048, 6144, 32, 4, 128, 151936, 40960, 1e6, 1e-6, 0, true, 128, 8, 768, 0, NULL},
    {"gpt-oss-20b", "gpt-oss", 24, 2880, 2880, 64, 8, 64, 201088, 131072, 1.5e5, 1e-5, 128, true, 32, 4, 2880, 32,
     NULL},
    {"gpt-oss-120b", "gpt-oss", 36, 2880, 2880, 64, 8, 64, 201088, 131072, 1.5e5, 1e-5, 128, true, 128, 4, 2880, 32,
     NULL},
    {"mixtral-8x7b", "llama", 32, 4096, 14336, 32, 8, 128, 32000, 32768, 1e6, 1e-5, 0, true, 8, 2, 14336, 0, NULL},
    {"glm-4.5-air", "glm4moe", 46, 4096, 10944, 96, 8, 128, 151552, 131072, 1e6, 1e-5, 0, true, 128, 8, 1408, 0,
     &glm_air},
    {"deepseek-v3", "deepseek2", 61, 7168, 18432, 128, 1, 192, 129280, 163840, 1e4, 1e-6, 0, true, 256, 8, 2048, 40,
     &deepseek_v3},
    {"tiny", "llama", 2, 256, 512, 4, 2, 64, 300, 8192, 1e4, 1e-5, 0, true, 0, 0, 0, 0, NULL},
    {"tiny-moe", "qwen3moe", 2, 256, 512, 4, 2, 64, 300, 8192, 1e4, 1e-5, 0, true, 32, 4, 512, 0, NULL},
};

static bool is_latent(const synth_shape *s) { return s->extra && s->extra->kv_latent; }

static ga_status find_shape(const char *name, synth_shape *out) {
  char names[256] = "";
  for (size_t i = 0; i < GA_COUNT_OF(shapes); i++) {
    if (!strcmp(shapes[i].name, name)) {
      *out = shapes[i];
      return GA_OK;
    }
    (void)snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "", shapes[i].name);
  }
  return ga_fail(GA_ERR_ARG, "--shape '%s' is not known; allowed: %s", name, names);
}

/* --- types --- */

/* The file's types: of most matrices, and of those where errors cost most (values and down projections of some layers,
 * the head), as the mixtures of llama.cpp have it. */
typedef struct synth_types {
  const char *name;
  ga_dtype most, better;
  ga_dtype experts; /* of most stacks of matrices */
} synth_types;

/* mxfp4_moe: as the files of gpt-oss. */
static const synth_types mixtures[] = {{"q3_k_m", GA_Q3_K, GA_Q5_K, GA_Q3_K},
                                       {"q4_k_m", GA_Q4_K, GA_Q6_K, GA_Q4_K},
                                       {"q5_k_m", GA_Q5_K, GA_Q6_K, GA_Q5_K},
                                       {"mxfp4_moe", GA_Q8_0, GA_Q8_0, GA_MXFP4}};

static bool is_weight_type(ga_dtype d) {
  const bool plain = d == GA_F32 || d == GA_F16 || d == GA_BF16;
  return plain || (d && ga_dtype_info(d)->is_quant && !ga_dtype_is_read_only(d) && ga_gguf_type_of(d) >= 0);
}

static ga_status find_types(const char *name, synth_types *out) {
  for (size_t i = 0; i < GA_COUNT_OF(mixtures); i++)
    if (!strcmp(mixtures[i].name, name)) {
      *out = mixtures[i];
      return GA_OK;
    }
  const ga_dtype d = ga_dtype_from_name(name);
  *out = (synth_types){name, d, d, d};
  if (is_weight_type(d)) return GA_OK;
  char names[256] = "q3_k_m, q4_k_m, q5_k_m, mxfp4_moe";
  for (int i = 1; i < 64; i++)
    if (ga_dtype_info((ga_dtype)i) && is_weight_type((ga_dtype)i))
      (void)snprintf(names + strlen(names), sizeof names - strlen(names), ", %s", ga_dtype_name((ga_dtype)i));
  return ga_fail(GA_ERR_ARG, "--type '%s' is not known; allowed: %s", name, names);
}

/* Rows that hold no whole number of blocks get the type that llama.cpp gives them: one of 32 values a block, else f16.
 * */
static ga_dtype type_for_row(ga_dtype d, int64_t cols) {
  if (cols % ga_dtype_info(d)->block_elems == 0) return d;
  if (cols % 32) return GA_F16;
  switch (d) {
  case GA_Q4_K: return GA_Q5_0;
  case GA_Q5_K: return GA_Q5_1;
  case GA_Q6_K: return GA_Q8_0;
  default: return GA_IQ4_NL;
  }
}

/* Products whose results join the residual stream, other than attention's. */
static bool is_down(const weight_spec *s) {
  static const char *const names[] = {"ffn_down.weight", "ffn_down_exps.weight", "ffn_down_shexp.weight"};
  for (size_t i = 0; i < GA_COUNT_OF(names); i++)
    if (!strcmp(s->name, names[i])) return true;
  return false;
}

static bool is_better(const weight_spec *s, const synth_shape *shape, int64_t il) {
  const int64_t eighth = shape->layers / 8;
  if (!strcmp(s->name, "output.weight")) return true;
  if (strcmp(s->name, "attn_v.weight") && !is_down(s)) return false;
  return il < eighth || il >= 7 * eighth || (il - eighth) % 3 == 2;
}

/* --- a file --- */

typedef struct synth_args {
  const char *shape, *type, *path;
  int64_t layers, width, ff, heads, kv_heads, head_dim, vocab, context, seed;
} synth_args;

typedef struct synth {
  synth_shape shape;
  synth_types types;
  ga_hparams hparams;
  ga_gguf_writer *file;
  synth_weights weights;
  synth_tensor *tensors; /* of all weights of all layers */
  size_t n;
} synth;

/* Deviations keep activations near 1: products of normalised rows by 1/sqrt(columns), those that join the residual
 * stream less, so that it grows by 1 over all layers. Norms multiply by 1. */
static float deviation_of(const synth *m, const weight_spec *s, int64_t cols) {
  if (s->kind == KIND_VECTOR) return s->is_norm ? 0 : 0.1f;
  const bool joins = !strcmp(s->name, "attn_output.weight") || is_down(s);
  return 1 / sqrtf((float)cols * (joins ? 2 * (float)m->shape.layers : 1));
}

/* Vectors and routers are f32. Stacks of a type of their own have it in all layers. */
static ga_dtype type_of(const synth *m, const weight_spec *s, weight_id id, int64_t il) {
  if (s->kind == KIND_VECTOR || id == W_ROUTER) return GA_F32;
  const bool is_of_heads = id == W_K_UP || id == W_V_UP;
  if (s->kind == KIND_STACK && !is_of_heads && m->types.experts != m->types.most) return m->types.experts;
  return is_better(s, &m->shape, il) ? m->types.better : m->types.most;
}

static ga_status put_weight(synth *m, weight_id id, int64_t il) {
  const weight_spec *s = &ga_weight_specs[id];
  const weight_use *use = ga_arch_weight(m->hparams.arch, id);
  if (!use || !ga_arch_has_weight(&m->hparams, id, (int32_t)il) ||
      (use->optional && !(id == W_OUTPUT && m->shape.has_head)))
    return GA_OK;
  int64_t dims[GA_WEIGHT_DIMS];
  int32_t n_dims = ga_weight_dims(&m->hparams, id, (int32_t)il, dims);
  const bool is_vector = s->kind == KIND_VECTOR;
  if (is_vector && s->rows == DIM_EXPERTS) { /* a row for each expert */
    dims[0] = ga_weight_dim(&m->hparams, s->rows, (int32_t)il);
    dims[1] = ga_weight_dim(&m->hparams, s->cols, (int32_t)il);
    n_dims = 2;
  }
  const int64_t cols = dims[n_dims - 1];
  const ga_dtype wanted = type_of(m, s, id, il);
  const ga_dtype dtype = type_for_row(wanted, cols);
  char name[GA_WEIGHT_NAME_BYTES];
  synth_tensor *t = &m->tensors[m->n++];
  GA_TRY(synth_tensor_of(&m->weights, dtype, is_vector && s->is_norm ? 1 : 0, deviation_of(m, s, cols), m->n, t));
  ga_tensor view = ga_tensor_make(NULL, dtype, n_dims, dims);
  ga_gguf_put_tensor_from(m->file, ga_weight_name(id, (int32_t)il, name), &view, synth_tensor_bytes, t);
  return GA_OK;
}

/* Those of each layer, or those of the whole model. */
static ga_status put_all(synth *m, bool of_layer, int64_t il) {
  for (int id = 0; id < W_COUNT; id++)
    if (ga_weight_specs[id].of_layer == of_layer) GA_TRY(put_weight(m, (weight_id)id, il));
  return GA_OK;
}

static ga_status put_weights(synth *m) {
  const size_t most = W_COUNT * (size_t)m->shape.layers;
  m->tensors = calloc(most, sizeof *m->tensors);
  if (!m->tensors) return ga_fail_nomem("tensors", most * sizeof *m->tensors);
  GA_TRY(put_all(m, false, -1));
  for (int64_t il = 0; il < m->shape.layers; il++) GA_TRY(put_all(m, true, il));
  m->weights.total = ga_gguf_data_bytes(m->file);
  return GA_OK;
}

static void put_key(synth *m, const char *key, int64_t value) {
  char name[96];
  (void)snprintf(name, sizeof name, "%s.%s", m->shape.arch, key);
  ga_gguf_put_int(m->file, name, GA_META_U32, value);
}
static void put_meta_float(synth *m, const char *key, double value) {
  char name[96];
  (void)snprintf(name, sizeof name, "%s.%s", m->shape.arch, key);
  ga_gguf_put_f32(m->file, name, (float)value);
}

/* With latent attention a row of the cache is the one key, and its latent vector the one value. */
static void put_head_sizes(synth *m) {
  const synth_shape *s = &m->shape;
  if (!is_latent(s)) {
    put_key(m, "attention.key_length", s->head_dim);
    put_key(m, "attention.value_length", s->head_dim);
    return;
  }
  put_key(m, "attention.kv_lora_rank", s->extra->kv_latent);
  put_key(m, "attention.q_lora_rank", s->extra->q_latent);
  put_key(m, "attention.key_length", s->extra->kv_latent + s->extra->rotated);
  put_key(m, "attention.value_length", s->extra->kv_latent);
  put_key(m, "attention.key_length_mla", s->head_dim);
  put_key(m, "attention.value_length_mla", s->extra->v_dim);
}

/* Scores are sigmoids, and weights are divided by their sum. */
static void put_extra(synth *m, const synth_extra *e) {
  enum { SIGMOID = 2 };
  char name[96];
  put_key(m, "leading_dense_block_count", m->hparams.n_dense_layers);
  put_key(m, "expert_shared_count", 1);
  put_key(m, "expert_shared_feed_forward_length", m->hparams.shared_ff_width);
  put_key(m, "expert_gating_func", SIGMOID);
  (void)snprintf(name, sizeof name, "%s.expert_weights_norm", m->shape.arch);
  ga_gguf_put_bool(m->file, name, true);
  put_meta_float(m, "expert_weights_scale", e->weights_scale);
  if (e->groups) {
    put_key(m, "expert_group_count", e->groups);
    put_key(m, "expert_group_used_count", e->chosen_groups);
  }
  if (e->yarn_multiplier > 0) put_meta_float(m, "rope.scaling.yarn_log_multiplier", e->yarn_multiplier);
}

static void put_hparams(synth *m) {
  const synth_shape *s = &m->shape;
  ga_gguf_put_text(m->file, "general.architecture", s->arch);
  ga_gguf_put_text(m->file, "general.name", "random weights");
  put_key(m, "block_count", s->layers);
  put_key(m, "embedding_length", s->width);
  put_key(m, "feed_forward_length", s->ff);
  put_key(m, "context_length", s->context);
  put_key(m, "attention.head_count", s->heads);
  put_key(m, "attention.head_count_kv", s->kv_heads);
  put_head_sizes(m);
  put_meta_float(m, "attention.layer_norm_rms_epsilon", s->eps);
  put_key(m, "rope.dimension_count", s->extra ? s->extra->rotated : s->head_dim);
  put_meta_float(m, "rope.freq_base", s->rope_base);
  if (s->window) put_key(m, "attention.sliding_window", s->window);
  if (s->experts) {
    put_key(m, "expert_count", s->experts);
    put_key(m, "expert_used_count", s->chosen);
    put_key(m, "expert_feed_forward_length", s->expert_ff);
  }
  if (s->extra) put_extra(m, s->extra);
  if (s->yarn > 0) {
    char name[96];
    (void)snprintf(name, sizeof name, "%s.rope.scaling.type", s->arch);
    ga_gguf_put_text(m->file, name, "yarn");
    put_meta_float(m, "rope.scaling.factor", s->yarn);
    put_key(m, "rope.scaling.original_context_length", 4096);
  }
}

/* Bytes, so that any prompt has ids, then words "t0", "t1" ... */
enum { FIRST_WORD = 3 + 256 };

static ga_status put_tokens(synth *m) {
  static const char *const control[3] = {"<unk>", "<s>", "</s>"};
  const size_t n = (size_t)m->shape.vocab;
  ga_text *texts = malloc(n * sizeof *texts);
  float *scores = calloc(n, sizeof *scores);
  int32_t *types = calloc(n, sizeof *types);
  char(*words)[12] = malloc(n * sizeof *words);
  for (size_t i = 0; texts && scores && types && words && i < n; i++) {
    if (i < 3)
      (void)snprintf(words[i], sizeof words[i], "%s", control[i]);
    else if (i < FIRST_WORD)
      (void)snprintf(words[i], sizeof words[i], "<0x%02X>", (unsigned)(i - 3) & 255u);
    else
      (void)snprintf(words[i], sizeof words[i], "t%u", (unsigned)(i - FIRST_WORD));
    texts[i] = (ga_text){words[i], strlen(words[i])};
    scores[i] = i < FIRST_WORD ? 0 : -1 - (float)(i - FIRST_WORD);
    types[i] = i == 0 ? 2 : i < 3 ? 3 : i < FIRST_WORD ? 6 : 1; /* unknown, control, byte, normal */
  }
  const bool ok = texts && scores && types && words;
  if (ok) {
    ga_gguf_put_text(m->file, "tokenizer.ggml.model", "llama");
    ga_gguf_put_texts(m->file, "tokenizer.ggml.tokens", (int64_t)n, texts);
    ga_gguf_put_array(m->file, "tokenizer.ggml.scores", GA_META_F32, (int64_t)n, scores);
    ga_gguf_put_array(m->file, "tokenizer.ggml.token_type", GA_META_I32, (int64_t)n, types);
    ga_gguf_put_int(m->file, "tokenizer.ggml.bos_token_id", GA_META_U32, 1);
    ga_gguf_put_int(m->file, "tokenizer.ggml.eos_token_id", GA_META_U32, 2);
  }
  free(texts);
  free(scores);
  free(types);
  free(words);
  return ok ? GA_OK : ga_fail_nomem("tokens", n * 32);
}

static void own_size(int64_t given, int64_t *size) {
  if (given) *size = given;
}

/* Sizes of models with more than the others, within the shape's number of layers. */
static ga_status settle_extra(const synth_args *a, synth *m) {
  const synth_shape *s = &m->shape;
  const synth_extra *e = s->extra;
  ga_hparams *p = &m->hparams;
  if (!e) return GA_OK;
  GA_REQUIRE(s->head_dim >= e->rotated + (is_latent(s) ? 2 : 0), GA_ERR_ARG,
             "--head-dim %lld; must be at least %d: %d elements are rotated", (long long)s->head_dim,
             e->rotated + (is_latent(s) ? 2 : 0), e->rotated);
  p->n_dense_layers = (int32_t)(e->dense < s->layers ? e->dense : s->layers);
  p->shared_ff_width = a->ff ? (int32_t)a->ff : e->shared;
  p->rot_dim = e->rotated;
  if (!is_latent(s)) return GA_OK;
  GA_REQUIRE(s->kv_heads == 1, GA_ERR_ARG, "--kv-heads %lld; must be 1: heads share a latent vector",
             (long long)s->kv_heads);
  p->kv_latent = e->kv_latent;
  p->q_latent = e->q_latent;
  p->v_dim = e->v_dim;
  return GA_OK;
}

static ga_status settle_shape(const synth_args *a, synth *m) {
  synth_shape *s = &m->shape;
  GA_TRY(find_shape(a->shape, s));
  GA_TRY(find_types(a->type, &m->types));
  own_size(a->layers, &s->layers);
  own_size(a->width, &s->width);
  own_size(a->ff, &s->ff);
  if (a->ff && s->experts) s->expert_ff = (int32_t)a->ff;
  own_size(a->heads, &s->heads);
  own_size(a->kv_heads, &s->kv_heads);
  own_size(a->head_dim, &s->head_dim);
  own_size(a->vocab, &s->vocab);
  own_size(a->context, &s->context);
  GA_REQUIRE(s->vocab > FIRST_WORD, GA_ERR_ARG, "--vocab %lld; must be at least %d: the bytes and a word",
             (long long)s->vocab, FIRST_WORD + 1);
  GA_REQUIRE(s->heads % s->kv_heads == 0, GA_ERR_ARG, "--heads %lld, --kv-heads %lld: the second must divide the first",
             (long long)s->heads, (long long)s->kv_heads);
  GA_REQUIRE(s->head_dim % 2 == 0, GA_ERR_ARG, "--head-dim %lld; must be even", (long long)s->head_dim);
  m->hparams = (ga_hparams){.arch = ga_arch_find(s->arch, strlen(s->arch)),
                            .n_layers = (int32_t)s->layers,
                            .width = (int32_t)s->width,
                            .ff_width = (int32_t)s->ff,
                            .vocab = (int32_t)s->vocab,
                            .context = (int32_t)s->context,
                            .n_heads = (int32_t)s->heads,
                            .n_kv_heads = (int32_t)s->kv_heads,
                            .head_dim = (int32_t)s->head_dim,
                            .v_dim = (int32_t)s->head_dim,
                            .n_experts = s->experts,
                            .n_experts_used = s->chosen,
                            .expert_ff_width = s->expert_ff,
                            .expert_step = 1};
  return settle_extra(a, m);
}

static ga_status write_model(const synth_args *a, synth *m) {
  GA_TRY(settle_shape(a, m));
  m->weights.seed = (uint64_t)a->seed;
  GA_TRY(ga_gguf_writer_create(3, 0, &m->file));
  put_hparams(m);
  GA_TRY(put_tokens(m));
  GA_TRY(put_weights(m));
  ga_status status = ga_gguf_writer_finish(m->file, a->path);
  cmd_progress("writing", 1, 1);
  return status;
}

static ga_status write_and_tell(const synth_args *a) {
  synth m = {0};
  ga_status status = write_model(a, &m);
  if (status == GA_OK)
    printf("%s: %s, %lld layers, %zu tensors, %llu bytes of weights\n", a->path, a->type, (long long)m.shape.layers,
           m.n, (unsigned long long)m.weights.total);
  ga_gguf_writer_destroy(m.file);
  synth_weights_free(&m.weights);
  free(m.tensors);
  return status;
}

int cmd_synth(int argc, char **argv) {
  synth_args a = {.shape = "llama-3-8b", .type = "q4_k_m", .seed = 1};
  bool force = false;
  const cmd_option options[] = {
      {"shape", 0, OPT_STRING, &a.shape, 0, 0, "NAME",
       "llama-3-8b, llama-3-70b, llama-3.2-1b, smollm2-135m, qwen2.5-0.5b, qwen3-0.6b, "
       "qwen3-8b, gemma-3-270m, gemma-3-1b, qwen3-30b-a3b, gpt-oss-20b, gpt-oss-120b, mixtral-8x7b, "
       "glm-4.5-air, deepseek-v3, tiny, tiny-moe"},
      {"type", 0, OPT_STRING, &a.type, 0, 0, "TYPE",
       "f32, f16, bf16, q8_0, q4_k and all other types of weights, or a mixture: "
       "q3_k_m, q4_k_m, q5_k_m, mxfp4_moe"},
      {"seed", 's', OPT_INT, &a.seed, 0, 4294967295.0, "N", "another seed, other weights"},
      {"layers", 0, OPT_INT, &a.layers, 1, GA_MODEL_MAX_LAYERS, "N",
       "number of layers, in place of the shape's; likewise the sizes below"},
      {"width", 0, OPT_INT, &a.width, 1, 1 << 20, "N", "of the residual stream"},
      {"ff", 0, OPT_INT, &a.ff, 1, 1 << 20, "N", "width of the feed-forward part, or of each expert"},
      {"heads", 0, OPT_INT, &a.heads, 1, 1024, "N", "query heads"},
      {"kv-heads", 0, OPT_INT, &a.kv_heads, 1, 1024, "N", "heads of keys and values"},
      {"head-dim", 0, OPT_INT, &a.head_dim, 2, 1024, "N", "elements of a head"},
      {"vocab", 0, OPT_INT, &a.vocab, FIRST_WORD + 1, 1 << 22, "N", "tokens"},
      {"context", 0, OPT_INT, &a.context, 1, 1 << 28, "N", "tokens that the model says it was trained for"},
      {"force", 0, OPT_FLAG, &force, 0, 0, NULL, "write over a file that is there"},
  };
  int code, rest = cmd_parse("synth", "[options] FILE", options, GA_COUNT_OF(options), argc, argv, &code);
  if (rest < 0) return code;
  if (rest != 1) return cmd_usage_error("synth", rest ? "one file, not %d" : "which file? give a path", rest);
  if (cmd_check_out("synth", argv[1])) return EXIT_USAGE;
  a.path = argv[1];
  synth shape = {0};
  if (settle_shape(&a, &shape) != GA_OK) return cmd_usage_error("synth", "%s", ga_error_text());
  if (!force && !access(a.path, F_OK)) return cmd_usage_error("synth", "%s is there; --force writes over it", a.path);
  listen_for_interrupt();
  return write_and_tell(&a) == GA_OK ? EXIT_OK : cmd_fail("synth");
}
