/* Descriptors of collectives: all move their elements, and one number says how many. */
#include "ga/collective.h"

#include <stdio.h>

#include "opdef/ops.h"
#include "opdef/shape.h"

static ga_work collective_work(const void *desc) {
  const ga_collective_desc *d = desc;
  return opdef_moved((double)d->n * d->ranks);
}

static void collective_shape(const void *desc, char *text, size_t capacity) {
  const ga_collective_desc *d = desc;
  (void)snprintf(text, capacity, "%lld of %s, %d ranks", (long long)d->n, ga_dtype_name((ga_dtype)d->dtype), d->ranks);
}

#define DEFINE(op)                   \
  const ga_op_info ga_opdef_##op = { \
      .name = #op, .desc_bytes = sizeof(ga_collective_desc), .work = collective_work, .shape = collective_shape}

DEFINE(all_reduce);
DEFINE(all_gather);
DEFINE(reduce_scatter);
DEFINE(all_to_all);
DEFINE(send_recv);
