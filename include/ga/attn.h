/* GA, exact attention: O = softmax(scale * Q K^T + mask) V, O(N) memory.
 *
 *   Q [batch, q, q_heads, head_dim]   K [batch, kv, kv_heads, head_dim]   V [batch, kv, kv_heads, v_dim]
 *   O [batch, q, q_heads, v_dim]      LSE [batch, q_heads, q] = log sum exp of the scaled, masked logits and the sink
 *
 * LSE is contiguous with q = max_q; with VARLEN entries past a sequence's own length are not written. With VARLEN and
 * lse_stride LSE is [q_heads, lse_stride] instead, as Q lies: query i of sequence b has entry q_start[b] + i.
 *
 * Infinities and NaN: of Q and K they do what the formula says. A row whose logits are all -infinity, or that sees no
 * key, has O = 0. Masked keys contribute nothing whatever V holds, except with kernels flagged v-finite (`ga kernels`):
 * those multiply V by weights that may be 0, so a non-finite element of V inside of [0, kv_len) may make elements of
 * its own column (batch, kv head, d) of O non-finite in any row. What lies outside of [0, kv_len) never matters:
 * padding, ends of pages, the neighbouring packed sequence.
 *
 * Layouts by strides. Query head h reads KV head h / (q_heads / kv_heads): GQA, MQA.
 *
 * FP8: with q_dtype = kv_dtype = GA_E4M3 all three inputs are e4m3 and have scales: the formula is that of q_scale * Q,
 * k_scale * K and v_scale * V. A scale is for a tensor, a head, or 64 or 128 tokens of a head.
 * INT8: with q_dtype = GA_I8, kv_dtype = GA_E4M3 Q and K are i8, which after a Hadamard transform are more exact in the
 * same bytes, and V is e4m3; of Q a scale may be for one token. In both V is transposed and permuted, as
 * ga_attn_quant (ga/attn_quant.h) writes it: [batch, kv_heads, v_dim, kv rounded up to 128]; v_stride.token is the
 * distance of value dims; what lies behind the last key must not be NaN. Not with VARLEN, PAGED, STATE_*, kv_segments.
 * In both V may be what is left of it when v_mean is taken off each column, as ga_attn_quant does with `centre`: the
 * formula is that of v_scale * V + v_mean, where weights that add up to 1 add all of v_mean. Sums of numbers around 0
 * are small, and so is what sums with GA_ATTN_FAST_SUM lose.
 * With kv_dtype = GA_E4M3 and a Q that is not (a KV cache, as ga_kv_store writes it; V as other types have it) the
 * formula is that of k_scale * K and v_scale * V. A scale is for a tensor, a head, or a token of a head.
 *
 * STRETCHES: with q_stretches and kv_stretches Q and K, V are not one sequence each but lists of stretches: rows of the
 * tensors at consecutive positions of a document. A query sees the keys of its own document, with CAUSAL those at its
 * own position and before, with a window those less than `window` before it. So a rank of a distributed sequence is one
 * call: its chunks of Q, and all chunks of K and V that they see, wherever they lie. Rows of Q in no stretch are not
 * read, and their O and LSE not written; LSE has the places of Q's rows. A stretch of keys may have a ready word: its
 * keys are read once the word has reached a value, so that a call begins before the last keys are there. With no flag
 * but CAUSAL, LSE, KV_READY and PAGED, and without softcap, kv_segments and 8-bit q; every sequence of a batch has the
 * same. Packed sequences are documents: `first` is where one begins in the tensors, with batch 1.
 * With PAGED rows of K and V are slots of pages: row j is slot j % page_size of page page_table[b * page_table_stride +
 * j / page_size]. Pages without a row of a stretch are not looked up, and kv_len is not read. Several sequences with
 * pages are documents, too: with batch 1 their page table is one row, and sequence b begins at row b *
 * page_table_stride * page_size.
 *
 * LENGTHS: packed sequences may end before the next one begins. Sequence b has q_len[b] queries from q_start[b] on, and
 * kv_len[b] keys from kv_start[b] on. Starts may then come in any order, and keys may be of several sequences; queries
 * are of one. Rows of Q between sequences are not read, and their O and LSE not written. FlashAttention calls them
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

typedef enum ga_attn_flags {
  GA_ATTN_CAUSAL = 1,    /* bottom-right: query i of n_q sees keys j <= i + n_kv - n_q */
  GA_ATTN_VARLEN = 2,    /* packed sequences: q_start, kv_start give the borders; batch strides are unused */
  GA_ATTN_PAGED = 4,     /* K and V are pages [page, page_size, kv_heads, dim]; page_table maps; kv_len gives lengths */
  GA_ATTN_SINKS = 8,     /* a learned logit per query head joins the softmax without a value */
  GA_ATTN_ALIBI = 16,    /* logit += slope[h] * (j - (i + n_kv - n_q)), but for SYMMETRIC */
  GA_ATTN_LSE = 32,      /* write LSE; rows that see no key get -infinity and O = 0, sink or not */
  GA_ATTN_STATE_IN = 64, /* go on from io.state_*: the keys of this call join those of earlier ones */
  GA_ATTN_STATE_OUT = 128, /* leave io.state_* for later calls; O and LSE are not written, sinks are not counted yet */
  /* A promise: what was enqueued just before this call, and may not have ended when it begins, writes none of the
   * lengths, borders, pages and keys that it reads, but for the last n_q keys of a sequence. A GPU may then ask for old
   * keys before that has ended. */
  GA_ATTN_KV_READY = 256,
  /* 8-bit q: sums of values may stay in the tensor cores' accumulators over all keys. Hopper's keep 14 bits there and
   * cut off what does not fit: of values of one sign n keys lose up to n 2^-14, O comes out as much smaller (measured:
   * 23 % at 16384). Values around 0 lose no more than their rounding: io.v_mean. */
  GA_ATTN_FAST_SUM = 512,
  /* A row of O follows bit by bit from its query, its position and the keys before it: not from batch, max_q, max_kv,
   * nor from which queries come in the same call (batch-invariant). GA_ERR_UNSUPPORTED where no row keeps this. */
  GA_ATTN_INVARIANT = 1024,
  /* Window and ALiBi look both ways, as encoders have them: with p = i + n_kv - n_q query i sees keys
   * p - window < j < p + window, and logit -= slope[h] * |j - p|. Not with CAUSAL, STATE_*, KV segments, 8-bit q. */
  GA_ATTN_SYMMETRIC = 2048,
  GA_ATTN_LENGTHS = 4096 /* VARLEN without PAGED: io.q_len and io.kv_len give lengths, starts alone are starts */
} ga_attn_flags;

typedef struct ga_attn_desc {
  size_t struct_size;
  int64_t batch;                      /* sequences */
  int64_t max_q, max_kv;              /* per sequence; exact lengths unless VARLEN or PAGED */
  int32_t q_heads, kv_heads;          /* 1 to 65536; q_heads a multiple of kv_heads */
  int32_t head_dim, v_dim;            /* 1 to 1024; v_dim 0 = head_dim */
  int32_t q_dtype, kv_dtype, o_dtype; /* ga_dtype */
  uint32_t flags;                     /* ga_attn_flags */
  int32_t
      window; /* 0 = none; else query i at p = i + n_kv - n_q sees keys j > p - window; SYMMETRIC: and j < p + window */
  int32_t page_size;   /* tokens per page, with PAGED: 1 to 2^24 */
  float scale;         /* 0 = 1 / sqrt(head_dim) */
  float softcap;       /* 0 = none; else logit = softcap * tanh(logit / softcap), before ALiBi and masks */
  int32_t kv_segments; /* 0 = K and V are io.k, io.v; else that many of io.kv_segments, of up to max_kv keys each */
  int32_t
      q_scale_tokens; /* e4m3 q: tokens that share a scale: 64 or 128; i8 q: or 1; 0 = all tokens of a head. Else 0 */
  int32_t kv_scale_tokens; /* the same of k and v: 64, 128 or 0; e4m3 k and v with another q: 1, or 0 = all tokens of a
                              head */
  int32_t reserved;        /* 0 */
  /* 0, or how many of io.q_stretches and io.kv_stretches: 1 to 64, both or none */
  int32_t q_stretches, kv_stretches;
  int64_t lse_stride; /* VARLEN, without STATE_*: 0, or LSE is [q_heads, lse_stride] by tokens; q_tokens to 2^40 */
} ga_attn_desc;
#define GA_ATTN_MAX_KV_SEGMENTS 4
#define GA_ATTN_MAX_STRETCHES   64
#define GA_ATTN_DESC_INIT \
  { sizeof(ga_attn_desc), 1, 0, 0, 0, 0, 0, 0, GA_F32, GA_F32, GA_F32, 0, 0, 0, 0.0f, 0.0f, 0, 0, 0, 0, 0, 0, 0 }

typedef struct ga_attn_strides {
  /* Elements, not negative; last dimension contiguous. PAGED K, V: batch = page. Block types: multiples of the
   * block. */
  int64_t batch, token, head;
} ga_attn_strides;

/* Scale of tokens scale_tokens * i ... of a head: data[b * batch + h * head + i * block], f32, positive and finite.
 * Strides of 0: one scale for all. b and tokens are those of k and v: with PAGED b is a page, i counts from its first
 * token; with VARLEN alone b is 0. On the device that runs. */
typedef struct ga_attn_scale {
  const float *data;
  int64_t batch, head, block;
} ga_attn_scale;

/* A stretch of keys at consecutive positions: query i sees its keys j <= i + kv - n_q + shift when CAUSAL, and the
 * window counts from there. Strides are k_stride and v_stride. */
typedef struct ga_attn_kv_segment {
  const void *k, *v;
  int64_t kv;    /* keys, 0 to max_kv */
  int64_t shift; /* -2^40 to 2^40. 0: the last query stands at the last key; n_q or more: all queries see all keys */
} ga_attn_kv_segment;

/* Rows [first, first + rows) of Q, or of K and V, at positions position, position + 1, ... of a document. Those of Q in
 * any order, none over another; those of K and V in order of document and position, none over another there. Two may
 * share rows: documents with one beginning. */
typedef struct ga_attn_stretch {
  int64_t first, rows; /* within max_q or max_kv; rows may be 0 */
  int64_t position;    /* 0 to 2^40 */
  int32_t document;    /* 0 or more */
  /* Keys: they are read once io.ready[ready_word] >= ready (unsigned, acquired at system scope); 0: they are there. */
  uint32_t ready;
  int32_t ready_word; /* 0 to 65535 */
  int32_t reserved;   /* 0 */
} ga_attn_stretch;

typedef struct ga_attn_io {
  const void *q, *k, *v;
  void *o; /* must not overlap the inputs */
  float *lse;
  ga_attn_strides q_stride, k_stride, v_stride, o_stride; /* all 0 = contiguous in the order above */
  const int32_t *q_start;    /* VARLEN: [batch + 1] first token of each sequence; [batch] beside q_len */
  const int32_t *kv_start;   /* VARLEN without PAGED: [batch + 1]; [batch] beside kv_len */
  const int32_t *kv_len;     /* PAGED, without stretches: [batch]; LENGTHS: [batch], or NULL: up to kv_start[b + 1] */
  const int32_t *page_table; /* PAGED: [batch, page_table_stride] page of each page_size tokens */
  int64_t page_table_stride; /* 0 to 2^40 */
  const float *sinks;        /* SINKS: [q_heads] */
  const float *alibi;        /* ALIBI: [q_heads] slopes */
  int64_t q_tokens,
      kv_tokens; /* VARLEN: tokens in q and o; in k and v without PAGED. GPUs need them, CPUs do not look */
  /* STATE_*: sums over the keys seen so far, contiguous f32. With w = 2^(logit * log2 e - m): O = sum w V [batch,
   * q_heads, max_q, v_dim], l = sum w and m [batch, q_heads, max_q]. m may be any number near the largest logit * log2
   * e; a row that has seen nothing: m = -infinity, l = 0, O = 0. Updated in place with both flags. */
  float *state_o, *state_m, *state_l;
  ga_attn_kv_segment kv_segments[GA_ATTN_MAX_KV_SEGMENTS];
  ga_attn_scale q_scale, k_scale, v_scale; /* of those that are e4m3 or i8 */
  const float *v_mean; /* 8-bit q: NULL, or [batch, kv_heads, v_dim], contiguous, 16-byte aligned: see FP8 */
  const ga_attn_stretch *q_stretches, *kv_stretches; /* on the host, read by the call itself */
  const uint32_t *ready; /* on the device; somebody else's stores bring them up. NULL where no stretch waits */
  /* With ready: a word on the device. A wait that looks ready_polls times in vain (0: 2^22, some 5 s on a GPU) writes 1
   * + the number of its stretch here and goes on: what O and LSE hold then means nothing. Else it is not written. */
  int32_t *ready_error;
  int64_t ready_polls;
  const int32_t *q_len; /* LENGTHS: [batch], or NULL: up to q_start[b + 1] */
} ga_attn_io;

/* Validates, chooses a kernel, sizes the workspace, loads the kernel's code: nothing is enqueued. */
GA_API GA_NODISCARD ga_status ga_attn_plan(ga_ctx *ctx, const ga_attn_desc *desc, ga_plan **out);
/* The same with the row of that id (`ga kernels`), whatever the planner would choose: results of calls of other sizes
 * then agree bit by bit. GA_ERR_UNSUPPORTED where it cannot run the description, GA_ERR_ARG where there is none. */
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
