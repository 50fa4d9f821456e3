/* GA, exact attention: O = softmax(scale * Q K^T + mask) V, O(N) memory.
 *
 *   Q [batch, q, q_heads, head_dim]   K [batch, kv, kv_heads, head_dim]   V [batch, kv, kv_heads, v_dim]
 *   O [batch, q, q_heads, v_dim]      LSE [batch, q_heads, q] = log sum exp of the scaled, masked logits and the sink
 *
 * LSE is contiguous, and its q is max_q. With VARLEN and lse_stride, LSE is [q_heads, lse_stride] instead: query i of
 * sequence b has entry q_start[b] + i, which is also its row in Q.
 *
 * PADDING: with VARLEN, some rows of Q may belong to no sequence. They lie before the first sequence, between sequences
 * (LENGTHS) or after the last one, up to q_tokens. They are not read; their O becomes 0. Entries of LSE without a row
 * become -infinity. With GA_ATTN_KEEP_PADDING these rows of O and entries of LSE keep their values.
 *
 * Infinities and NaN: in Q and K they have the effect that the formula gives them. A row whose logits are all
 * -infinity, or that sees no key, has O = 0. Masked keys contribute nothing whatever V holds, except with kernels
 * flagged v-finite (`ga kernels`). Such a kernel multiplies V by weights that may be 0. A non-finite element of V
 * within [0, kv_len) may then make its own column (batch, kv head, d) of O non-finite in any row. Values outside of [0,
 * kv_len) never matter: padding, ends of pages, the neighbouring packed sequence.
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
 * the distance of value dims. Its elements past the last key must not be NaN. FP8 and INT8 exclude VARLEN, PAGED,
 * STATE_* and kv_segments. They also take V from which v_mean has been subtracted in each column, as ga_attn_quant does
 * with `centre`. The formula then has v_scale * V + v_mean. Softmax weights add up to 1, so O becomes the result for
 * centred V, plus v_mean. Sums of centred values are small, and so is the error of GA_ATTN_FAST_SUM. A KV cache is laid
 * out as ga_kv_store writes it.
 *
 * STRETCHES: with q_stretches and kv_stretches, Q and K, V are lists of stretches. A stretch is a run of a tensor's
 * rows at consecutive positions of a document. A query sees the keys of its own document. CAUSAL restricts them to its
 * own position and before, a window to positions less than `window` before it. So a rank of a distributed sequence
 * needs one call for its chunks of Q and the chunks of K and V that they see. Rows of Q in no stretch are not read, and
 * their O and LSE not written; LSE is indexed by the rows of Q. A stretch of keys may have a ready word: its keys are
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
 * queries. FlashAttention calls the lengths seqused_q and seqused_k.
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
  /* query i of a sequence sees keys j <= i + n_kv - n_q; n_q and n_kv are its numbers of queries and keys, so that the
   * last query sees all keys */
  GA_ATTN_CAUSAL = 1,
  /* sequences are packed: q_start and kv_start give the first rows of each; batch strides are unused */
  GA_ATTN_VARLEN = 2,
  /* K and V are pages [page, page_size, kv_heads, dim], which page_table lists; kv_len gives numbers of keys */
  GA_ATTN_PAGED = 4,
  GA_ATTN_SINKS = 8, /* each query head has a learned logit that joins the softmax without a value (attention sink) */
  /* adds slope[h] * (j - p) to the logit of key j and query i, whose position p is i + n_kv - n_q; SYMMETRIC has
   * another formula */
  GA_ATTN_ALIBI = 16,
  GA_ATTN_LSE = 32,        /* write LSE; rows that see no key get LSE -infinity and O = 0, with or without a sink */
  GA_ATTN_STATE_IN = 64,   /* continue from io.state_*: this call's keys are added to the keys of earlier calls */
  GA_ATTN_STATE_OUT = 128, /* write io.state_* for later calls; O and LSE are not written, sinks are not counted yet */
  /* The caller's promise about the launch enqueued just before this call, which may still be running when it begins.
   * That launch writes none of the lengths, borders, pages and keys that this call reads, except the last n_q keys of a
   * sequence. A GPU may then load the older keys before that launch has ended. */
  GA_ATTN_KV_READY = 256,
  /* 8-bit q: the sums of P V, weights times values, may stay in the tensor cores' accumulators over all keys. Hopper's
   * keep 14 bits there and truncate the rest. With values of one sign, n keys lose up to n 2^-14, so O becomes too
   * small (measured: 23 % with 16384 keys). If the columns of V are centred around 0, the loss is as small as by
   * rounding: see io.v_mean. */
  GA_ATTN_FAST_SUM = 512,
  /* Batch-invariant: the bits of a row of O depend only on its query, its position, and the keys and values that it
   * sees. They do not depend on batch, max_q, max_kv or the other queries of the call. The call returns
   * GA_ERR_UNSUPPORTED if no kernel has this property. */
  GA_ATTN_INVARIANT = 1024,
  /* Window and ALiBi look both ways, as in encoders. Query i, at position p = i + n_kv - n_q (n_q queries, n_kv keys),
   * sees keys p - window < j < p + window, and logit -= slope[h] * |j - p|. Not allowed with CAUSAL, STATE_*, KV
   * segments or 8-bit q. */
  GA_ATTN_SYMMETRIC = 2048,
  GA_ATTN_LENGTHS = 4096, /* VARLEN without PAGED: io.q_len and io.kv_len give the lengths of sequences */
  /* VARLEN: rows of results that belong to no sequence keep their values, so that several calls can write one tensor.
   * Results are O and LSE, in ga_attn_bwd the gradients */
  GA_ATTN_KEEP_PADDING = 8192
} ga_attn_flags;

typedef struct ga_attn_desc {
  size_t struct_size;
  int64_t batch; /* number of sequences */
  /* largest numbers of queries and of keys of any sequence; the exact numbers unless VARLEN or PAGED */
  int64_t max_q, max_kv;
  int32_t q_heads, kv_heads; /* numbers of heads of Q, and of K and V, 1 to 65536; q_heads is a multiple of kv_heads */
  int32_t head_dim;          /* elements of a head of Q and K, 1 to 1024 */
  int32_t v_dim;             /* elements of a head of V and O, 1 to 1024; 0 = head_dim */
  int32_t q_dtype;           /* ga_dtype of Q: f32, f16, bf16, e4m3, i8 */
  int32_t kv_dtype;          /* ga_dtype of K and V: f32, f16, bf16, e4m3, q8_0, q4_0 */
  int32_t o_dtype;           /* ga_dtype of O: f32, f16, bf16 */
  uint32_t flags;            /* ga_attn_flags */
  /* sliding window, 0 = none. Else query i of n_q, at position p = i + n_kv - n_q of n_kv keys, sees keys j > p -
   * window; SYMMETRIC: and j < p + window */
  int32_t window;
  int32_t page_size; /* PAGED: tokens of a page, 1 to 2^24 */
  float scale;       /* factor of Q K^T; 0 = 1 / sqrt(head_dim) */
  float softcap;     /* 0 = none; else logit = softcap * tanh(logit / softcap), before ALiBi and masks */
  /* 0 = K and V are io.k and io.v; else the number of segments in io.kv_segments, of up to max_kv keys each */
  int32_t kv_segments;
  /* number of consecutive tokens of a head that share a scale of Q. e4m3: 64 or 128; i8: 1, 64 or 128; 0 = all tokens.
   * 0 for other types */
  int32_t q_scale_tokens;
  /* number of consecutive tokens of a head that share a scale of K and V. 8-bit q: 64 or 128, 0 = all tokens. e4m3 K
   * and V with another q: 1, 0 = all tokens */
  int32_t kv_scale_tokens;
  int32_t reserved; /* must be 0 */
  /* numbers of elements of io.q_stretches and io.kv_stretches: both 0, or both 1 to 64 */
  int32_t q_stretches, kv_stretches;
  /* 0 = LSE is [batch, q_heads, max_q]. Else, with VARLEN and without STATE_*, LSE is [q_heads, lse_stride], indexed by
   * token like Q. It is at least io.q_tokens and at most 2^40 */
  int64_t lse_stride;
} ga_attn_desc;
#define GA_ATTN_DESC_INIT \
  { sizeof(ga_attn_desc), 1, 0, 0, 0, 0, 0, 0, GA_F32, GA_F32, GA_F32, 0, 0, 0, 0.0f, 0.0f, 0, 0, 0, 0, 0, 0, 0 }
/* --- end of src/op/attn.toml --- */

typedef struct ga_attn_strides {
  /* Distances in elements between sequences, tokens and heads, 0 or more; the last dimension is contiguous. PAGED:
   * batch is the distance between pages of K and V. Block-quantised types: distances are multiples of a block's
   * elements. */
  int64_t batch, token, head;
} ga_attn_strides;

/* Scales of an 8-bit input: f32 on the device, positive and finite. Tokens [n * i, n * (i + 1)) of head h have scale
 * data[b * batch + h * head + i * block]. n is desc.q_scale_tokens or desc.kv_scale_tokens. Strides of 0: one scale for
 * all. b is the sequence; with PAGED it is the page, and i counts from its first token; with VARLEN alone it is 0. */
typedef struct ga_attn_scale {
  const float *data;
  int64_t batch, head, block;
} ga_attn_scale;

/* A part of the keys, at consecutive positions. With CAUSAL, query i of n_q sees the keys j <= i + kv - n_q + shift of
 * the segment. A window counts back from the last of these keys. The strides of k and v are k_stride and v_stride of
 * ga_attn_io. */
typedef struct ga_attn_kv_segment {
  const void *k, *v;
  int64_t kv; /* number of keys, 0 to max_kv */
  /* position of the last query minus position of the segment's last key, -2^40 to 2^40. If it is at least the number of
   * queries, all queries see all keys */
  int64_t shift;
} ga_attn_kv_segment;

/* Rows [first, first + rows) of Q, or of K and V, at positions position, position + 1, ... of a document. Stretches of
 * Q come in any order and share no rows. Stretches of K and V come in order of document and position, and no position
 * occurs twice. They may share rows, as documents with the same prefix do. */
typedef struct ga_attn_stretch {
  int64_t first, rows; /* rows [first, first + rows) lie within max_q or max_kv; rows may be 0 */
  int64_t position;    /* position of the first row in its document, 0 to 2^40 */
  int32_t document;    /* number of the document, 0 or more */
  /* The keys are read once io.ready[ready_word] >= ready (unsigned, acquired at system scope). 0: the keys are read
   * at once. */
  uint32_t ready;
  int32_t ready_word; /* index in io.ready, 0 to 65535 */
  int32_t reserved;   /* must be 0 */
} ga_attn_stretch;

/* --- src/op/attn.toml: io --- */
typedef struct ga_attn_io {
  /* Q [batch, q, q_heads, head_dim], K [batch, kv, kv_heads, head_dim], V [batch, kv, kv_heads, v_dim] */
  const void *q, *k, *v;
  void *o; /* output [batch, q, q_heads, v_dim]; must not overlap the inputs */
  /* log sum exp of each row of logits, written with flag LSE: [batch, q_heads, max_q], or [q_heads, lse_stride] if
   * desc.lse_stride is not 0 */
  float *lse;
  /* strides of Q, K, V, O; all 0 = contiguous, with dimensions in the order that the top of this file shows */
  ga_attn_strides q_stride, k_stride, v_stride, o_stride;
  /* VARLEN: row in q of each sequence's first query, [batch + 1] entries; [batch] are enough with q_len */
  const int32_t *q_start;
  /* VARLEN without PAGED: row in k and v of each sequence's first key, [batch + 1] entries; [batch] are enough with
   * kv_len */
  const int32_t *kv_start;
  /* [batch] number of keys of each sequence. PAGED: required, unless there are stretches. LENGTHS: NULL = sequence b
   * ends at kv_start[b + 1] */
  const int32_t *kv_len;
  /* PAGED: [batch, page_table_stride] numbers of pages. Entry i of a sequence is the page with its tokens i * page_size
   * to (i + 1) * page_size - 1 */
  const int32_t *page_table;
  int64_t page_table_stride; /* PAGED: elements between rows of page_table, 0 to 2^40 */
  const float *sinks;        /* SINKS: [q_heads] logit of each head's sink */
  const float *alibi;        /* ALIBI: [q_heads] slope of each head */
  /* VARLEN: numbers of tokens in q and o, and, without PAGED, in k and v. Later rows are never touched. On a CPU they
   * may be 0: then only rows of sequences are written */
  int64_t q_tokens, kv_tokens;
  /* STATE_*: sums over the keys seen so far, contiguous f32, with w = 2^(logit * log2 e - m). O = sum w V is [batch,
   * q_heads, max_q, v_dim]; l = sum w and m are [batch, q_heads, max_q]. m may be any number near the largest logit *
   * log2 e. A row that has seen no key has m = -infinity, l = 0, O = 0. STATE_IN and STATE_OUT together update the
   * state in place. */
  float *state_o, *state_m, *state_l;
  /* the keys and values by segments; the first desc.kv_segments entries are used */
  ga_attn_kv_segment kv_segments[GA_ATTN_MAX_KV_SEGMENTS];
  ga_attn_scale q_scale, k_scale, v_scale; /* scales of Q, K and V; read for those of type e4m3 or i8 */
  /* 8-bit q: [batch, kv_heads, v_dim] column means subtracted from V, contiguous, 16-byte aligned; NULL = none */
  const float *v_mean;
  /* arrays of stretches on the host, which the call reads before it returns */
  const ga_attn_stretch *q_stretches, *kv_stretches;
  /* array of ready words on the device, which other kernels or other GPUs raise. NULL if no stretch waits */
  const uint32_t *ready;
  /* With ready: a word on the device. If a stretch's ready word does not reach its value within ready_polls reads, 1 +
   * the stretch's index in kv_stretches is written to *ready_error. O and LSE are then invalid. Otherwise the word is
   * not written. */
  int32_t *ready_error;
  /* With ready: number of reads of a ready word after which a wait fails. 0 = 2^22, some 5 s on a GPU */
  int64_t ready_polls;
  /* LENGTHS: [batch] number of queries of each sequence; NULL = sequence b ends at q_start[b + 1] */
  const int32_t *q_len;
} ga_attn_io;
/* --- end of src/op/attn.toml --- */

/* Validates the description, chooses a kernel, computes the workspace size and loads the kernel's code. Nothing is
 * enqueued. */
GA_API GA_NODISCARD ga_status ga_attn_plan(ga_ctx *ctx, const ga_attn_desc *desc, ga_plan **out);
/* Plans with the kernel of the given id (`ga kernels`) in place of the planner's choice. With one kernel, calls of
 * different sizes agree bit by bit in the rows of O that they have in common. GA_ERR_UNSUPPORTED: the kernel cannot run
 * the description. GA_ERR_ARG: there is no such id. */
GA_API GA_NODISCARD ga_status ga_attn_plan_row(ga_ctx *ctx, const ga_attn_desc *desc, const char *row, ga_plan **out);
/* Enqueues the planned call. workspace: ga_plan_workspace_bytes(plan) bytes of device memory, 256-byte aligned; NULL
 * when 0. */
GA_API GA_NODISCARD ga_status ga_attn_run(const ga_plan *plan, const ga_attn_io *io, void *workspace,
                                          ga_stream *stream);
/* Enqueues a call without a separate plan. The context makes the plan at the first such call and keeps it; the stream
 * owns the workspace. */
GA_API GA_NODISCARD ga_status ga_attn(ga_ctx *ctx, const ga_attn_desc *desc, const ga_attn_io *io, ga_stream *stream);

/* --- src/op/clear_padding.toml: desc io functions --- */
/* Clears the padding of packed sequences. Rows of Q, K and V that belong to no sequence become 0. Entries of LSE that
 * belong to no row become -infinity. The tensors are results of ga_attn or gradients of ga_attn_bwd. ga_attn and
 * ga_attn_bwd call this op themselves, unless their flags have GA_ATTN_KEEP_PADDING. */
typedef struct ga_clear_padding_desc {
  size_t struct_size;
  int64_t batch; /* number of sequences */
  int64_t max_q; /* largest number of queries of any sequence; only needed for LSE */
  /* 0 = LSE is [batch, q_heads, max_q]; else LSE is [q_heads, lse_stride], indexed by token like Q */
  int64_t lse_stride;
  int32_t q_heads, kv_heads;   /* numbers of heads of Q, and of K and V, 1 to 65536 */
  int32_t q_dim, k_dim, v_dim; /* elements of a head of Q, K and V, 1 to 1024 */
  int32_t dtype;               /* ga_dtype of Q, K and V: f32, f16, bf16 */
} ga_clear_padding_desc;
#define GA_CLEAR_PADDING_DESC_INIT \
  { sizeof(ga_clear_padding_desc), 1, 0, 0, 0, 0, 0, 0, 0, GA_F32 }

typedef struct ga_clear_padding_io {
  /* Q [q_tokens, q_heads, q_dim], K [kv_tokens, kv_heads, k_dim], V [kv_tokens, kv_heads, v_dim]; NULL = there is no
   * such tensor */
  void *q, *k, *v;
  float *lse; /* LSE, shaped as lse_stride says; NULL = there is no LSE */
  /* strides of Q, K and V; all 0 = contiguous. Their field batch is not used */
  ga_attn_strides q_stride, k_stride, v_stride;
  /* [batch + 1] first row of each sequence, in rising order. With q_len and kv_len, [batch] entries in any order are
   * enough */
  const int32_t *q_start, *kv_start;
  /* [batch] number of rows of each sequence; NULL = sequence b ends at q_start[b + 1], kv_start[b + 1] */
  const int32_t *q_len, *kv_len;
  int64_t q_tokens, kv_tokens; /* numbers of rows of Q, and of K and V, 0 to 2^40 */
} ga_clear_padding_io;

GA_DECLARE_OP(clear_padding)
/* --- end of src/op/clear_padding.toml --- */

#ifdef __cplusplus
}
#endif
#endif
