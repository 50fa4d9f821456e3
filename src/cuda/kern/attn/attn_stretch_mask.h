/* Masks of blocks of keys by position, for kernels with stretches. */
#pragma once
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/tile/reg.h"
#include "cuda/kern/attn/attn_fwd_warpgroup.h"
#include "cuda/kern/attn/attn_pairs.h"
#include "cuda/kern/attn/attn_stretch.h"

/* Returns the number of keys that the stretch of block n has from the start of block n on. BN or more: the block is
 * full. */
GA_DEV int stretch_keys(const warpgroup *c, int n) {
  const ga_kargs_attn_stretch *x = stretch_args(c->at.a);
  const int i = stretch_of_block(x, lds_i4(tile_slot(c, 1) + 16).w, n);
  return x->kv[i].rows - (n - x->kv[i].block) * BN;
}
/* Returns the highest block up to n that a stretch of the tile's document fills only partly. Returns -1 when there is
 * none. */
GA_DEV int short_block(const warpgroup *c, int n) {
  const ga_kargs_attn_stretch *x = stretch_args(c->at.a);
  const int documents = lds_i4(tile_slot(c, 1) + 16).w;
  GA_ROLL for (int i = stretch_of_block(x, documents, n); i >= (documents & 0xffff); i--) {
    const int last = x->kv[i].block + x->kv[i].rows / BN;
    if (x->kv[i].rows % BN && last <= n) return last;
  }
  return -1;
}
/* Masks block n, which belongs to one stretch. This lane's two rows are queries 8 positions apart. */
GA_DEV void mask_stretch(const warpgroup *c, float *s, int n) {
  const ga_kargs_attn_stretch *x = stretch_args(c->at.a);
  const int i = stretch_of_block(x, lds_i4(tile_slot(c, 1) + 16).w, n), before = (n - x->kv[i].block) * BN;
  const int last = x->kv[i].rows - before - 1;
  const int at = row_query(&c->at, lds_i4(tile_slot(c, 1) + 32).w, 0) - x->kv[i].position - before;
  tile_mask_above(s, BN, imin(last, at + c->at.a->window_right), imin(last, at + 8 + c->at.a->window_right), c->at.q2);
  tile_mask_below(s, BN, at - c->at.a->window_left, at + 8 - c->at.a->window_left, c->at.q2);
}
