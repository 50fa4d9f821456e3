#include "op/op.h"

static ga_status complete(ga_embed_desc *d) {
  GA_TRY(ga_embed_complete_fields(d));
  const ga_dtype_traits *t = ga_dtype_info((ga_dtype)d->w_dtype);
  GA_REQUIRE(t && !ga_dtype_is_read_only((ga_dtype)d->w_dtype) &&
                 (t->is_quant || !ga_check_plain("embed", "w_dtype", d->w_dtype)),
             GA_ERR_DTYPE, "embed: w_dtype %s is no weight type", ga_dtype_name((ga_dtype)d->w_dtype));
  GA_REQUIRE(d->width % t->block_elems == 0, GA_ERR_SHAPE, "embed: width is %lld; %s needs a multiple of %d",
             (long long)d->width, t->name, t->block_elems);
  GA_TRY(ga_check_elements("embed", "table", d->vocab, d->width, 1, 1));
  return ga_complete_rows("embed", "y_stride", d->tokens, d->width, &d->y_stride);
}

static ga_status check_io(const ga_embed_desc *d, const ga_embed_io *io) {
  if (d->tokens == 0) return GA_OK;
  GA_CHECK_AT("embed", io->ids, GA_I32, "ids"); /* they are checked even where rows are empty */
  if (d->width == 0) return GA_OK;
  GA_CHECK_AT("embed", io->table, d->w_dtype, "table");
  GA_CHECK_AT("embed", io->y, d->y_dtype, "y");
  return GA_OK;
}

GA_DEFINE_OP(embed);
