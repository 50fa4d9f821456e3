/* GA, exact attention: O = softmax(scale * Q K^T + mask) V, O(N) memory.
 *
 *   Q [batch, q, q_heads, head_dim]   K [batch, kv, kv_heads, head_dim]   V [batch, kv, kv_heads, v_dim]
 *   O [batch, q, q_heads, v_dim]      LSE [batch, q_heads, q] = log sum exp of the scaled, masked logits and the sink
 *
 * LSE is contiguous with q = max_q; with VARLEN entries past a sequence's own length are not written. With VARLEN and
 * lse_stride LSE is [q_heads, lse_stride] instead, as Q lies: query i of sequence b has entry q_start[b] + i.
 *
 * Infinities and NaN: of Q and K they do what the formula says. A row whose logits are all -infinity, or that sees no
 * key, has O = 0. Masked keys contribute nothing whatever V holds, except with kernels flagged v-finite (`ga kernels`).
 * Such a kernel multiplies V by weights that may be 0. A non-finite element of V within [0, kv_len) may then make its
 * own column (batch, kv head, d) of O non-finite in any row. Values outside of [0, kv_len) never matter: padding, ends
 * of pages, the neighbouring packed sequence.
 *
 * Layouts by strides. Query head h reads KV head h / (q_heads / kv_heads): GQA, MQA.
 *
 * 8-bit inputs have scales; the formula takes each input times its scale:
 *
 *    types                        Q      K      V      one scale for                     layout of V
 *    FP8   q, kv_dtype E4M3       e4m3   e4m3   e4m3   a tensor, a head, 64 or 128       transposed, permuted
 *                                                      tokens of a head
 *    INT8  q I8, kv_dtype E4M3    i8     i8     e4m3   the same; of Q also one token     transposed, permuted
 *    cache kv_dtype E4M3 alone    plain  e4m3   e4m3   a tensor, a head, a token of a    as of other types
 *                                                      head
 *
 * INT8 with a Hadamard transform of Q and K is more exact than FP8 in the same bytes. The transposed V is as
 * ga_attn_quant (ga/attn_quant.h) writes it: [batch, kv_heads, v_dim, kv rounded up to 128], where v_stride.token is
 * the distance of value dims. Its elements past the last key must not be NaN. Not with VARLEN, PAGED, STATE_*,
 * kv_segments. FP8 and INT8 also take V from which v_mean has been subtracted in each column, as ga_attn_quant does
 * with `centre`. The formula then has v_scale * V + v_mean. Weights add up to 1, so all of v_mean is added. Sums of
 * values around 0 are small, and so are the bits that GA_ATTN_FAST_SUM loses. A KV cache is as ga_kv_store writes it.
 *
 * STRETCHES: with q_stretches and kv_stretches, Q and K, V are lists of stretches. A stretch is a run of a tensor's
 * rows at consecutive positions of a document. A query sees the keys of its own document. CAUSAL restricts them to its
 * own position and before, a window to positions less than `window` before it. So a rank of a distributed sequence
 * needs one call, for its chunks of Q and the chunks of K and V they see. Rows of Q in no stretch are not read, and
 * their O and LSE not written; LSE has the places of Q's rows. A stretch of keys may have a ready word: its keys are
 * read once the word has reached a value. A call may then begin before the last keys have arrived. The only flags
 * allowed are CAUSAL, LSE, KV_READY and PAGED; softcap, kv_segments and 8-bit q are not. Every sequence of a batch has
 * the same stretches. Packed sequences are documents, with batch 1: `first` is where one begins in the tensors. With
 * PAGED, rows of K and V are slots of pages. Row j is slot j % page_size of page page_table[b * page_table_stride + j /
 * page_size]. Pages without a row of a stretch are not looked up, and kv_len is not read. Several sequences with pages
 * are documents, too, with batch 1. Their page table is then one row, and sequence b begins at row b *
 * page_table_stride * page_size.
 *
 * LENGTHS: packed sequences may end before the next one begins. Sequence b has q_len[b] queries from q_start[b] on, and
 * kv_len[b] keys from kv_start[b] on. Starts may then come in any order. Several sequences may share keys, but not
 * queries. Rows of Q between sequences are not read, and their O and LSE not written. FlashAttention calls them
 * seqused_q and seqused_k.
 *
 * Sources: FlashAttention (arXiv 2205.14135, 2307.08691, 2407.08608), sinks (gpt-oss), soft-cap (Gemma 2), ALiBi
 * (2108.12409).
 */
#ifndef GA_ATTN_H
#define GA_ATTN_H

#include "ga/ctx.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GA_ATTN_MAX_KV_SEGMENTS 4
#define GA_ATTN_MAX_STRETCHES   64

/* --- src/op/attn.toml: ga_attn_flags desc --- */
typedef enum ga_attn_flags {
  GA_ATTN_CAUSAL = 1,    /* bottom-right: query i of n_q sees keys j <= i + n_kv - n_q */
  GA_ATTN_VARLEN = 2,    /* packed sequences: q_start, kv_start give the borders; batch strides are unused */
  GA_ATTN_PAGED = 4,     /* K and V are pages [page, page_size, kv_heads, dim]; page_table maps; kv_len gives lengths */
  GA_ATTN_SINKS = 8,     /* a learned logit per query head joins the softmax without a value */
  GA_ATTN_ALIBI = 16,    /* logit += slope[h] * (j - (i + n_kv - n_q)); SYMMETRIC has another formula */
  GA_ATTN_LSE = 32,      /* write LSE; rows that see no key get -infinity and O = 0, sink or not */
  GA_ATTN_STATE_IN = 64, /* continue from io.state_*: this call's keys are added to the keys of earlier calls */
  GA_ATTN_STATE_OUT = 128, /* write io.state_* for later calls; O and LSE are not written, sinks are not counted yet */
  /* The caller's promise about the launch enqueued just before this call, which may still be running when it begins.
   * That launch writes none of the lengths, borders, pages and keys that this call reads, except the last n_q keys of a
   * sequence. A GPU may then load the older keys before that launch has ended. */
  GA_ATTN_KV_READY = 256,
  /* 8-bit q: sums of values may stay in the tensor cores' accumulators over all keys. Hopper's keep 14 bits there and
   * truncate the rest. With values of one sign, n keys lose up to n 2^-14, so O is too small by that (measured: 23 % at
   * 16384). Values around 0 lose no more than their rounding: see io.v_mean. */
  GA_ATTN_FAST_SUM = 512,
  /* Batch-invariant: a row of O depends, bit by bit, on its query, its position and the keys before it alone. It does
   * not depend on batch, max_q, max_kv or the other queries of the call. GA_ERR_UNSUPPORTED where no kernel has this
   * property. */
  GA_ATTN_INVARIANT = 1024,
  /* Window and ALiBi look both ways, as in encoders. With p = i + n_kv - n_q, query i sees keys p - window < j < p +
   * window, and logit -= slope[h] * |j - p|. Not with CAUSAL, STATE_*, KV segments, 8-bit q. */
  GA_ATTN_SYMMETRIC = 2048,
  GA_ATTN_LENGTHS = 4096 /* VARLEN without PAGED: io.q_len and io.kv_len give the lengths of sequences */
} ga_attn_flags;

typedef struct ga_attn_desc {
  size_t struct_size;
  int64_t batch;             /* sequences */
  int64_t max_q, max_kv;     /* per sequence; exact lengths unless VARLEN or PAGED */
  int32_t q_heads, kv_heads; /* 1 to 65536; q_heads a multiple of kv_heads */
  int32_t head_dim;          /* 1 to 1024 */
  int32_t v_dim;             /* 1 to 1024; 0 = head_dim */
  int32_t q_dtype;           /* f32, f16, bf16, e4m3, i8 */
  int32_t kv_dtype;          /* f32, f16, bf16, e4m3, q8_0, q4_0 */
  int32_t o_dtype;           /* f32, f16, bf16 */
  uint32_t flags;            /* ga_attn_flags */
  /* 0 = none; else query i at p = i + n_kv - n_q sees keys j > p - window; SYMMETRIC: and j < p + window */
  int32_t window;
  int32_t page_size;   /* tokens per page, with PAGED: 1 to 2^24 */
  float scale;         /* 0 = 1 / sqrt(head_dim) */
  float softcap;       /* 0 = none; else logit = softcap * tanh(logit / softcap), before ALiBi and masks */
  int32_t kv_segments; /* 0 = K and V are io.k, io.v; else that many of io.kv_segments, of up to max_kv keys each */
  /* e4m3 q: tokens that share a scale: 64 or 128; i8 q: or 1; 0 = all tokens of a head. Else 0 */
  int32_t q_scale_tokens;
  /* the same of k and v: 64, 128 or 0; e4m3 k and v with another q: 1, or 0 = all tokens of a head */
  int32_t kv_scale_tokens;
  int32_t reserved;                  /* 0 */
  int32_t q_stretches, kv_stretches; /* numbers of io.q_stretches and io.kv_stretches: both 0, or both 1 to 64 */
  int64_t lse_stride; /* VARLEN, without STATE_*: 0, or LSE is [q_heads, lse_stride] by tokens; q_tokens to 2^40 */
} ga_attn_desc;
#define GA_ATTN_DESC_INIT \
  { sizeof(ga_attn_desc), 1, 0, 0, 0, 0, 0, 0, GA_F32, GA_F32, GA_F32, 0, 0, 0, 0.0f, 0.0f, 0, 0, 0, 0, 0, 0, 0 }
/* --- end of src/op/attn.toml --- */

typedef struct ga_attn_strides {
  /* Elements, not negative; last dimension contiguous. PAGED K, V: batch = page. Block types: multiples of the
   * block. */
  int64_t batch, token, head;
} ga_attn_strides;

/* Scales on the device, f32, positive and finite. Tokens [scale_tokens * i, scale_tokens * (i + 1)) of head h have
 * data[b * batch + h * head + i * block]. Strides of 0: one scale for all. Here b is the sequence; with PAGED it is a
 * page, and i counts from its first token; with VARLEN alone it is 0. */
typedef struct ga_attn_scale {
  const float *data;
  int64_t batch, head, block;
} ga_attn_scale;

/* A stretch of keys at consecutive positions. With CAUSAL, query i sees its keys j <= i + kv - n_q + shift, and the
 * window counts back from there. Strides are k_stride and v_stride. */
typedef struct ga_attn_kv_segment {
  const void *k, *v;
  int64_t kv;    /* keys, 0 to max_kv */
  int64_t shift; /* -2^40 to 2^40. 0: the last query stands at the last key; n_q or more: all queries see all keys */
} ga_attn_kv_segment;

/* Rows [first, first + rows) of Q, or of K and V, at positions position, position + 1, ... of a document. Stretches of
 * Q come in any order and share no rows. Stretches of K and V come in order of document and position, and no position
 * has two. They may share rows: documents with the same prefix. */
typedef struct ga_attn_stretch {
  int64_t first, rows; /* within max_q or max_kv; rows may be 0 */
  int64_t position;    /* 0 to 2^40 */
  int32_t document;    /* 0 or more */
  /* Keys are read once io.ready[ready_word] >= ready (unsigned, acquired at system scope). 0: they need not be waited
   * for. */
  uint32_t ready;
  int32_t ready_word; /* 0 to 65535 */
  int32_t reserved;   /* 0 */
} ga_attn_stretch;

/* --- src/op/attn.toml: io --- */
typedef struct ga_attn_io {
  const void *q, *k, *v;
  void *o; /* must not overlap the inputs */
  float *lse;
  ga_attn_strides q_stride, k_stride, v_stride, o_stride; /* all 0 = contiguous in the order above */
  const int32_t *q_start;  /* VARLEN: [batch + 1] first token of each sequence; [batch] beside q_len */
  const int32_t *kv_start; /* VARLEN without PAGED: [batch + 1]; [batch] beside kv_len */
  /* [batch] keys of each sequence. PAGED: required, unless there are stretches. LENGTHS: NULL = sequence b ends at
   * kv_start[b + 1] */
  const int32_t *kv_len;
  const int32_t *page_table;   /* PAGED: [batch, page_table_stride] page of each page_size tokens */
  int64_t page_table_stride;   /* 0 to 2^40 */
  const float *sinks;          /* SINKS: [q_heads] */
  const float *alibi;          /* ALIBI: [q_heads] slopes */
  int64_t q_tokens, kv_tokens; /* VARLEN: tokens in q and o; in k and v without PAGED. Read by GPUs alone */
  /* STATE_*: sums over the keys seen so far, contiguous f32, with w = 2^(logit * log2 e - m). O = sum w V is [batch,
   * q_heads, max_q, v_dim]; l = sum w and m are [batch, q_heads, max_q]. m may be any number near the largest logit *
   * log2 e. A row that has seen no key has m = -infinity, l = 0, O = 0. Updated in place with both flags. */
  float *state_o, *state_m, *state_l;
  ga_attn_kv_segment kv_segments[GA_ATTN_MAX_KV_SEGMENTS];
  ga_attn_scale q_scale, k_scale, v_scale; /* of the inputs that are e4m3 or i8 */
  const float *v_mean; /* 8-bit q: NULL, or [batch, kv_heads, v_dim], contiguous, 16-byte aligned: see 8-bit inputs */
  const ga_attn_stretch *q_stretches, *kv_stretches; /* on the host, read by the call itself */
  const uint32_t *ready; /* on the device; raised by other kernels or peers. NULL where no stretch waits */
  /* With ready: a word on the device. A wait ends after ready_polls reads (0: 2^22, some 5 s on a GPU). It then writes
   * 1 + the number of its stretch here, and O and LSE hold nothing of use. Otherwise the word is not written. */
  int32_t *ready_error;
  int64_t ready_polls;
  const int32_t *q_len; /* LENGTHS: [batch], or NULL: up to q_start[b + 1] */
} ga_attn_io;
/* --- end of src/op/attn.toml --- */

/* Validates, chooses a kernel, sizes the workspace, loads the kernel's code: nothing is enqueued. */
GA_API GA_NODISCARD ga_status ga_attn_plan(ga_ctx *ctx, const ga_attn_desc *desc, ga_plan **out);
/* Plans with the kernel of the given id (`ga kernels`) in place of the planner's choice. Results of calls of different
 * sizes then agree bit by bit. GA_ERR_UNSUPPORTED: the kernel cannot run the description. GA_ERR_ARG: there is no such
 * id. */
GA_API GA_NODISCARD ga_status ga_attn_plan_row(ga_ctx *ctx, const ga_attn_desc *desc, const char *row, ga_plan **out);
/* Enqueues only. workspace: ga_plan_workspace_bytes(plan) of device memory, 256-byte aligned, NULL when 0. */
GA_API GA_NODISCARD ga_status ga_attn_run(const ga_plan *plan, const ga_attn_io *io, void *workspace,
                                          ga_stream *stream);
/* Plans (remembered by the context) and runs with a workspace of the stream's own. */
GA_API GA_NODISCARD ga_status ga_attn(ga_ctx *ctx, const ga_attn_desc *desc, const ga_attn_io *io, ga_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
