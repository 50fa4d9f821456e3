/* Files of models with latent attention (deepseek2): sizes, YaRN's factors, the choice of experts; hostile keys and
 * tensors, each refused by its name. */
#include <math.h>

#include "ga/experts.h"
#include "ga/layer.h"
#include "ga/llm.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"
#include "tests/arch_model.h"
#include "tests/gguf_files.h"

/* --- a model of tests/data/arch with one key or tensor changed --- */

typedef struct change {
  const char *key; /* replaced, added or, with `drops`, left out; NULL: none */
  enum { AS_INT, AS_FLOAT, AS_TEXT, AS_BOOL } kind;
  double value;
  const char *text;
  bool drops;
  const char *tensor; /* left out or, with rows, another matrix of so many rows; NULL: none */
  int64_t rows;
} change;

static void put_changed_key(ga_gguf_writer *w, const change *c) {
  char key[128];
  (void)snprintf(key, sizeof key, "deepseek2.%s", c->key);
  switch (c->kind) {
  case AS_INT: ga_gguf_put_int(w, key, GA_META_U32, (int64_t)c->value); break;
  case AS_FLOAT: ga_gguf_put_f32(w, key, (float)c->value); break;
  case AS_TEXT: ga_gguf_put_text(w, key, c->text); break;
  case AS_BOOL: ga_gguf_put_bool(w, key, c->value != 0); break;
  }
}

static bool is_changed(const ga_meta *meta, const change *c) {
  const char *key = ga_meta_key(meta);
  return c->key && !strncmp(key, "deepseek2.", 10) && !strcmp(key + 10, c->key);
}

/* Writes model `name` with the changes to the file of that path in the folder of the test. */
static void write_changed(const char *name, const change *changes, int n, const char *to) {
  char path[ARCH_PATH_BYTES];
  ga_model_file *file;
  ga_gguf_writer *w = new_writer(3, 0);
  assert_ok(ga_model_file_open(arch_model_path(name, path), &file));
  for (int64_t i = 0; i < ga_model_file_meta_count(file); i++) {
    const ga_meta *meta = ga_model_file_meta_at(file, i);
    bool is_kept = true;
    for (int k = 0; k < n; k++) is_kept = is_kept && !is_changed(meta, &changes[k]);
    if (is_kept) ga_gguf_put_meta(w, meta);
  }
  for (int k = 0; k < n; k++)
    if (changes[k].key && !changes[k].drops) put_changed_key(w, &changes[k]);
  for (int64_t i = 0; i < ga_model_file_tensor_count(file); i++) {
    const ga_model_tensor *t = ga_model_file_tensor_at(file, i);
    const change *c = NULL;
    for (int k = 0; k < n; k++)
      if (changes[k].tensor && !strcmp(changes[k].tensor, t->name)) c = &changes[k];
    if (!c) ga_gguf_put_tensor(w, t->name, &t->view);
    const ga_tensor other = ga_tensor_make(weights, GA_F32, 2, (int64_t[]){c ? c->rows : 1, 8});
    if (c && c->rows) ga_gguf_put_tensor(w, t->name, &other);
  }
  finish_file(w, to);
  ga_model_file_destroy(file);
}

static ga_hparams read_changed(const char *name, const change *changes, int n) {
  ga_hparams p;
  write_changed(name, changes, n, "changed.gguf");
  ga_model_file *file = open_file("changed.gguf");
  assert_ok(ga_hparams_read(file, &p));
  ga_model_file_destroy(file);
  return p;
}

/* --- what files say --- */

static void test_latent_sizes(void **state) {
  (void)state;
  ga_hparams p = read_changed("deepseek2", NULL, 0);
  assert_int_equal(p.kv_latent, 48);
  assert_int_equal(p.q_latent, 40);
  assert_int_equal(p.head_dim, 16 + 8);
  assert_int_equal(p.v_dim, 32);
  assert_int_equal(p.rot_dim, 8);
  assert_int_equal(p.rope_pairs, GA_ROPE_NORM);
  assert_int_equal(p.n_layers, 2); /* of three: the last one predicts a further token */
  assert_false(block_layer_has_experts(&p, 0));
  assert_true(block_layer_has_experts(&p, 1));
  p = read_changed("deepseek2_old", NULL, 0);
  assert_int_equal(p.kv_latent, 64);
  assert_int_equal(p.q_latent, 0);
  assert_int_equal(p.head_dim, 32 + 16);
  assert_int_equal(p.v_dim, 20);
}

/* yarn_log_multiplier is 0.1 mscale_all_dim here: logits get the square of its factor, sine and cosine none. */
static void test_yarn_factors(void **state) {
  (void)state;
  static const change none[] = {{.key = "rope.scaling.yarn_log_multiplier", .drops = true}},
                      linear[] = {{.key = "rope.scaling.type", .kind = AS_TEXT, .text = "linear"}},
                      one[] = {{.key = "rope.scaling.factor", .kind = AS_FLOAT, .value = 1}};
  const double plain = 1 / sqrt(24), size = 1 + 0.1 * log(4);
  ga_hparams p = read_changed("deepseek2", NULL, 0);
  assert_true(fabs((double)p.attn_scale - plain * size * size) < 1e-6);
  assert_true(fabs(p.yarn_magnitude - 1) < 1e-9);
  p = read_changed("deepseek2", none, 1);
  assert_true(fabs((double)p.attn_scale - plain) < 1e-6);
  assert_true(p.yarn_magnitude == 1);
  p = read_changed("deepseek2", linear, 1);
  assert_true(fabs((double)p.attn_scale - plain) < 1e-6 && p.yarn_magnitude == 0);
  p = read_changed("deepseek2", one, 1);
  assert_true(fabs((double)p.attn_scale - plain) < 1e-6 && p.yarn_magnitude == 0);
}

static void test_choice_of_experts(void **state) {
  (void)state;
  static const change none[] = {{.key = "expert_gating_func", .drops = true}};
  ga_hparams p = read_changed("deepseek2", NULL, 0);
  assert_int_equal(p.router.scores, GA_ROUTE_SIGMOID);
  assert_int_equal(p.router.group_score, GA_ROUTE_GROUP_SUM2);
  assert_int_equal(p.router.renorm, GA_ROUTE_RENORM_SUM);
  assert_true(p.router.norm_eps == 1e-20f && p.router.scale == 2.5f);
  assert_int_equal(p.router.n_groups, 4);
  assert_int_equal(p.router.top_k_groups, 2);
  p = read_changed("deepseek2", none, 1);
  assert_int_equal(p.router.scores, GA_ROUTE_SOFTMAX);
  assert_int_equal(p.router.group_score, GA_ROUTE_GROUP_MAX);
  p = read_changed("deepseek2_old", NULL, 0);
  assert_int_equal(p.router.scores, GA_ROUTE_SOFTMAX);
  assert_int_equal(p.router.renorm, GA_ROUTE_RENORM_NONE);
}

/* --- what is refused --- */

static void test_keys_refused(void **state) {
  static const struct {
    change change;
    ga_status want;
    const char *part;
  } all[] = {
      {{.key = "attention.kv_lora_rank", .drops = true}, GA_ERR_FORMAT, "attention.kv_lora_rank is missing"},
      {{.key = "attention.kv_lora_rank", .value = 0}, GA_ERR_FORMAT, "kv_lora_rank' is 0; must be from 1 to 1022"},
      {{.key = "attention.kv_lora_rank", .value = 1023},
       GA_ERR_FORMAT,
       "kv_lora_rank' is 1023; must be from 1 to 1022"},
      {{.key = "attention.kv_lora_rank", .value = 47},
       GA_ERR_SHAPE,
       "attention.key_length is 56 and value_length 48; with key_length_mla they must be 55 and 47"},
      {{.key = "attention.head_count_kv", .value = 2},
       GA_ERR_SHAPE,
       "attention.head_count_kv is 2; must be 1: heads share a row of the cache"},
      {{.key = "attention.q_lora_rank", .kind = AS_TEXT, .text = "x"}, GA_ERR_FORMAT, "q_lora_rank"},
      {{.key = "rope.dimension_count", .drops = true}, GA_ERR_FORMAT, "rope.dimension_count is missing"},
      {{.key = "rope.dimension_count", .value = 0}, GA_ERR_FORMAT, "dimension_count' is 0; must be from 2 to 976"},
      {{.key = "rope.dimension_count", .value = 24},
       GA_ERR_SHAPE,
       "heads of 24 elements, of which 24 rotate; must be 1 to 1000 more than rotate"},
      {{.key = "attention.key_length_mla", .value = 25}, GA_ERR_SHAPE, "blk.0.attn_q_b.weight has 2 dimensions"},
      {{.key = "attention.value_length_mla", .value = 2000},
       GA_ERR_FORMAT,
       "value_length_mla' is 2000; must be from 1"},
      {{.key = "rope.scaling.yarn_log_multiplier", .kind = AS_FLOAT, .value = -1},
       GA_ERR_FORMAT,
       "deepseek2.rope.scaling.yarn_log_multiplier is -1; must be 0 to 10"},
      {{.key = "attention.indexer.head_count", .value = 64},
       GA_ERR_UNSUPPORTED,
       "deepseek2.attention.indexer.head_count: sparse attention by an indexer (DeepSeek V3.2) is not supported yet"},
      {{.key = "attention.temperature_length", .value = 0},
       GA_ERR_FORMAT,
       "'deepseek2.attention.temperature_length' is 0; must be from 1"},
      {{.key = "expert_group_count", .value = 3}, GA_ERR_SHAPE, "n_groups is 3; must divide n_experts (8)"},
      {{.tensor = "blk.0.attn_k_b.weight"}, GA_ERR_FORMAT, "tensor blk.0.attn_k_b.weight is missing"},
      {{.tensor = "blk.1.attn_v_b.weight"}, GA_ERR_FORMAT, "tensor blk.1.attn_v_b.weight is missing"},
      {{.tensor = "blk.0.attn_k_b.weight", .rows = 4},
       GA_ERR_SHAPE,
       "blk.0.attn_k_b.weight has 2 dimensions, the first 4; must be [4, 48, 16]"},
      {{.tensor = "blk.0.attn_kv_a_norm.weight"}, GA_ERR_FORMAT, "tensor blk.0.attn_kv_a_norm.weight is missing"},
  };
  ga_ctx *ctx;
  (void)state;
  assert_ok(ga_ctx_create(NULL, &ctx));
  for (size_t i = 0; i < GA_COUNT_OF(all); i++) {
    ga_model *model;
    write_changed("deepseek2", &all[i].change, 1, "changed.gguf");
    assert_error(ga_model_load(ctx, in_folder("changed.gguf"), NULL, &model), all[i].want, all[i].part);
  }
  ga_ctx_destroy(ctx);
}

static void test_unsplit_refused(void **state) {
  static const change rows = {.tensor = "blk.1.attn_kv_b.weight", .rows = 9},
                      none = {.tensor = "blk.1.attn_kv_b.weight"};
  ga_ctx *ctx;
  ga_model *model;
  (void)state;
  assert_ok(ga_ctx_create(NULL, &ctx));
  write_changed("deepseek2_old", &rows, 1, "changed.gguf");
  assert_error(ga_model_load(ctx, in_folder("changed.gguf"), NULL, &model), GA_ERR_SHAPE,
               "blk.1.attn_kv_b.weight has 2 dimensions, the first 9, the last 8; must be [208, 64]");
  write_changed("deepseek2_old", &none, 1, "changed.gguf");
  assert_error(ga_model_load(ctx, in_folder("changed.gguf"), NULL, &model), GA_ERR_FORMAT,
               "tensor blk.1.attn_k_b.weight is missing");
  ga_ctx_destroy(ctx);
}

/* A dense file has no experts. */
static void test_without_experts(void **state) {
  static const change none[] = {{.key = "expert_count", .value = 0}};
  (void)state;
  const ga_hparams p = read_changed("deepseek2", none, 1);
  assert_int_equal(p.n_experts, 0);
  assert_false(block_layer_has_experts(&p, 1));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_latent_sizes),      cmocka_unit_test(test_yarn_factors),
      cmocka_unit_test(test_choice_of_experts), cmocka_unit_test(test_keys_refused),
      cmocka_unit_test(test_unsplit_refused),   cmocka_unit_test(test_without_experts),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
