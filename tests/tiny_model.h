/* A model of tests/data/arch written anew as GGUF: with a tokenizer of its own, and heads of 32 instead of 16, so that
 * quantised KV caches fit. Its answers mean nothing; only that they are the same from different ways is of use. */
#ifndef GA_TESTS_TINY_MODEL_H
#define GA_TESTS_TINY_MODEL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file/gguf_write.h"
#include "ga/llm.h"
#include "tests/arch_model.h"

enum { TINY_VOCAB = 96, TINY_HEAD = 32 };

/* Tokens that a model made from now on was trained for; 0 = as the folder says, 128. */
static int tiny_context;

/* The chat template of a model made from now on. */
static const char *tiny_template = "{{ messages[0].content }}";

static char tiny_folder[] = "/tmp/ga-tiny-XXXXXX";
static char tiny_path[sizeof tiny_folder + 16];

/* 0 <unk>, 1 <s>, 2 </s>, 3 U+2581, then the letters from '!' on. n_tokens may be less than the embedding has rows. */
static inline void tiny_put_tokenizer(ga_gguf_writer *w, int n_tokens) {
  static char letters[TINY_VOCAB][8];
  ga_text texts[TINY_VOCAB];
  float scores[TINY_VOCAB];
  int32_t types[TINY_VOCAB];
  static const char *const first[] = {"<unk>", "<s>", "</s>", "\xE2\x96\x81"};
  for (int i = 0; i < n_tokens; i++) {
    (void)snprintf(letters[i], sizeof letters[i], "%c", '!' + i - 4);
    const char *text = i < 4 ? first[i] : letters[i];
    texts[i] = (ga_text){text, strlen(text)};
    scores[i] = (float)-i;
    types[i] = i == 0 ? 2 : i < 3 ? 3 : 1;
  }
  ga_gguf_put_text(w, "tokenizer.ggml.model", "llama");
  ga_gguf_put_texts(w, "tokenizer.ggml.tokens", n_tokens, texts);
  ga_gguf_put_array(w, "tokenizer.ggml.scores", GA_META_F32, n_tokens, scores);
  ga_gguf_put_array(w, "tokenizer.ggml.token_type", GA_META_I32, n_tokens, types);
  ga_gguf_put_int(w, "tokenizer.ggml.bos_token_id", GA_META_U32, 1);
  ga_gguf_put_int(w, "tokenizer.ggml.eos_token_id", GA_META_U32, 2);
  ga_gguf_put_text(w, "tokenizer.chat_template", tiny_template);
}

/* has_heads: the model's heads get another size. */
static inline bool tiny_is_replaced(const char *key, bool has_heads) {
  static const char *const ends[] = {".attention.head_count", ".attention.head_count_kv", ".attention.key_length",
                                     ".attention.value_length", ".rope.dimension_count"};
  if (!strncmp(key, "tokenizer.", 10)) return true;
  const char *dot = strchr(key, '.');
  if (tiny_context && dot && !strcmp(dot, ".context_length")) return true;
  for (size_t i = 0; has_heads && dot && i < sizeof ends / sizeof ends[0]; i++)
    if (!strcmp(dot, ends[i])) return true;
  return false;
}

/* q_rows 0: heads stay as they are. */
static inline void tiny_put_heads(ga_gguf_writer *w, const char *arch, int64_t q_rows, int64_t k_rows) {
  const struct {
    const char *key;
    int64_t value;
  } keys[] = {{"attention.head_count", q_rows / TINY_HEAD},
              {"attention.head_count_kv", k_rows / TINY_HEAD},
              {"attention.key_length", TINY_HEAD},
              {"attention.value_length", TINY_HEAD}};
  char key[96];
  for (size_t i = 0; q_rows && i < sizeof keys / sizeof keys[0]; i++) {
    (void)snprintf(key, sizeof key, "%s.%s", arch, keys[i].key);
    ga_gguf_put_int(w, key, GA_META_U32, keys[i].value);
  }
  (void)snprintf(key, sizeof key, "%s.context_length", arch);
  if (tiny_context) ga_gguf_put_int(w, key, GA_META_U32, tiny_context);
}

static inline ga_status tiny_zeros(void *user, uint64_t offset, void *to, size_t bytes) {
  (void)user, (void)offset;
  memset(to, 0, bytes);
  return GA_OK;
}

/* Weights of norms over a head, made longer by repeating them. A matrix is zeros of type `zeros`, where that is one. */
static inline void tiny_put_tensor(ga_gguf_writer *w, const ga_model_tensor *t, ga_dtype zeros) {
  static float longer[16][TINY_HEAD];
  static int used;
  if (zeros && t->view.n_dims == 2) {
    const ga_tensor view = ga_tensor_make(NULL, zeros, 2, t->view.dim);
    ga_gguf_put_tensor_from(w, t->name, &view, tiny_zeros, NULL);
    return;
  }
  const bool is_head_norm = strstr(t->name, "attn_q_norm") || strstr(t->name, "attn_k_norm");
  if (!is_head_norm) {
    ga_gguf_put_tensor(w, t->name, &t->view);
    return;
  }
  float *v = longer[used++ % 16];
  for (int i = 0; i < TINY_HEAD; i++) memcpy(&v[i], (const char *)t->view.data + 4 * (i % t->view.dim[0]), 4);
  const ga_tensor view = ga_tensor_make(v, GA_F32, 1, (const int64_t[]){TINY_HEAD});
  ga_gguf_put_tensor(w, t->name, &view);
}

/* Writes tests/data/arch/<arch> with a tokenizer of n_tokens to tiny_path. `arch` is also its name in the file. With
 * types, matrices are zeros of type `most`, and V's of type `v`: for tests that look at no values. */
static inline ga_status tiny_make_of(const char *arch, int n_tokens, ga_dtype most, ga_dtype v) {
  char path[ARCH_PATH_BYTES];
  ga_model_file *file;
  ga_gguf_writer *w;
  if (!tiny_path[0] && mkdtemp(tiny_folder)) (void)snprintf(tiny_path, sizeof tiny_path, "%s/tiny.gguf", tiny_folder);
  ga_status status = ga_model_file_open(arch_model_path(arch, path), &file);
  if (status != GA_OK) return status;
  status = ga_gguf_writer_create(3, 0, &w);
  if (status == GA_OK) {
    const bool has_heads = !ga_model_file_find(file, "blk.0.attn_kv_a_mqa.weight"); /* else a latent vector */
    for (int64_t i = 0; i < ga_model_file_meta_count(file); i++)
      if (!tiny_is_replaced(ga_meta_key(ga_model_file_meta_at(file, i)), has_heads))
        ga_gguf_put_meta(w, ga_model_file_meta_at(file, i));
    const ga_model_tensor *k = ga_model_file_find(file, "blk.0.attn_k.weight"),
                          *q = ga_model_file_find(file, "blk.0.attn_q.weight");
    tiny_put_heads(w, arch, !has_heads ? 0 : q ? q->view.dim[0] : 64, k ? k->view.dim[0] : 64);
    tiny_put_tokenizer(w, n_tokens);
    for (int64_t i = 0; i < ga_model_file_tensor_count(file); i++) {
      const ga_model_tensor *t = ga_model_file_tensor_at(file, i);
      tiny_put_tensor(w, t, strstr(t->name, "attn_v.") ? v : most);
    }
    status = ga_gguf_writer_finish(w, tiny_path);
    ga_gguf_writer_destroy(w);
  }
  ga_model_file_destroy(file);
  return status;
}

static inline ga_status tiny_make(const char *arch, int n_tokens) {
  return tiny_make_of(arch, n_tokens, GA_DTYPE_NONE, GA_DTYPE_NONE);
}

static inline void tiny_remove(void) {
  if (!tiny_path[0]) return;
  (void)unlink(tiny_path);
  (void)rmdir(tiny_folder);
}

#endif
