/* Common parts of the kernels that add numbers of several devices: slots, sends, waits and sums. A unit is 16 bytes,
 * GA_REDUCE_UNIT.
 *
 * Each device has three slots, which successive calls use in rotation. A word that has not arrived is NONE, a negative
 * zero (for 16-bit types a pair of them). Where data has that word, +0 is sent and added instead.
 *
 * Each call clears the slot that the previous call has read. Another rank sends into that slot again two calls later.
 * For that call it needs data that this rank sends in its next launch, after the clearing. So ranks differ by at most
 * one call, and the slot is clear. */
#pragma once
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/ptx/elem.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/order.h"
#include "cuda/dev/ptx/peer.h"
#include "cuda/dev/ptx/words.h"
#include "opdef/all_reduce_args.h"

#define NONE_f32     0x80000000u
#define NONE_f16     0x80008000u
#define NONE_bf16    0x80008000u
#define IN_WORD_f32  1
#define IN_WORD_f16  2
#define IN_WORD_bf16 2
#define NONE         GA_CAT(NONE_, GA_P_DTYPE)
enum { WORDS = GA_REDUCE_UNIT / 4, IN_WORD = GA_CAT(IN_WORD_, GA_P_DTYPE), IN_UNIT = WORDS * IN_WORD };

/* ---- conversion between a 32-bit word and its elements ---- */
GA_DEV void word_unpack_f32(float *x, uint32_t w) { x[0] = float_of((int)w); }
GA_DEV void word_unpack_f16(float *x, uint32_t w) {
  x[0] = elem_f32_of_f16((uint16_t)w);
  x[1] = elem_f32_of_f16((uint16_t)(w >> 16));
}
GA_DEV void word_unpack_bf16(float *x, uint32_t w) {
  x[0] = elem_f32_of_bf16((uint16_t)w);
  x[1] = elem_f32_of_bf16((uint16_t)(w >> 16));
}
GA_DEV uint32_t word_pack_f32(const float *x) { return float_bits(x[0]); }
GA_DEV uint32_t word_pack_f16(const float *x) { return elem_f16_of_f32(x[0]) | (uint32_t)elem_f16_of_f32(x[1]) << 16; }
GA_DEV uint32_t word_pack_bf16(const float *x) {
  return elem_bf16_of_f32(x[0]) | (uint32_t)elem_bf16_of_f32(x[1]) << 16;
}
#define UNPACK GA_CAT(word_unpack_, GA_P_DTYPE)
#define PACK   GA_CAT(word_pack_, GA_P_DTYPE)

GA_DEV void unpack_unit(float *x, const uint32_t *w) {
  GA_UNROLL for (int i = 0; i < WORDS; i++) UNPACK(x + i * IN_WORD, w[i]);
}
GA_DEV void pack_unit(uint32_t *w, const float *x) {
  GA_UNROLL for (int i = 0; i < WORDS; i++) w[i] = PACK(x + i * IN_WORD);
}
GA_DEV void mark_there(uint32_t *w) { GA_UNROLL for (int i = 0; i < WORDS; i++) if (w[i] == NONE) w[i] = 0; }

/* ---- the caller's tensors: unit i of a tensor of n elements. Past the end zeros are read, and nothing is written.
 * ---- */
GA_DEV void get_unit(uint32_t *w, const void *p, int64_t i, int64_t n) {
  const int64_t first = i * IN_UNIT;
  if (first + IN_UNIT <= n) {
    const ga_i4 v = ldg_i4_cg((const char *)p + i * GA_REDUCE_UNIT);
    w[0] = (uint32_t)v.x, w[1] = (uint32_t)v.y, w[2] = (uint32_t)v.z, w[3] = (uint32_t)v.w;
    return;
  }
  float x[IN_UNIT];
  GA_UNROLL for (int e = 0; e < IN_UNIT; e++) x[e] = first + e < n ? GA_CAT(elem_get_, GA_P_DTYPE)(p, first + e) : 0.0f;
  pack_unit(w, x);
}
GA_DEV void store_unit(void *p, int64_t i, int64_t n, const uint32_t *w) {
  const int64_t first = i * IN_UNIT;
  if (first + IN_UNIT <= n) {
    stg_u4((char *)p + i * GA_REDUCE_UNIT, w[0], w[1], w[2], w[3]);
    return;
  }
  float x[IN_UNIT];
  unpack_unit(x, w);
  GA_UNROLL for (int e = 0; e < IN_UNIT; e++) if (first + e < n) GA_CAT(elem_put_, GA_P_DTYPE)(p, first + e, x[e]);
}

/* ---- slots for the words of other ranks ---- */
GA_DEV char *unit_of_slot(const ga_kargs_all_reduce *a, int rank, int slot, int64_t unit) {
  return (char *)a->slots[rank] + (slot * a->slot_units + unit) * GA_REDUCE_UNIT;
}
GA_DEV void send_to(const ga_kargs_all_reduce *a, int rank, int slot, int64_t unit, const uint32_t *w) {
  stg_peer_u4(unit_of_slot(a, rank, slot, unit), w);
}
GA_DEV void send_to_all(const ga_kargs_all_reduce *a, int slot, int64_t unit, const uint32_t *w) {
  GA_UNROLL for (int p = 0; p < GA_P_RANKS; p++) if (p < a->ranks && p != a->rank) send_to(a, p, slot, unit, w);
}

/* Loads into got[p] the words that rank p has sent to unit + p * stride of this rank's slot. The entry of this rank is
 * unchanged. Returns a bit for each rank whose words have not all arrived. Loads of all ranks are in flight
 * together. */
GA_DEV uint32_t look(const ga_kargs_all_reduce *a, int slot, int64_t unit, int64_t stride, uint32_t (*got)[WORDS]) {
  uint32_t late = 0;
  GA_UNROLL for (int p = 0; p < GA_P_RANKS; p++) if (p < a->ranks && p != a->rank)
      ldg_peer_u4(got[p], unit_of_slot(a, a->rank, slot, unit + p * stride));
  GA_UNROLL for (int p = 0; p < GA_P_RANKS; p++) if (p < a->ranks && p != a->rank)
      GA_UNROLL for (int i = 0; i < WORDS; i++) late |= (uint32_t)(got[p][i] == NONE) << p;
  return late;
}

/* Reports the ranks in `late` to the host, and marks the state of every block as failed, so that its next launch does
 * nothing. */
GA_DEV void give_up_on(const ga_kargs_all_reduce *a, uint32_t late) {
  GA_ROLL for (int p = 0; p < a->ranks; p++) if (late >> p & 1) stg_peer_i32(&a->state->missing[p], 1);
  GA_ROLL for (int b = 0; b < GA_REDUCE_BLOCKS; b++) stg_peer_i32(&a->state->turn[b].failed, 1);
}

/* Calls `look` until all words have arrived. A wait takes at most a->patience cycles. After a timeout the thread waits
 * no more (*in_vain), so that a launch is late by at most one a->patience. */
GA_DEV void take_units(const ga_kargs_all_reduce *a, int slot, int64_t unit, int64_t stride, uint32_t (*got)[WORDS],
                       int *in_vain) {
  int64_t start = 0;
  for (;;) {
    const uint32_t late = look(a, slot, unit, stride, got);
    if (!late || *in_vain) return;
    const int64_t now = clock_cycles();
    if (!start) {
      start = now;
    } else if (now - start > a->patience) {
      give_up_on(a, late);
      *in_vain = 1;
      return;
    }
    peer_pause();
  }
}

/* Adds the ranks' words in the order of ranks, in f32 with one rounding, so that all ranks get the same bits.
 *
 * The rank's own words are selected by comparison with p: an index unknown at compile time would move all words to
 * local memory. */
GA_DEV void add_ranks(const ga_kargs_all_reduce *a, const uint32_t (*got)[WORDS], const uint32_t *own, uint32_t *sum) {
  float x[IN_UNIT], one[IN_UNIT];
  GA_UNROLL for (int p = 0; p < GA_P_RANKS; p++) if (p < a->ranks) {
    uint32_t w[WORDS];
    GA_UNROLL for (int i = 0; i < WORDS; i++) w[i] = p == a->rank ? own[i] : got[p][i];
    unpack_unit(one, w);
    GA_UNROLL for (int e = 0; e < IN_UNIT; e++) x[e] = p ? x[e] + one[e] : one[e];
  }
  pack_unit(sum, x);
}

/* ---- state that is kept between calls ---- */
GA_DEV ga_reduce_turn turn_of_block(const ga_kargs_all_reduce *a) {
  uint32_t w[4];
  ldg_peer_u4(w, &a->state->turn[block_index()]); /* another block may mark the state as failed at the same time */
  ga_reduce_turn t;
  t.slot = (int)w[0], t.used = (int)w[1], t.failed = (int)w[2], t.reserved = (int)w[3];
  return t;
}

/* Clears the slot of the previous call and records the number of units that this call uses. The function runs after the
 * sends, while the words of other ranks are awaited.
 *
 * The state has an entry for each block of the largest launch. If this launch has fewer blocks, they write the entries
 * of the missing blocks too. */
GA_DEV void pass_turn(const ga_kargs_all_reduce *a, const ga_reduce_turn *t, int threads, int64_t used) {
  const uint32_t none[WORDS] = {NONE, NONE, NONE, NONE};
  const int before = (t->slot + GA_REDUCE_SLOTS - 1) % GA_REDUCE_SLOTS, next = (t->slot + 1) % GA_REDUCE_SLOTS;
  for (int64_t i = block_index() * threads + thread_index(); i < t->used; i += block_count() * threads)
    stg_peer_u4(unit_of_slot(a, a->rank, before, i), none);
  block_sync(); /* all threads have read the block's turn */
  if (thread_index() < GA_REDUCE_BLOCKS && thread_index() % block_count() == block_index())
    stg_u2(&a->state->turn[thread_index()], (uint32_t)next, (uint32_t)used);
}
