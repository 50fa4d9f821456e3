#include "op/op.h"

static ga_status complete(ga_convert_desc *d) {
  GA_TRY(ga_convert_complete_fields(d));
  const ga_dtype_traits *x = ga_dtype_info((ga_dtype)d->x_dtype), *y = ga_dtype_info((ga_dtype)d->y_dtype);
  GA_REQUIRE(x && y, GA_ERR_DTYPE, "convert: from %s to %s; both must be types", ga_dtype_name((ga_dtype)d->x_dtype),
             ga_dtype_name((ga_dtype)d->y_dtype));
  GA_REQUIRE(!ga_dtype_is_read_only((ga_dtype)d->y_dtype), GA_ERR_DTYPE,
             "convert: y_dtype is %s, which can only be read", y->name);
  GA_REQUIRE(d->width % x->block_elems == 0 && d->width % y->block_elems == 0, GA_ERR_SHAPE,
             "convert: width is %lld; must be a multiple of the blocks of %s (%d) and %s (%d)", (long long)d->width,
             x->name, x->block_elems, y->name, y->block_elems);
  GA_TRY(ga_check_elements("convert", "x", d->rows, d->width, 1, 1));
  if (d->width == 0) d->rows = 0; /* see op_norm.c */
  if (!d->scales) return GA_OK;
  GA_REQUIRE(d->y_dtype == GA_E4M3, GA_ERR_DTYPE, "convert: scales is %d with y of %s; scales are for e4m3", d->scales,
             y->name);
  return ga_check_plain("convert", "x_dtype (with scales)", d->x_dtype);
}

static ga_status check_io(const ga_convert_desc *d, const ga_convert_io *io) {
  if (d->rows == 0 || d->width == 0) return GA_OK;
  GA_CHECK_AT("convert", io->x, d->x_dtype, "x");
  GA_CHECK_AT("convert", io->y, d->y_dtype, "y");
  GA_CHECK_PTR("convert", io->scale || !d->scales, "scale");
  GA_CHECK_ALIGN("convert", io->scale, GA_F32, "scale");
  return GA_OK;
}

GA_DEFINE_OP(convert);
