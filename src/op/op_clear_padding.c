#include "op/op.h"

#define OP "clear_padding"

static ga_status complete(ga_clear_padding_desc *d) { return ga_clear_padding_complete_fields(d); }

static ga_status check_side(const char *name, const void *start, int64_t tokens, bool is_given) {
  GA_REQUIRE(tokens >= 0 && tokens <= GA_DIM_MAX, GA_ERR_ARG, OP ": %s_tokens is %lld; must be 0 to 2^40", name,
             (long long)tokens);
  GA_REQUIRE(start || !is_given, GA_ERR_ARG, OP ": %s_start is null", name);
  return GA_OK;
}

static ga_status check_io(const ga_clear_padding_desc *d, const ga_clear_padding_io *io) {
  GA_TRY(check_side("q", io->q_start, io->q_tokens, d->batch && (io->q || io->lse)));
  GA_TRY(check_side("kv", io->kv_start, io->kv_tokens, d->batch && (io->k || io->v)));
  GA_CHECK_ALIGN(OP, io->q, d->dtype, "q");
  GA_CHECK_ALIGN(OP, io->k, d->dtype, "k");
  GA_CHECK_ALIGN(OP, io->v, d->dtype, "v");
  GA_CHECK_ALIGN(OP, io->lse, GA_F32, "lse");
  GA_CHECK_ALIGN(OP, io->q_start, GA_I32, "q_start");
  GA_CHECK_ALIGN(OP, io->kv_start, GA_I32, "kv_start");
  GA_CHECK_ALIGN(OP, io->q_len, GA_I32, "q_len");
  GA_CHECK_ALIGN(OP, io->kv_len, GA_I32, "kv_len");
  GA_REQUIRE(!d->lse_stride || !io->lse || d->lse_stride >= io->q_tokens, GA_ERR_ARG,
             OP ": lse_stride is %lld; must be 0, or at least q_tokens, %lld", (long long)d->lse_stride,
             (long long)io->q_tokens);
  return GA_OK;
}

/* All-zero strides mean contiguous [token, head, dim]. */
static void complete_strides(const ga_clear_padding_desc *d, ga_clear_padding_io *io) {
  ga_attn_strides *const s[3] = {&io->q_stride, &io->k_stride, &io->v_stride};
  const int64_t heads[3] = {d->q_heads, d->kv_heads, d->kv_heads}, dims[3] = {d->q_dim, d->k_dim, d->v_dim};
  for (int i = 0; i < 3; i++)
    if (!s[i]->batch && !s[i]->token && !s[i]->head)
      *s[i] = (ga_attn_strides){.head = dims[i], .token = heads[i] * dims[i]};
}

static ga_status check_io_strides(const ga_clear_padding_desc *d, const ga_clear_padding_io *io) {
  GA_TRY(ga_check_strides(OP, "q_stride", &io->q_stride, 1, io->q_tokens, d->q_heads));
  GA_TRY(ga_check_strides(OP, "k_stride", &io->k_stride, 1, io->kv_tokens, d->kv_heads));
  return ga_check_strides(OP, "v_stride", &io->v_stride, 1, io->kv_tokens, d->kv_heads);
}

GA_DEFINE_STRIDED_OP(clear_padding);
