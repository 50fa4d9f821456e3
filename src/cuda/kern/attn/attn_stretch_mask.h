/* The mask of a block of keys, computed from positions, for kernels with stretches. */
#pragma once
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/tile/reg.h"
#include "cuda/kern/attn/attn_fwd_warpgroup.h"
#include "cuda/kern/attn/attn_pairs.h"
#include "cuda/kern/attn/attn_stretch.h"

/* Returns the number of keys from the start of block n to the end of its stretch. BN or more: the block is full. */
GA_DEV int stretch_keys(const warpgroup *c, int n) {
  const ga_kargs_attn_stretch *x = stretch_args(c->at.a);
  const int i = stretch_of_block(x, lds_i4(tile_slot(c, 1) + 16).w, n);
  return x->kv[i].rows - (n - x->kv[i].block) * BN;
}
/* Returns the highest block that is at most n and only partly filled, among blocks of the tile's document. Returns -1
 * if there is none. */
GA_DEV int short_block(const warpgroup *c, int n) {
  const ga_kargs_attn_stretch *x = stretch_args(c->at.a);
  const int documents = lds_i4(tile_slot(c, 1) + 16).w;
  GA_ROLL for (int i = stretch_of_block(x, documents, n); i >= (documents & 0xffff); i--) {
    const int last = x->kv[i].block + x->kv[i].rows / BN;
    if (x->kv[i].rows % BN && last <= n) return last;
  }
  return -1;
}
/* Sets S of block n to -infinity where a query does not see a key, or no key exists. The block belongs to one stretch.
 * This lane's two rows are queries 8 positions apart. */
GA_DEV void mask_stretch(const warpgroup *c, float *s, int n) {
  const ga_kargs_attn_stretch *x = stretch_args(c->at.a);
  const int i = stretch_of_block(x, lds_i4(tile_slot(c, 1) + 16).w, n), before = (n - x->kv[i].block) * BN;
  const int last = x->kv[i].rows - before - 1;
  const int at = row_query(&c->at, lds_i4(tile_slot(c, 1) + 32).w, 0) - x->kv[i].position - before;
  tile_mask_above(s, BN, imin(last, at + c->at.a->window_right), imin(last, at + 8 + c->at.a->window_right), c->at.q2);
  tile_mask_below(s, BN, at - c->at.a->window_left, at + 8 - c->at.a->window_left, c->at.q2);
}
