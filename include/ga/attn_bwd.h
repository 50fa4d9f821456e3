/* GA, gradients of exact attention (ga/attn.h) in O(N) memory.
 *
 *   Q [batch, q, q_heads, head_dim]   K [batch, kv, kv_heads, head_dim]   V [batch, kv, kv_heads, v_dim]
 *   O, dO [batch, q, q_heads, v_dim]  LSE [batch, q_heads, q], of the forward pass   dQ, dK, dV as Q, K, V
 *
 *   P = e^(logit - LSE)    dV = P^T dO    dS = P (dO V^T - rowsum(dO O)) d logit / d (scale Q K^T)
 *   dQ = scale dS K    dK = scale dS^T Q    dSINK = - sum over rows of e^(sink - LSE) rowsum(dO O)
 *
 * With GQA dK and dV are sums over the query heads of a KV head. LSE and O may be results over more keys than are given
 * here (distributed attention). The results are then the given keys' part of dQ, and the given keys' dK and dV. If a
 * single key is given and no ADD flag is set, GPUs assume that the forward pass had no other key: dQ and dK are 0. A
 * row whose LSE is -infinity has seen no key and contributes nothing. LSE is contiguous with q = max_q, or indexed by
 * tokens (lse_stride). With GA_ATTN_LENGTHS packed sequences may end before the next one begins (ga/attn.h). Rows of
 * dQ, dK and dV that belong to no sequence become 0. With an ADD flag or GA_ATTN_KEEP_PADDING they keep their values.
 * Values of inputs in such rows never matter. Sequences must not share keys here, since each would write dK and dV.
 * Sources: FlashAttention-2 (arXiv 2307.08691), FlashAttention-3 (2407.08608).
 */
#ifndef GA_ATTN_BWD_H
#define GA_ATTN_BWD_H

#include "ga/attn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- src/op/attn_bwd.toml: ga_attn_bwd_flags desc io --- */
/* Flags of the gradients. The flags GA_ATTN_CAUSAL, GA_ATTN_VARLEN, GA_ATTN_LENGTHS, GA_ATTN_KEEP_PADDING and
 * GA_ATTN_ALIBI are also allowed, and so is GA_ATTN_SINKS, with which dsinks is written. */
typedef enum ga_attn_bwd_flags {
  GA_ATTN_BWD_DETERMINISTIC = 1 << 16, /* two runs give the same bits */
  GA_ATTN_BWD_ADD = 1 << 17,           /* has the effect of ADD_DQ and ADD_DKV together */
  /* The ADD flags add gradients to the values in their tensors; grad_dtype must be f32. */
  GA_ATTN_BWD_ADD_DQ = 1 << 18, /* adds to dq, so that calls with parts of the keys sum up their dq */
  GA_ATTN_BWD_ADD_DKV = 1 << 19 /* adds to dk, dv and dsinks: calls with parts of the queries sum up these gradients */
} ga_attn_bwd_flags;

typedef struct ga_attn_bwd_desc {
  size_t struct_size;
  int64_t batch;         /* number of sequences */
  int64_t max_q, max_kv; /* largest numbers of queries and of keys of any sequence; the exact numbers unless VARLEN */
  /* VARLEN: numbers of tokens in the tensors of queries and of keys; with LENGTHS at most 2^40. Without VARLEN: 0 */
  int64_t total_q, total_kv;
  int32_t q_heads, kv_heads; /* numbers of heads of Q, and of K and V, 1 to 65536; q_heads is a multiple of kv_heads */
  int32_t head_dim;          /* elements of a head of Q and K, 1 to 1024 */
  int32_t v_dim;             /* elements of a head of V and O, 1 to 1024; 0 = head_dim */
  int32_t dtype;             /* ga_dtype of q, k, v, o, dout: f32, f16, bf16 */
  int32_t grad_dtype;        /* ga_dtype of dq, dk, dv: dtype or f32 */
  uint32_t flags;            /* ga_attn_flags and ga_attn_bwd_flags */
  int32_t window; /* sliding window, 0 = none; else a query at position p sees keys at positions above p - window */
  float scale;    /* factor of Q K^T; 0 = 1 / sqrt(head_dim) */
  float softcap;  /* 0 = none; else logit = softcap * tanh(logit / softcap), before ALiBi and masks */
  /* 0 = LSE is [batch, q_heads, max_q]. Else, with VARLEN or batch 1, it is [q_heads, lse_stride], indexed by token
   * like Q */
  int64_t lse_stride;
} ga_attn_bwd_desc;
#define GA_ATTN_BWD_DESC_INIT \
  { sizeof(ga_attn_bwd_desc), 1, 0, 0, 0, 0, 0, 0, 0, 0, GA_F32, GA_F32, 0, 0, 0.0f, 0.0f, 0 }

typedef struct ga_attn_bwd_io {
  const void *q, *k, *v, *o, *dout;
  const float *lse;   /* log sum exp of each row of logits, from the forward pass */
  void *dq, *dk, *dv; /* gradients; they must overlap neither each other nor an input */
  float *dsinks;      /* SINKS: [q_heads] gradients of the sinks */
  /* strides of the tensors; all 0 = contiguous, with dimensions in the order that the top of this file shows */
  ga_attn_strides q_stride, k_stride, v_stride, o_stride, dout_stride, dq_stride, dk_stride, dv_stride;
  /* VARLEN: [batch + 1] row of each sequence's first query (q_start), and of its first key (kv_start) */
  const int32_t *q_start, *kv_start;
  const float *sinks; /* SINKS: [q_heads] logit of each head's sink */
  const float *alibi; /* ALIBI: [q_heads] slopes of the heads, which get no gradient */
  /* LENGTHS: [batch] numbers of queries, and of keys, of each sequence; NULL = a sequence ends where the next one
   * starts */
  const int32_t *q_len, *kv_len;
} ga_attn_bwd_io;
/* --- end of src/op/attn_bwd.toml --- */

/* Validates the description, chooses a kernel, computes the workspace size and loads the kernel's code. Nothing is
 * enqueued. */
GA_API GA_NODISCARD ga_status ga_attn_bwd_plan(ga_ctx *ctx, const ga_attn_bwd_desc *desc, ga_plan **out);
/* Enqueues the planned call. workspace: ga_plan_workspace_bytes(plan) bytes of device memory, 256-byte aligned; NULL
 * when 0. */
GA_API GA_NODISCARD ga_status ga_attn_bwd_run(const ga_plan *plan, const ga_attn_bwd_io *io, void *workspace,
                                              ga_stream *stream);
/* Enqueues a call without a separate plan. The context makes the plan at the first such call and keeps it; the stream
 * owns the workspace. */
GA_API GA_NODISCARD ga_status ga_attn_bwd(ga_ctx *ctx, const ga_attn_bwd_desc *desc, const ga_attn_bwd_io *io,
                                          ga_stream *stream);
/* Computes gradients over stretches of Q and of K and V (ga/attn.h), from the LSE and O of the forward pass over them.
 * The gradients of all pairs of stretches are added to dq, dk and dv, in f32. Flags must have ADD, and may have CAUSAL
 * and DETERMINISTIC. Rows in no stretch are neither read nor written. No stretch may wait for its keys (its `ready`
 * must be 0). The lists of stretches are on the host and are read during the call. The function makes up to two calls
 * of ga_attn_bwd for each sequence and each pair of stretches that see each other. Stretches that are adjacent in
 * memory and in position count as one. */
GA_API GA_NODISCARD ga_status ga_attn_bwd_stretches(ga_ctx *ctx, const ga_attn_bwd_desc *desc, const ga_attn_bwd_io *io,
                                                    const ga_attn_stretch *q, int32_t q_stretches,
                                                    const ga_attn_stretch *kv, int32_t kv_stretches, ga_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
