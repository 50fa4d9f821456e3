/* Parts of descriptors that many ops share. */
#ifndef GA_OPDEF_SHAPE_H
#define GA_OPDEF_SHAPE_H

#include <stddef.h>

#include "core/op.h"

/* Bytes of an element; of block types on average. */
double opdef_elem_bytes(int32_t dtype);
/* The work of an op that moves its rows: each element of f32 is read once and written once. */
static inline ga_work opdef_moved(double elements) { return (ga_work){.bytes = 8 * elements}; }

/* Writes "ROWS x WIDTH FROM", with " to TO" where the types differ. */
void opdef_put_matrix(char *text, size_t capacity, int64_t rows, int64_t width, int32_t from, int32_t to);
/* Writes "TOKENS tokens, HEADS heads of DIM, FROM", with " to TO" where the types differ. */
void opdef_put_heads(char *text, size_t capacity, int64_t tokens, int32_t heads, int32_t dim, int32_t from, int32_t to);

#endif
