/* GA, distributed exact attention: who holds which tokens (layouts), who computes what and when (plans), running it.
 *
 * A plan is a list of steps for each rank: send, receive, compute a tile, merge. It is a pure function of what it is
 * made for: every rank builds the same bytes, and the ranks compare a hash of them before they start. Every published
 * method is a set of parameters of one builder. A verifier that shares nothing with the builder proves each plan: every
 * visible pair of a query and a key is computed once, data is there when it is read, nothing waits for ever.
 *
 * Tensors of a rank have the rows of its tokens in the order of the layout, contiguous, f32, f16 or bf16; LSE is f32:
 *   Q, dQ [rows, q_heads, head_dim]   K, dK [rows, kv_heads, head_dim]   V, dV [rows, kv_heads, v_dim]
 *   O, dO [rows, q_heads, v_dim]      LSE [q_heads, rows]
 *
 * Sources: Ring Attention (arXiv 2310.01889), Striped Attention (2311.09431), DistFlashAttn (2310.03294), Ulysses
 * (2309.14509), USP (2405.07719), WallFacer (2407.00611), Mesh-Attention (2512.20968), LoongTrain (2406.18485),
 * BurstAttention (2403.09347), Tree Attention (2408.04093), Context parallelism for inference (2411.01783).
 */
#ifndef GA_DIST_H
#define GA_DIST_H

#include "ga/comm.h"
#include "ga/ctx.h"
#include "ga/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- layouts --- */

typedef enum ga_dist_order {
  GA_DIST_CONTIGUOUS = 1, /* rank r has the r-th of equal stretches of the packed batch */
  GA_DIST_STRIPED = 2,    /* token t is on rank t mod ranks */
  GA_DIST_ZIGZAG = 3,     /* 2 x ranks chunks; rank r has chunks r and 2 ranks - 1 - r */
  GA_DIST_CHUNKS = 4,     /* chunks x ranks chunks, dealt out forth and back: 1 is contiguous, 2 is zigzag */
  GA_DIST_DOC_ZIGZAG = 5, /* zigzag in every document by itself */
  GA_DIST_PIECES = 6,     /* as contiguous, in `chunks` pieces a rank, which a free table may give to different ranks */
  /* Whole documents, so that ranks have about equal work; the longest are cut as doc_zigzag where that evens it out,
   * over as few ranks as that takes. Ranks then differ in tokens. */
  GA_DIST_DOCUMENTS = 7
} ga_dist_order;

typedef struct ga_dist_layout ga_dist_layout;

typedef struct ga_dist_layout_desc {
  size_t struct_size;
  int32_t order;          /* ga_dist_order */
  int32_t ranks;          /* 1 to 4096 */
  int32_t chunks;         /* GA_DIST_CHUNKS, GA_DIST_PIECES: 1 to 1024 of a rank; else 0 */
  int32_t documents;      /* of the packed batch: 1 to 2^20 */
  const int64_t *lengths; /* [documents] tokens of each, 0 or more, 2^40 in all; any length fits any rank count */
} ga_dist_layout_desc;
#define GA_DIST_LAYOUT_DESC_INIT \
  { sizeof(ga_dist_layout_desc), GA_DIST_CONTIGUOUS, 1, 0, 1, NULL }

GA_API GA_NODISCARD ga_status ga_dist_layout_create(const ga_dist_layout_desc *desc, ga_dist_layout **out);
GA_API void ga_dist_layout_destroy(ga_dist_layout *layout); /* NULL is fine */
/* Two layouts with one id put the same tokens on the same ranks in the same order. Never 0, but for NULL. */
GA_API uint64_t ga_dist_layout_id(const ga_dist_layout *layout);
GA_API int32_t ga_dist_layout_ranks(const ga_dist_layout *layout);
/* Returns the number of tokens of a rank; rank -1: of all ranks together. A rank may have 0. NULL has 0 ranks and 0
 * tokens. */
GA_API int64_t ga_dist_layout_tokens(const ga_dist_layout *layout, int32_t rank);
/* token[tokens of the rank]: which token of the packed batch each row is. position: its place in its document. Either
 * may be NULL. */
GA_API GA_NODISCARD ga_status ga_dist_layout_rows(const ga_dist_layout *layout, int32_t rank, int64_t *token,
                                                  int64_t *position);
/* Rows of any kind (ids, positions, labels, activations), row_bytes each: those of a rank out of all, and back into
 * their places. id must be the layout's: a mismatch is an error, not a scramble. */
GA_API GA_NODISCARD ga_status ga_dist_permute(const ga_dist_layout *layout, uint64_t id, int32_t rank, const void *all,
                                              size_t row_bytes, void *rows);
GA_API GA_NODISCARD ga_status ga_dist_unpermute(const ga_dist_layout *layout, uint64_t id, int32_t rank,
                                                const void *rows, size_t row_bytes, void *all);

/* --- plans --- */

/* How a block of rows travels. */
typedef enum ga_dist_move {
  GA_DIST_RELAY = 1,  /* from one that needs it to the next (a ring); results are added up on the way */
  GA_DIST_DIRECT = 2, /* from its owner to each that needs it, just in time; results straight to the owner */
  GA_DIST_BULK = 3    /* as direct, all at once: before the first tile, results after the last */
} ga_dist_move;

typedef enum ga_dist_need {
  GA_DIST_SEND_ALL = 1,      /* whole blocks to all of the group, as published rings do */
  GA_DIST_SEND_BLOCKS = 2,   /* whole blocks, only to ranks with a tile that sees some of it */
  GA_DIST_SEND_STRETCHES = 3 /* only the stretches that some tile sees */
} ga_dist_need;

typedef enum ga_dist_flags {
  GA_DIST_CAUSAL = 1,   /* the last query of a document stands at its last key */
  GA_DIST_BACKWARD = 2, /* the plan of the gradients; else of the output */
  GA_DIST_SINKS = 4,    /* a logit of each query head joins the softmax without a value: tensors.sinks */
  GA_DIST_ALIBI = 8,    /* logit += slope of the head x (place of the key - place of the query): tensors.alibi */
  GA_DIST_UNORDERED =
      16 /* backward on GPUs: dQ is summed in no fixed order; faster, and two runs differ in last bits */
} ga_dist_flags;

/* A grid heads x q x kv of ranks: a rank has the tiles of q blocks of queries by kv blocks of keys, for one of `heads`
 * groups of heads. 0 in any field stands for the method's own value. */
typedef struct ga_dist_grid {
  size_t struct_size;
  int32_t heads, q, kv;                        /* their product is the rank count */
  int32_t kv_inner;                            /* of a double ring: ranks of the inner one; divides kv */
  int32_t move_q, move_kv, move_out, move_dkv; /* ga_dist_move; move_out: O, or dQ backward */
  int32_t need;                                /* ga_dist_need */
  int32_t prefetch; /* direct moves: stages between a block's arrival and its first use, 1 to 1024 */
  /* Only on GPUs that gather keys or split heads (Ulysses): a rank's heads are sent in so many groups, one group after
   * the other. 1 to 8; divides kv_heads, or the number of KV heads of a rank. */
  int32_t groups;
  int32_t reserved; /* 0 */
} ga_dist_grid;
#define GA_DIST_GRID_INIT \
  { sizeof(ga_dist_grid), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

typedef struct ga_dist_plan ga_dist_plan;

typedef struct ga_dist_desc {
  size_t struct_size;
  const char *method;        /* name of a method, ga_dist_method_name */
  const ga_dist_layout *q;   /* of queries */
  const ga_dist_layout *kv;  /* of keys: as many ranks and documents; NULL = q */
  int32_t q_heads, kv_heads; /* 1 to 65536; q_heads a multiple of kv_heads */
  int32_t head_dim, v_dim;   /* 1 to 1024; v_dim 0 = head_dim */
  uint32_t flags;            /* ga_dist_flags */
  int32_t reserved;          /* 0 */
  int64_t window;            /* 0 = none; else query p sees keys j > p - window of its document */
  const ga_dist_grid *grid;  /* NULL = the method's */
  int32_t dtype;             /* ga_dtype of inputs and results: f32, f16, bf16; 0 = f32 */
  /* Type of partial results and of their sums, in memory and on links: f32, or dtype as in many published programs.
   * With dtype, rounding errors grow with the number of ranks. 0 = f32. */
  int32_t partial_dtype;
  float softcap; /* 0 = none; else as in ga_attn_desc */
  float scale;   /* 0 = 1 / sqrt(head_dim) */
} ga_dist_desc;
#define GA_DIST_DESC_INIT \
  { sizeof(ga_dist_desc), "zigzag", NULL, NULL, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, 0.0f, 0.0f }

/* NULL beyond the last. Static. */
GA_API const char *ga_dist_method_name(size_t index);
/* One line: what the method is. NULL for an unknown name. Static. */
GA_API const char *ga_dist_method_text(const char *method);
/* The ga_dist_order that the method is meant for, 0 when it has no such name. Others work, too. */
GA_API int32_t ga_dist_method_order(const char *method);

/* Needs no device. The layouts must outlive the plan. GA_ERR_ARG, GA_ERR_SHAPE: values seen and allowed.
 * Products have bounds, too: queries x keys x q_heads, summed over documents, is below 2^62, and
 * tokens x q_heads x (head_dim + 2 v_dim + 1) x 4 x ranks is below 2^60. ranks^2 x heads of the grid is at most 2^26.
 * Pairs of stretches x heads of the grid are at most 2^26; with method balanced ranks x stretches at most 2^30. A
 * stretch is a run of tokens of one document on one rank. */
GA_API GA_NODISCARD ga_status ga_dist_plan_create(const ga_dist_desc *desc, ga_dist_plan **out);
GA_API void ga_dist_plan_destroy(ga_dist_plan *plan); /* NULL is fine */
/* Returns a hash over every step of every rank and over the layouts; 0 for NULL. */
GA_API uint64_t ga_dist_plan_hash(const ga_dist_plan *plan);

/* The rules of the verifier. */
typedef enum ga_dist_rule {
  GA_DIST_RULE_NONE = 0,
  GA_DIST_RULE_SIZE = 1,      /* a step names a rank, slot, stretch or head that is not there, or other bytes */
  GA_DIST_RULE_COVER = 2,     /* each visible pair of query and key is computed once for each head */
  GA_DIST_RULE_MATCH = 3,     /* the k-th send from one rank to another is its k-th receive */
  GA_DIST_RULE_RACE = 4,      /* a slot is written or read while a transfer uses it, or while it holds something */
  GA_DIST_RULE_AVAILABLE = 5, /* a step reads what its slot holds; each partial result reaches its owner once */
  GA_DIST_RULE_ORDER = 6,     /* results are merged in the order that the plan numbers */
  GA_DIST_RULE_DEADLOCK = 7,  /* no rank waits for ever, whether sends are buffered or wait for the receiver */
  GA_DIST_RULE_MEMORY = 8,    /* the most memory that is in use at once is what the plan declares; all is released */
  GA_DIST_RULE_BYTES = 9      /* bytes from each rank to each other equal the closed form */
} ga_dist_rule;

typedef struct ga_dist_report {
  size_t struct_size;
  int32_t rule; /* ga_dist_rule that is broken first, 0 = none */
  int32_t rank; /* where; -1 = no single one */
  int64_t step; /* its number on that rank; -1 = none */
} ga_dist_report;
#define GA_DIST_REPORT_INIT \
  { sizeof(ga_dist_report), 0, 0, 0 }
/* GA_ERR_STATE with a text that names the rule when the plan is wrong. report may be NULL. */
GA_API GA_NODISCARD ga_status ga_dist_plan_verify(const ga_dist_plan *plan, ga_dist_report *report);
GA_API const char *ga_dist_rule_name(int32_t rule); /* "cover". Static. */

/* The work, the traffic and the memory that a plan costs one rank. */
typedef struct ga_dist_cost {
  size_t struct_size;
  int64_t steps, tiles;
  int64_t pairs;                      /* triples of query, key and query head that the rank computes */
  int64_t sent_bytes, received_bytes; /* over all links */
  int64_t sends, receives;            /* messages */
  int64_t memory_bytes;               /* for blocks and partial results of others, beside inputs and outputs */
  int64_t message_bytes;              /* of the largest message */
  /* GPU memory of the rank's executor, without inputs, outputs and the workspace of kernels. In methods that gather
   * keys it includes a second copy of the rank's own keys. Accumulators of results and
   * gradients are counted as f32. */
  int64_t device_bytes;
} ga_dist_cost;
#define GA_DIST_COST_INIT \
  { sizeof(ga_dist_cost), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
GA_API GA_NODISCARD ga_status ga_dist_plan_cost(const ga_dist_plan *plan, int32_t rank, ga_dist_cost *cost);
/* The grid with what the method and the builder chose. */
GA_API GA_NODISCARD ga_status ga_dist_plan_grid(const ga_dist_plan *plan, ga_dist_grid *grid);
/* Stages: all ranks exchange, then compute, then merge. NULL has 0 stages and 0 ranks. */
GA_API int32_t ga_dist_plan_stages(const ga_dist_plan *plan);
GA_API int32_t ga_dist_plan_ranks(const ga_dist_plan *plan);

/* The work and the traffic of one rank in one stage. */
typedef struct ga_dist_stage {
  size_t struct_size;
  int64_t tiles, pairs;
  int64_t sent_bytes, received_bytes;
  int32_t q_owner, kv_owner; /* ranks that own the queries and keys of its tiles: -1 = no tile, -2 = several ranks */
  int32_t send_to, receive_from; /* partner ranks: -1 = none, -2 = several */
} ga_dist_stage;
#define GA_DIST_STAGE_INIT \
  { sizeof(ga_dist_stage), 0, 0, 0, 0, 0, 0, 0, 0 }
GA_API GA_NODISCARD ga_status ga_dist_plan_stage(const ga_dist_plan *plan, int32_t rank, int32_t stage,
                                                 ga_dist_stage *out);
/* Step `index` of a rank as one line of text; "" beyond the last. Always NUL-terminated. */
GA_API void ga_dist_plan_step_text(const ga_dist_plan *plan, int32_t rank, int64_t index, char *text, size_t capacity);

/* A rate that was measured at a size. */
typedef struct ga_dist_point {
  double size, rate;
} ga_dist_point;

/* A model of a machine, the same for all ranks; every field is the caller's, nothing is measured here. */
typedef struct ga_dist_machine {
  size_t struct_size;
  double flops;            /* attention's operations a second on one device, measured on a call with all tokens */
  double bytes_per_second; /* of a rank's incoming link, and the same of its outgoing link */
  double latency;          /* seconds that a transfer takes beside its bytes */
  double launch;           /* seconds that a call of a tile takes beside its arithmetic */
  /* 0, or the machine is one of GPUs: flops of tiles whose results are merged. Plans that gather keys then run as GPUs
   * run them: plain calls at `flops`, while the next heads' keys come. */
  double merged_flops;
  /* GPUs: at which partial results are written, read, added up and rounded, beside the arithmetic. 0 = that is in
   * merged_flops. */
  double memory_bytes_per_second;
  double backward_flops; /* as flops; 0 = flops */
  /* Fixed time of a kernel's tile (start and end), given as the number of further keys for each of its queries that
   * would take as long; start_queries is the same of the backward, in queries for each key. Calls with shorter rows
   * than one device's call of all tokens are predicted slower by that share. 0 = not modelled. */
  double start_keys, start_queries;
  /* Rates by size, in the place of the numbers above: sizes ascend; between two points the logarithm of the rate is a
   * line over that of the size, and beyond the ends it is that of the end. NULL and 0 = the number.
   * plain, merged (else merged_flops / flops of plain), backward: flops by the tokens of a causal call. A call of
   * another shape has twice as many as its queries see keys on average; backward as its keys are seen by queries.
   * link: bytes a second by the bytes of a transfer. */
  const ga_dist_point *plain, *merged, *backward, *link;
  int32_t plain_points, merged_points, backward_points, link_points;
  /* Standard deviations, as parts of the mean, 0 to 1: of the time of a call (jitter), of the speed of ranks (spread)
   * and of their ways out (link_spread). The plan is then played `draws` times. */
  double jitter, spread, link_spread;
  int32_t draws;    /* 0 = 200; at most 100000 */
  int32_t reserved; /* 0 */
  uint64_t seed;
} ga_dist_machine;
#define GA_DIST_MACHINE_INIT                                                                                       \
  {                                                                                                                \
    sizeof(ga_dist_machine), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0.0, \
        0.0, 0.0, 0, 0, 0                                                                                          \
  }

typedef struct ga_dist_times {
  size_t struct_size;
  double seconds;              /* until the last rank has ended, without jitter and spread */
  double mean_busy, most_busy; /* seconds in tiles, of a rank */
  double most_waiting;         /* seconds of the rank that waits longest */
  double efficiency;           /* mean_busy / seconds */
  /* Seconds over the draws: 5 % are below low, half below middle, 95 % below high. Without jitter and spread: seconds.
   * A run ends with its slowest rank, so middle is not below seconds as a rule. */
  double low, middle, high;
  double one_device; /* seconds of one device that does all tokens in one call */
} ga_dist_times;
#define GA_DIST_TIMES_INIT \
  { sizeof(ga_dist_times), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0 }
/* Predicts how long the plan takes on the machine, by simulating its schedule. Caches and other traffic on the links
 * are not modelled. */
GA_API GA_NODISCARD ga_status ga_dist_plan_simulate(const ga_dist_plan *plan, const ga_dist_machine *machine,
                                                    ga_dist_times *times);

/* --- running --- */

typedef struct ga_dist_exec ga_dist_exec;

/* Pointers of one rank, on ctx's device. A rank without rows may give NULL. */
typedef struct ga_dist_tensors {
  size_t struct_size;
  uint64_t q_layout, kv_layout; /* ids of the layouts that the rows below are in */
  const void *q, *k, *v;
  void *o;
  float *lse;       /* with o: written forward, read backward */
  const void *dout; /* backward */
  void *dq, *dk, *dv;
  const float *sinks, *alibi; /* [q_heads], with their flags, on ctx's device; the same on all ranks */
  float *dsinks; /* [q_heads], backward with sinks: of the rank's own queries. ga_comm_all_reduce adds them */
} ga_dist_tensors;
#define GA_DIST_TENSORS_INIT \
  { sizeof(ga_dist_tensors), 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL }

typedef struct ga_dist_exec_options {
  size_t struct_size;
  const char *copies; /* how blocks go from GPU to GPU: "auto", "peer", "host", "nccl"; NULL: as GA_DIST_COPIES says */
  int32_t timeline;   /* 1: each run records its spans, ga_dist_exec_span; 0: none */
  int32_t reserved;   /* 0 */
} ga_dist_exec_options;
#define GA_DIST_EXEC_OPTIONS_INIT \
  { sizeof(ga_dist_exec_options), NULL, 0, 0 }

/* For the rank of comm, whose rank count is the plan's. All ranks call it: they compare hashes, and a rank with another
 * plan ends it for all with GA_ERR_COMM. plan, comm and ctx must outlive the executor.
 * ctx: of a CPU; or of a GPU: then partial_dtype is f32. Inputs of f32, sinks and ALiBi (causal) are there for plans
 * that gather keys (llama3) alone (GA_ERR_UNSUPPORTED).
 * GPUs write into each other's memory where they can; where some cannot, blocks go through host memory, and the log
 * says so. options->copies or the variable GA_DIST_COPIES asks for one way, the same on all ranks (GA_ERR_COMM). NCCL
 * is loaded at run time, from the file that GA_NCCL names or as libnccl.so.2; each rank has a GPU of its own then. */
GA_API GA_NODISCARD ga_status ga_dist_exec_create(const ga_dist_plan *plan, ga_comm *comm, ga_ctx *ctx,
                                                  ga_dist_exec **out);
/* options: NULL = those of INIT. */
GA_API GA_NODISCARD ga_status ga_dist_exec_create_with(const ga_dist_plan *plan, ga_comm *comm, ga_ctx *ctx,
                                                       const ga_dist_exec_options *options, ga_dist_exec **out);
/* How blocks go from GPU to GPU: "peer", "host" or "nccl"; "" on a CPU, and of NULL. */
GA_API const char *ga_dist_exec_copies(const ga_dist_exec *exec);
/* Why blocks go through host memory ("host"), such as "rank 1: GA_PEER is off"; else "". It lives as long as exec. */
GA_API const char *ga_dist_exec_host_staged(const ga_dist_exec *exec);
GA_API void ga_dist_exec_destroy(ga_dist_exec *exec); /* NULL is fine */
/* Runs the plan once. All ranks call it. If a rank fails, all ranks get an error within the timeout of comm, and
 * outputs are zeroed. On a GPU this may take twice the timeout and a second, and longer while streams still advance.
 * The failed rank gets its own error, the others GA_ERR_COMM or GA_ERR_TIMEOUT with a text that names it. On a GPU
 * the executor has streams of its own: inputs must be complete when it is called, and results are complete when it
 * returns. */
GA_API GA_NODISCARD ga_status ga_dist_exec_run(ga_dist_exec *exec, const ga_dist_tensors *io);
/* Bytes that this rank has sent in all runs; of each they equal ga_dist_cost.sent_bytes. NULL: 0. */
GA_API uint64_t ga_dist_exec_sent_bytes(const ga_dist_exec *exec);

/* --- the timeline of a run --- */

/* The kinds of work that a span of the timeline may show. */
typedef enum ga_dist_work {
  GA_DIST_WORK_ATTENTION = 1, /* a call of attention */
  GA_DIST_WORK_MERGE = 2,     /* partial results are merged, or gradients added */
  GA_DIST_WORK_CONVERT = 3,   /* sums are rounded into the caller's tensors */
  GA_DIST_WORK_CLEAR = 4,     /* zeros are written */
  GA_DIST_WORK_COPY = 5,      /* rows go to another place of the rank's own memory */
  GA_DIST_WORK_PUSH = 6,      /* a block goes to another rank */
  GA_DIST_WORK_EXCHANGE = 7,  /* blocks go to others and come from them: through host memory, or by NCCL */
  GA_DIST_WORK_WAIT = 8       /* for another rank, or for another stream of this one */
} ga_dist_work;
GA_API const char *ga_dist_work_name(int32_t work); /* "attention". Static. */

/* A stream does one thing from begin to end. Both are seconds since the run's start on this rank. On a GPU they are
 * those of events, so a kernel that shares the GPU with another stream's may begin later than its span. */
typedef struct ga_dist_span {
  size_t struct_size;
  int32_t work;            /* ga_dist_work */
  int32_t stream;          /* from 0 on */
  const char *stream_name; /* "compute", "second", "local", "copies", "results"; on a CPU "host". Static. */
  const char *what;        /* of which tensors, or what is waited for: "K, V", "own copy"; "" = not told. Static. */
  int32_t peer;            /* rank that it goes to, or that is waited for; -1 = none, or several */
  int32_t group;           /* of heads, where keys are gathered or heads split; -1 = none, or all */
  int64_t bytes;           /* that go to other ranks: in a run all of them are ga_dist_cost.sent_bytes */
  double begin, end;
} ga_dist_span;
#define GA_DIST_SPAN_INIT \
  { sizeof(ga_dist_span), 0, 0, NULL, NULL, 0, 0, 0, 0.0, 0.0 }

typedef struct ga_dist_timeline {
  size_t struct_size;
  int64_t spans;
  double seconds; /* from the run's start until all of it has ended */
  /* The start on the host's clock (CLOCK_MONOTONIC), which ranks of one host share, give or take start_error: on a GPU
   * some 10 us. */
  double start, start_error;
} ga_dist_timeline;
#define GA_DIST_TIMELINE_INIT \
  { sizeof(ga_dist_timeline), 0, 0.0, 0.0, 0.0 }
/* Returns the timeline of the last run. GA_ERR_STATE unless that run succeeded and the executor was created with
 * ga_dist_exec_options.timeline. Runs then take longer, since two events are recorded for each span. */
GA_API GA_NODISCARD ga_status ga_dist_exec_timeline(const ga_dist_exec *exec, ga_dist_timeline *out);
/* Spans of a stream stand in their order, and do not overlap. index: below timeline.spans (GA_ERR_ARG). */
GA_API GA_NODISCARD ga_status ga_dist_exec_span(const ga_dist_exec *exec, int64_t index, ga_dist_span *out);

/* --- how fast ranks are linked --- */

typedef struct ga_dist_link_options {
  size_t struct_size;
  const char *copies; /* as in ga_dist_exec_options */
  int32_t runs;       /* rounds, 1 to 64; 0 = 7 */
  int32_t reserved;   /* 0 */
} ga_dist_link_options;
#define GA_DIST_LINK_OPTIONS_INIT \
  { sizeof(ga_dist_link_options), NULL, 0, 0 }

/* Measures how fast blocks go between ranks, for ga_dist_machine.link: its rates are bytes[i] / seconds[i].
 * All ranks at once send to the next rank and receive from the one before, one block after another. seconds[i] is the
 * time of a block of bytes[i] bytes (1 to 2^34; n: 1 to 64) on the slowest rank, as the median of the rounds; all ranks
 * get the same. First the bytes that arrive are checked with the largest block. All ranks (at least 2) call it with the
 * same sizes and rounds, else GA_ERR_COMM. comm, ctx and errors: as for ga_dist_exec_create; on a CPU blocks go through
 * comm. Each rank allocates twice the largest block. options may be NULL. *copies, unless NULL, becomes the name that
 * ga_dist_exec_copies gives, a static string. */
GA_API GA_NODISCARD ga_status ga_dist_link_times(ga_comm *comm, ga_ctx *ctx, const ga_dist_link_options *options,
                                                 const int64_t *bytes, int32_t n, double *seconds, const char **copies);

#ifdef __cplusplus
}
#endif
#endif
