/* Parts of descriptors that many ops share. */
#ifndef GA_OPDEF_SHAPE_H
#define GA_OPDEF_SHAPE_H

#include <stddef.h>

#include "core/op.h"

/* Bytes of an element; of block types on average. */
double opdef_elem_bytes(int32_t dtype);
/* The work of an op that moves its rows: each element of f32 is read once and written once. */
static inline ga_work opdef_moved(double elements) { return (ga_work){.bytes = 8 * elements}; }

/* " to " and the name of `to` where a call converts elements from one type to another; else empty. */
const char *opdef_to_word(int32_t from, int32_t to);
const char *opdef_to_type(int32_t from, int32_t to);

#endif
