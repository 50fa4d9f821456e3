/* Functions that the descriptors (ga_op_info) of many ops share. */
#ifndef GA_OPDEF_SHAPE_H
#define GA_OPDEF_SHAPE_H

#include <stddef.h>

#include "core/op.h"

/* Returns the bytes of an element; for block-quantised types the average. */
double opdef_elem_bytes(int32_t dtype);
/* Returns the work of an op that moves `elements` f32: each is read once and written once. */
static inline ga_work opdef_moved(double elements) { return (ga_work){.bytes = 8 * elements}; }

/* Returns " to " if a call converts elements from one type to another; else "". */
const char *opdef_to_word(int32_t from, int32_t to);
/* Returns the name of `to` if a call converts elements from one type to another; else "". */
const char *opdef_to_type(int32_t from, int32_t to);

#endif
