/* Rows, experts and activations of products by experts; see ga/experts.h. */
#pragma once
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/tile/act.h"
#include "cuda/dev/tile/quant.h"
#include "cuda/kern/expert/expert_args.h"

/* Values of the enums of ga/experts.h, which never change. */
enum { EXPERT_IN = 0, EXPERT_OUT = 1 };
enum { CLAMP_NONE = 0, CLAMP_BEFORE = 1, CLAMP_AFTER = 2 };
enum {
  EXPERT_GATED = 1,
  EXPERT_BIAS = 2,
  EXPERT_WEIGHTS = 4,
  EXPERT_RESIDUAL = 8,
  EXPERT_SORTED = 16,
  EXPERT_IN_TURN = 32
};
enum { EXPERT_MOST_SLOTS = 64 /* largest number of slots of a token */, EXPERT_ACT_RELU2 = 4 /* ga_act_kind */ };

/* Returns the expert of sorted row p: the last one whose rows begin at p or before it. */
GA_DEV int expert_of_row(const ga_kargs_expert *a, int p) {
  int low = 0, high = a->n_experts; /* offsets[low] <= p < offsets[high] */
  while (high - low > 1) {
    const int mid = (low + high) / 2;
    if (a->offsets[mid] <= p)
      low = mid;
    else
      high = mid;
  }
  return low;
}

/* Returns the matrix of an expert in the stacks; -1: it has none, and its slots are left out. */
GA_DEV int expert_matrix(const ga_kargs_expert *a, int expert) { return a->matrices ? a->matrices[expert] : expert; }

/* Returns the expert of a slot, whose index is among all tokens' slots. */
GA_DEV int expert_of_slot(const ga_kargs_expert *a, int64_t slot) {
  if (a->flags & EXPERT_IN_TURN) return (int)(slot % a->n_experts);
  return a->flags & EXPERT_SORTED ? expert_of_row(a, a->place[slot]) : a->experts[slot];
}

/* Returns whether the results of a slot are left out. */
GA_DEV bool expert_is_left_out(const ga_kargs_expert *a, int64_t slot) {
  return a->matrices && a->matrices[expert_of_slot(a, slot)] < 0;
}

/* Returns a number by which a token's slots are ordered as their results are added: by expert, then by slot. `slot` is
 * the index among all tokens' slots. */
GA_DEV int expert_slot_key(const ga_kargs_expert *a, int64_t slot) {
  if (a->flags & EXPERT_SORTED) return a->place[slot];
  return a->experts[slot] * EXPERT_MOST_SLOTS + (int)(slot % a->top_k);
}

/* Returns the row of X (OUT) or Y (IN) of a slot. */
GA_DEV int64_t expert_slot_row(const ga_kargs_expert *a, int64_t slot) {
  return a->flags & EXPERT_SORTED ? a->place[slot] : slot;
}

/* Clamps keep NaN. */
GA_DEV float expert_at_most(float x, float limit) { return x > limit ? limit : x; }
GA_DEV float expert_between(float x, float limit) { return x < -limit ? -limit : expert_at_most(x, limit); }

GA_DEV float expert_act(const ga_kargs_expert *a, float x) {
  if (a->act == ACT_SILU) return x / (1.0f + expf(-a->act_alpha * x));
  if (a->act == EXPERT_ACT_RELU2) return x < 0 ? 0 : x * x;
  return act_of(a->act, x);
}

/* Returns the element of a slot's row in IN, from the products with their biases: g by the gate's matrix, u by the
 * other. */
GA_DEV float expert_into_slot(const ga_kargs_expert *a, float g, float u) {
  if (!(a->flags & EXPERT_GATED)) return expert_act(a, u);
  if (a->clamp == CLAMP_BEFORE) g = expert_at_most(g, a->limit);
  if (a->clamp != CLAMP_NONE) u = expert_between(u, a->limit);
  float t = expert_act(a, g);
  if (a->clamp == CLAMP_AFTER) t = expert_at_most(t, a->limit);
  return t * (u + a->up_offset);
}

/* Returns a product with its bias. IN: the sum of products times the slot's weight, plus the bias. OUT: the sum plus
 * the bias; the weight follows. */
GA_DEV float expert_with_bias(const ga_kargs_expert *a, const float *bias, int expert, int64_t col, float weight,
                              float sum) {
  return weight * sum + (a->flags & EXPERT_BIAS ? bias[expert * a->expert_rows + col] : 0.0f);
}

/* Returns the weight of a slot, or 1 without weights. */
GA_DEV float expert_weight(const ga_kargs_expert *a, int64_t slot) {
  return a->flags & EXPERT_WEIGHTS ? a->weights[slot] : 1.0f;
}
