#include "ga/layer.h"
#include "op/op.h"

static ga_status complete_side(const ga_attn_merge_desc *d, const char *names[3], int64_t *token, int64_t *head,
                               int64_t *lse) {
  int64_t *const strides[3] = {token, head, lse};
  const int64_t contiguous[3] = {(int64_t)d->heads * d->dim, d->dim, d->rows};
  for (int i = 0; i < 3; i++) {
    if (!*strides[i]) *strides[i] = contiguous[i];
    GA_REQUIRE(*strides[i] >= 0 && *strides[i] <= (int64_t)1 << 40, GA_ERR_ARG,
               "attn_merge: %s is %lld; must be 0 to 2^40", names[i], (long long)*strides[i]);
  }
  return GA_OK;
}

static ga_status check_part_dtype(const ga_attn_merge_desc *d) {
  const bool known = d->part_dtype == GA_F32 || d->part_dtype == GA_F16 || d->part_dtype == GA_BF16;
  GA_REQUIRE(known, GA_ERR_DTYPE, "attn_merge: part_dtype is %s; must be f32, f16 or bf16",
             ga_dtype_name((ga_dtype)d->part_dtype));
  GA_REQUIRE(d->part_dtype == GA_F32 || d->kind != GA_ATTN_MERGE_STATE, GA_ERR_DTYPE,
             "attn_merge: part_dtype is %s; the state of GA_ATTN_MERGE_STATE is f32",
             ga_dtype_name((ga_dtype)d->part_dtype));
  return GA_OK;
}

static ga_status complete(ga_attn_merge_desc *d) {
  if (!d->part_dtype) d->part_dtype = GA_F32;
  GA_TRY(check_part_dtype(d));
  GA_TRY(ga_attn_merge_complete_fields(d));
  GA_TRY(complete_side(d, (const char *[]){"o_token", "o_head", "lse_head"}, &d->o_token, &d->o_head, &d->lse_head));
  return complete_side(d, (const char *[]){"part_token", "part_head", "part_lse_head"}, &d->part_token, &d->part_head,
                       &d->part_lse_head);
}

static ga_status check_io(const ga_attn_merge_desc *d, const ga_attn_merge_io *io) {
  if (d->rows == 0) return GA_OK;
  GA_CHECK_AT("attn_merge", io->o, GA_F32, "o");
  GA_CHECK_AT("attn_merge", io->lse, GA_F32, "lse");
  GA_CHECK_AT("attn_merge", io->part, (ga_dtype)d->part_dtype, "part");
  GA_CHECK_AT("attn_merge", io->part_lse, GA_F32, "part_lse");
  if (d->kind == GA_ATTN_MERGE_STATE) GA_CHECK_AT("attn_merge", io->part_l, GA_F32, "part_l");
  return GA_OK;
}

GA_DEFINE_OP(attn_merge);
