#include "ga/layer.h"
#include "op/op.h"
#include "opdef/attn_fp8.h"

#define OP "attn_quant"

static ga_status check_rope_dim(const ga_attn_quant_desc *d) {
  const bool rows = d->kind == GA_ATTN_QUANT_ROWS;
  GA_REQUIRE(d->hadamard == 0 || (d->hadamard == 1 && rows), GA_ERR_ARG,
             OP ": hadamard is %d; must be 0, or 1 with kind ROWS", d->hadamard);
  GA_REQUIRE(!d->hadamard || (d->dim & (d->dim - 1)) == 0, GA_ERR_SHAPE,
             OP ": dim is %d; hadamard needs a power of two", d->dim);
  GA_REQUIRE(d->rot_dim >= 0 && d->rot_dim <= (rows ? d->dim : 0) && d->rot_dim % 2 == 0, GA_ERR_SHAPE,
             OP ": rot_dim is %d; must be even, 0 to dim (%d), 0 with kind VALUES", d->rot_dim, d->dim);
  return GA_OK;
}

static ga_status complete(ga_attn_quant_desc *d) {
  GA_TRY(ga_attn_quant_complete_fields(d));
  const bool i8 = d->y_dtype == GA_I8;
  GA_REQUIRE(d->y_dtype == GA_E4M3 || (i8 && d->kind == GA_ATTN_QUANT_ROWS), GA_ERR_DTYPE,
             OP ": y_dtype is %s; allowed: e4m3, or i8 with kind ROWS", ga_dtype_name((ga_dtype)d->y_dtype));
  GA_REQUIRE(d->scale_tokens == 0 || (d->scale_tokens == 1 && i8) || d->scale_tokens == 64 || d->scale_tokens == 128,
             GA_ERR_ARG, OP ": scale_tokens is %d; allowed: 0, 64, 128, and 1 with y_dtype i8", d->scale_tokens);
  GA_REQUIRE(d->centre == 0 || (d->centre == 1 && d->kind == GA_ATTN_QUANT_VALUES), GA_ERR_ARG,
             OP ": centre is %d; must be 0, or 1 with kind VALUES", d->centre);
  GA_TRY(ga_check_elements(OP, "x", d->batch, d->tokens, d->heads, d->dim));
  return check_rope_dim(d);
}

static ga_status check_io(const ga_attn_quant_desc *d, const ga_attn_quant_io *io) {
  if (d->batch == 0 || d->tokens == 0) return GA_OK;
  GA_CHECK_AT(OP, io->x, d->x_dtype, "x");
  GA_CHECK_PTR(OP, io->y, "y"); /* of bytes */
  GA_CHECK_ALIGN(OP, io->scale, GA_F32, "scale");
  GA_CHECK_ALIGN(OP, io->given.data, GA_F32, "given.data");
  GA_CHECK_ALIGN(OP, io->positions, GA_I32, "positions");
  GA_CHECK_ALIGN(OP, io->inv_freq, GA_F32, "inv_freq");
  GA_CHECK_ALIGN(OP, io->mean, GA_F32, "mean");
  GA_REQUIRE(io->x != io->y, GA_ERR_ARG, OP ": y is x; they must not overlap");
  GA_CHECK_PTR(OP, io->scale || !d->scale_tokens, "scale");
  GA_CHECK_PTR(OP, io->given.data || d->scale_tokens, "given.data");
  GA_CHECK_PTR(OP, io->positions || !d->rot_dim, "positions");
  GA_CHECK_PTR(OP, io->inv_freq || !d->rot_dim, "inv_freq");
  GA_CHECK_PTR(OP, io->mean || !d->centre, "mean");
  return GA_OK;
}

static void complete_strides(const ga_attn_quant_desc *d, ga_attn_quant_io *io) {
  const ga_attn_strides rows = {
      .head = d->dim, .token = (int64_t)d->heads * d->dim, .batch = d->tokens * d->heads * d->dim};
  const int64_t padded = ga_attn_fp8_padded(d->tokens);
  const ga_attn_strides values = {.token = padded, .head = d->dim * padded, .batch = d->heads * d->dim * padded};
  ga_attn_strides *x = &io->x_stride, *y = &io->y_stride;
  if (!x->batch && !x->token && !x->head) *x = rows;
  if (!y->batch && !y->token && !y->head) *y = d->kind == GA_ATTN_QUANT_ROWS ? rows : values;
}

static ga_status check_io_strides(const ga_attn_quant_desc *d, const ga_attn_quant_io *io) {
  const ga_attn_scale *g = &io->given;
  const bool rows = d->kind == GA_ATTN_QUANT_ROWS;
  GA_TRY(ga_check_strides(OP, "x_stride", &io->x_stride, d->batch, d->tokens, d->heads));
  GA_TRY(ga_check_strides(OP, "y_stride", &io->y_stride, d->batch, rows ? d->tokens : d->dim, d->heads));
  GA_REQUIRE(g->batch >= 0 && g->batch <= GA_DIM_MAX && g->head >= 0 && g->head <= GA_DIM_MAX, GA_ERR_ARG,
             OP ": given has strides %lld, %lld; must be 0 to 2^40", (long long)g->batch, (long long)g->head);
  return GA_OK;
}

GA_DEFINE_STRIDED_OP(attn_quant);
