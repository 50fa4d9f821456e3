/* Functions that find the stretch of keys to which a block belongs, and the block of a position
 * (attn_stretch_args.h). */
#pragma once
#include "cuda/kern/attn/attn_shape.h"
#include "cuda/kern/attn/attn_stretch_args.h"

GA_DEV const ga_kargs_attn_stretch *stretch_args(args a) { return (const ga_kargs_attn_stretch *)a; }
/* Returns the index of the stretch of keys that has block n: the document's last stretch that begins at or before the
 * block. documents is a field of ga_kattn_q_stretch. */
GA_DEV int stretch_of_block(const ga_kargs_attn_stretch *x, int documents, int n) {
  int from = documents & 0xffff, to = documents >> 16;
  GA_ROLL while (to - from > 1) {
    const int mid = (from + to) >> 1;
    if (x->kv[mid].block <= n)
      from = mid;
    else
      to = mid;
  }
  return from;
}
/* Returns the place after the document's last key before `position`, or the place of its first key if there is none.
 * Block n of the keys has places n * BN to n * BN + BN - 1. */
GA_DEV int stretch_keys_before(args a, int documents, int position) {
  const ga_kargs_attn_stretch *x = stretch_args(a);
  int from = documents & 0xffff, to = documents >> 16;
  GA_ROLL while (to - from > 1) {
    const int mid = (from + to) >> 1;
    if (x->kv[mid].position < position)
      from = mid;
    else
      to = mid;
  }
  const int keys = position - x->kv[from].position;
  return x->kv[from].block * BN + (keys < 0 ? 0 : keys < x->kv[from].rows ? keys : x->kv[from].rows);
}
