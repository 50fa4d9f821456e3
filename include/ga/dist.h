/* GA, distributed exact attention: layouts say which rank holds which tokens, plans say which rank computes and sends
 * what, and executors run plans.
 *
 * A plan is a list of steps for each rank: send, receive, compute a tile, merge. It is a pure function of its
 * description: every rank builds the same bytes, and the ranks compare a hash of them before they start. Every
 * published method is a set of parameters of one builder. A verifier that shares nothing with the builder proves each
 * plan: every visible pair of a query and a key is computed once, data is there when it is read, nothing waits for
 * ever.
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
  GA_DIST_CONTIGUOUS = 1, /* the packed batch is cut into equal consecutive parts; rank r has part r */
  GA_DIST_STRIPED = 2,    /* token t is on rank t mod ranks */
  GA_DIST_ZIGZAG = 3,     /* the batch is cut into 2 x ranks chunks; rank r has chunks r and 2 ranks - 1 - r */
  /* the batch is cut into chunks x ranks parts. The first `ranks` parts go to ranks 0, 1, 2 ..., the next to the ranks
   * in reverse order, and so on. chunks = 1 is contiguous, 2 is zigzag */
  GA_DIST_CHUNKS = 4,
  GA_DIST_DOC_ZIGZAG = 5, /* as ZIGZAG, for every document separately */
  /* as contiguous, with each rank's tokens cut into `chunks` pieces. A plan may let other ranks compute some pieces of
   * a rank's queries */
  GA_DIST_PIECES = 6,
  /* Each rank gets whole documents, so that ranks have about equal work. The longest documents are cut as by
   * DOC_ZIGZAG, over as few ranks as possible, where that makes the work more equal. Ranks may have different numbers
   * of tokens. */
  GA_DIST_DOCUMENTS = 7
} ga_dist_order;

typedef struct ga_dist_layout ga_dist_layout;

typedef struct ga_dist_layout_desc {
  size_t struct_size;
  int32_t order;     /* ga_dist_order */
  int32_t ranks;     /* number of ranks, 1 to 4096 */
  int32_t chunks;    /* GA_DIST_CHUNKS, GA_DIST_PIECES: chunks or pieces of a rank, 1 to 1024; else 0 */
  int32_t documents; /* number of documents in the packed batch: 1 to 2^20 */
  /* [documents] tokens of each document, 0 or more, at most 2^40 together. Any lengths fit any number of ranks */
  const int64_t *lengths;
} ga_dist_layout_desc;
#define GA_DIST_LAYOUT_DESC_INIT \
  { sizeof(ga_dist_layout_desc), GA_DIST_CONTIGUOUS, 1, 0, 1, NULL }

GA_API GA_NODISCARD ga_status ga_dist_layout_create(const ga_dist_layout_desc *desc, ga_dist_layout **out);
GA_API void ga_dist_layout_destroy(ga_dist_layout *layout); /* NULL is fine */
/* Returns the layout's id; 0 for NULL only. Two layouts with one id put the same tokens on the same ranks in the
 * same order. */
GA_API uint64_t ga_dist_layout_id(const ga_dist_layout *layout);
GA_API int32_t ga_dist_layout_ranks(const ga_dist_layout *layout);
/* Returns the number of tokens of a rank; rank -1: of all ranks together. A rank may have 0. NULL has 0 ranks and 0
 * tokens. */
GA_API int64_t ga_dist_layout_tokens(const ga_dist_layout *layout, int32_t rank);
/* Writes, for each row of a rank, the index of its token in the packed batch to token[], and in its document to
 * position[]. Both arrays have the rank's number of tokens; either may be NULL. */
GA_API GA_NODISCARD ga_status ga_dist_layout_rows(const ga_dist_layout *layout, int32_t rank, int64_t *token,
                                                  int64_t *position);
/* Copies the rows of one rank out of the rows of all tokens. Rows may be anything (ids, positions, labels, activations)
 * of row_bytes bytes. id must be the layout's id, else GA_ERR_ARG. */
GA_API GA_NODISCARD ga_status ga_dist_permute(const ga_dist_layout *layout, uint64_t id, int32_t rank, const void *all,
                                              size_t row_bytes, void *rows);
/* Copies the rows of one rank back to their places in the rows of all tokens. id must be the layout's id. */
GA_API GA_NODISCARD ga_status ga_dist_unpermute(const ga_dist_layout *layout, uint64_t id, int32_t rank,
                                                const void *rows, size_t row_bytes, void *all);

/* --- plans --- */

/* How blocks of rows are sent between ranks. */
typedef enum ga_dist_move {
  /* each block goes from one rank that needs it to the next (a ring); partial results travel along the same ring and
   * are added up on their way */
  GA_DIST_RELAY = 1,
  /* each block goes from its owner to each rank that needs it, shortly before its use; results go straight to the
   * owner */
  GA_DIST_DIRECT = 2,
  GA_DIST_BULK = 3 /* as DIRECT, but all blocks are sent before the first tile, and all results after the last */
} ga_dist_move;

typedef enum ga_dist_need {
  /* whole blocks go to all ranks with a tile of them, even if the tile is fully masked, as in published ring methods */
  GA_DIST_SEND_ALL = 1,
  GA_DIST_SEND_BLOCKS = 2,   /* whole blocks go only to ranks with a tile in which some query sees a key of the block */
  GA_DIST_SEND_STRETCHES = 3 /* only the stretches of a block in which some tile sees keys are sent */
} ga_dist_need;

typedef enum ga_dist_flags {
  /* a query sees no key after its position; the last query of a document is at the position of its last key */
  GA_DIST_CAUSAL = 1,
  GA_DIST_BACKWARD = 2, /* the plan computes gradients; without the flag, the output */
  /* each query head has a logit that joins the softmax without a value; the plan reads tensors.sinks */
  GA_DIST_SINKS = 4,
  /* adds slope of the head x (position of the key - position of the query) to a logit; the plan reads tensors.alibi */
  GA_DIST_ALIBI = 8,
  /* backward on GPUs: dQ is summed in no fixed order. That is faster, and two runs differ in their last bits */
  GA_DIST_UNORDERED = 16
} ga_dist_flags;

/* A grid of heads x q x kv ranks. A rank has the tiles of q blocks of queries by kv blocks of keys, for one of `heads`
 * groups of heads. 0 in a field selects the method's own value. */
typedef struct ga_dist_grid {
  size_t struct_size;
  int32_t heads, q, kv; /* sizes of the grid; their product is the number of ranks */
  int32_t kv_inner;     /* methods with two nested rings: number of ranks of the inner ring; divides kv */
  /* how Q, K and V, results, and dK and dV are sent, each a ga_dist_move. Results are O, or dQ backward */
  int32_t move_q, move_kv, move_out, move_dkv;
  int32_t need;     /* ga_dist_need */
  int32_t prefetch; /* direct moves: number of stages between a block's arrival and its first use, 1 to 1024 */
  /* GPUs that gather keys or split heads (Ulysses): number of groups in which a rank's heads are sent, one group
   * after the other. 1 to 8; divides kv_heads, or the number of KV heads of a rank. Other plans ignore it. */
  int32_t groups;
  int32_t reserved; /* must be 0 */
} ga_dist_grid;
#define GA_DIST_GRID_INIT \
  { sizeof(ga_dist_grid), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

typedef struct ga_dist_plan ga_dist_plan;

typedef struct ga_dist_desc {
  size_t struct_size;
  const char *method;        /* name of a method, as ga_dist_method_name gives it */
  const ga_dist_layout *q;   /* layout of the queries */
  const ga_dist_layout *kv;  /* layout of the keys, with the same numbers of ranks and documents; NULL = q */
  int32_t q_heads, kv_heads; /* numbers of heads of Q, and of K and V, 1 to 65536; q_heads is a multiple of kv_heads */
  int32_t head_dim;          /* elements of a head of Q and K, 1 to 1024 */
  int32_t v_dim;             /* elements of a head of V and O, 1 to 1024; 0 = head_dim */
  uint32_t flags;            /* ga_dist_flags */
  int32_t reserved;          /* must be 0 */
  /* sliding window, 0 = none; else a query at position p sees the keys of its document at positions above p - window */
  int64_t window;
  const ga_dist_grid *grid; /* NULL = the grid of the method */
  int32_t dtype;            /* ga_dtype of inputs and results: f32, f16, bf16; 0 = f32 */
  /* Type of partial results and of their sums, in memory and on links: f32, or dtype as in many published programs.
   * With dtype, rounding errors grow with the number of ranks. 0 = f32. */
  int32_t partial_dtype;
  float softcap; /* 0 = none; else logit = softcap * tanh(logit / softcap), before ALiBi and masks */
  float scale;   /* factor by which Q K^T is multiplied; 0 = 1 / sqrt(head_dim) */
} ga_dist_desc;
#define GA_DIST_DESC_INIT \
  { sizeof(ga_dist_desc), "zigzag", NULL, NULL, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, 0.0f, 0.0f }

/* Returns the name of method `index`; NULL beyond the last. The string is static. */
GA_API const char *ga_dist_method_name(size_t index);
/* Returns one line that describes the method; NULL for an unknown name. The string is static. */
GA_API const char *ga_dist_method_text(const char *method);
/* Returns the ga_dist_order for which the method is meant, 0 for an unknown name. The method runs with other orders,
 * too. */
GA_API int32_t ga_dist_method_order(const char *method);

/* Builds the plan; no device is needed. The layouts must outlive the plan. GA_ERR_ARG, GA_ERR_SHAPE: the text has the
 * values seen and allowed. These products have bounds, too. Queries x keys x q_heads, summed over documents, is below
 * 2^62. tokens x q_heads x (head_dim + 2 v_dim + 1) x 4 x ranks is below 2^60. ranks^2 x grid.heads is at most 2^26.
 * The pairs of a stretch of queries and a stretch of keys of one document, times grid.heads, are at most 2^26. With
 * method balanced, ranks x stretches is at most 2^30. A stretch is a run of tokens of one document on one rank. */
GA_API GA_NODISCARD ga_status ga_dist_plan_create(const ga_dist_desc *desc, ga_dist_plan **out);
GA_API void ga_dist_plan_destroy(ga_dist_plan *plan); /* NULL is fine */
/* Returns a hash over every step of every rank and over the layouts; 0 for NULL. */
GA_API uint64_t ga_dist_plan_hash(const ga_dist_plan *plan);

/* The rules that the verifier checks. */
typedef enum ga_dist_rule {
  GA_DIST_RULE_NONE = 0,
  GA_DIST_RULE_SIZE = 1,  /* each step names a rank, slot, stretch and head that exist, and the right number of bytes */
  GA_DIST_RULE_COVER = 2, /* each visible pair of query and key is computed once for each head */
  GA_DIST_RULE_MATCH = 3, /* the k-th send of a rank to another one matches that rank's k-th receive from it */
  /* no slot is written or read while a transfer uses it, and no slot is overwritten while its contents are needed */
  GA_DIST_RULE_RACE = 4,
  /* each step reads only data that its slot holds; each partial result reaches its owner once */
  GA_DIST_RULE_AVAILABLE = 5,
  GA_DIST_RULE_ORDER = 6,    /* results are merged in the plan's numbered order */
  GA_DIST_RULE_DEADLOCK = 7, /* no rank waits for ever, whether sends are buffered or wait for their receiver */
  /* the largest memory in use at one time is the amount that the plan declares, and all of it is released */
  GA_DIST_RULE_MEMORY = 8,
  GA_DIST_RULE_BYTES = 9 /* the bytes sent from each rank to each other rank equal a formula of the grid's sizes */
} ga_dist_rule;

typedef struct ga_dist_report {
  size_t struct_size;
  int32_t rule; /* the first broken ga_dist_rule; 0 = none */
  int32_t rank; /* the rank where the rule is broken; -1 = no single rank */
  int64_t step; /* number of the step on that rank where the rule is broken; -1 = none */
} ga_dist_report;
#define GA_DIST_REPORT_INIT \
  { sizeof(ga_dist_report), 0, 0, 0 }
/* Checks all rules of the plan. GA_ERR_STATE: the plan breaks a rule, which the text names. report may be NULL. */
GA_API GA_NODISCARD ga_status ga_dist_plan_verify(const ga_dist_plan *plan, ga_dist_report *report);
GA_API const char *ga_dist_rule_name(int32_t rule); /* Returns the name of a rule, such as "cover": a static string. */

/* The work, the traffic and the memory that a plan costs one rank. */
typedef struct ga_dist_cost {
  size_t struct_size;
  int64_t steps;                      /* number of steps of the rank */
  int64_t tiles;                      /* number of the rank's tiles, which are calls of attention */
  int64_t pairs;                      /* triples of query, key and query head that the rank computes */
  int64_t sent_bytes, received_bytes; /* bytes that the rank sends and receives, over all its links */
  int64_t sends, receives;            /* numbers of messages that the rank sends and receives */
  int64_t memory_bytes;  /* bytes of blocks and partial results of other ranks, besides inputs and outputs */
  int64_t message_bytes; /* bytes of the largest message */
  /* bytes of GPU memory of the rank's executor, without inputs, outputs and the workspace of kernels. In methods that
   * gather keys it includes a second copy of the rank's own keys. Accumulators of results and gradients are counted as
   * f32. */
  int64_t device_bytes;
} ga_dist_cost;
#define GA_DIST_COST_INIT \
  { sizeof(ga_dist_cost), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
GA_API GA_NODISCARD ga_status ga_dist_plan_cost(const ga_dist_plan *plan, int32_t rank, ga_dist_cost *cost);
/* Writes the plan's grid. The method and the builder have replaced the zeros of ga_dist_desc.grid. */
GA_API GA_NODISCARD ga_status ga_dist_plan_grid(const ga_dist_plan *plan, ga_dist_grid *grid);
/* Returns the number of stages. In a stage all ranks exchange blocks, then compute, then merge. 0 for NULL. */
GA_API int32_t ga_dist_plan_stages(const ga_dist_plan *plan);
/* Returns the number of ranks; 0 for NULL. */
GA_API int32_t ga_dist_plan_ranks(const ga_dist_plan *plan);

/* The work and the traffic of one rank in one stage, counted as in ga_dist_cost: pairs are triples of query, key and
 * query head. */
typedef struct ga_dist_stage {
  size_t struct_size;
  int64_t tiles, pairs;
  int64_t sent_bytes, received_bytes;
  /* rank that owns the queries of the stage's tiles, and rank that owns their keys; -1 = no tile, -2 = several ranks */
  int32_t q_owner, kv_owner;
  /* rank to which this rank sends in the stage, and rank from which it receives; -1 = none, -2 = several */
  int32_t send_to, receive_from;
} ga_dist_stage;
#define GA_DIST_STAGE_INIT \
  { sizeof(ga_dist_stage), 0, 0, 0, 0, 0, 0, 0, 0 }
GA_API GA_NODISCARD ga_status ga_dist_plan_stage(const ga_dist_plan *plan, int32_t rank, int32_t stage,
                                                 ga_dist_stage *out);
/* Writes step `index` of a rank as one line of text; "" beyond the last. Always NUL-terminated. */
GA_API void ga_dist_plan_step_text(const ga_dist_plan *plan, int32_t rank, int64_t index, char *text, size_t capacity);

/* A measured rate at one size. ga_dist_machine has the units. */
typedef struct ga_dist_point {
  double size, rate;
} ga_dist_point;

/* A model of a machine, the same for all ranks. The caller gives every number; nothing is measured. */
typedef struct ga_dist_machine {
  size_t struct_size;
  double flops;            /* operations of attention per second on one device, measured on a call with all tokens */
  double bytes_per_second; /* bytes per second of a rank's incoming link, and of its outgoing link */
  double latency;          /* seconds of a transfer besides its bytes / bytes_per_second */
  double launch;           /* seconds of a call for one tile besides its arithmetic */
  /* operations per second of tiles whose results are merged. A value other than 0 means that the machine has GPUs.
   * Plans that gather keys are then simulated as GPUs run them: plain calls at `flops`, while the keys of the next
   * heads arrive. */
  double merged_flops;
  /* GPUs: bytes per second at which partial results are written, read, added up and rounded, besides the arithmetic.
   * 0 = merged_flops includes that time. */
  double memory_bytes_per_second;
  double backward_flops; /* operations per second of the backward pass; 0 = flops */
  /* Fixed time that a kernel needs at the start and end of its tiles. start_keys is the number of keys per query that
   * could be computed in that time. start_queries is the same for the backward pass, in queries per key. A call with n
   * keys per query runs at n / (n + start_keys) of the full rate. `flops` holds for one device's call with all tokens.
   * 0 = not modelled. */
  double start_keys, start_queries;
  /* Tables of rates by size, each in place of a number above; NULL with 0 points = that number. Sizes ascend. Between
   * two points the logarithm of the rate is linear in the logarithm of the size; beyond the ends the rate is constant.
   *
   * plain replaces flops, backward replaces backward_flops, and merged replaces merged_flops, the rate of tiles whose
   * results are merged. Without `merged` these tiles have the rate of plain x merged_flops / flops.
   *
   * The size of a call is twice the number of keys that a query sees on average, which is the number of tokens of a
   * causal call. For `backward` it is twice the number of queries that see a key on average.
   *
   * link replaces bytes_per_second; its size is the bytes of a transfer. */
  const ga_dist_point *plain, *merged, *backward, *link;
  int32_t plain_points, merged_points, backward_points, link_points;
  /* Standard deviations divided by the mean, 0 to 1. jitter is of the time of a call, spread of the speed of ranks,
   * link_spread of the speed of their outgoing links. If any is not 0, the plan is simulated `draws` times. */
  double jitter, spread, link_spread;
  int32_t draws;    /* number of simulations; 0 = 200; at most 100000 */
  int32_t reserved; /* must be 0 */
  uint64_t seed;    /* seed of the random numbers */
} ga_dist_machine;
#define GA_DIST_MACHINE_INIT                                                                                       \
  {                                                                                                                \
    sizeof(ga_dist_machine), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0.0, \
        0.0, 0.0, 0, 0, 0                                                                                          \
  }

typedef struct ga_dist_times {
  size_t struct_size;
  double seconds;              /* time until the last rank has ended, without jitter and spread */
  double mean_busy, most_busy; /* seconds that a rank spends computing tiles: the mean over ranks, and the maximum */
  double most_waiting;         /* seconds that the rank with the longest waits spends waiting */
  double efficiency;           /* mean_busy / seconds */
  /* Quantiles of the total time in seconds over the simulated draws: 5 % are below low, half are below middle, 95 % are
   * below high. Without jitter and spread all equal `seconds`. A run ends with its slowest rank, so middle is usually
   * at least `seconds`. */
  double low, middle, high;
  double one_device; /* seconds of one device that computes all tokens in one call */
} ga_dist_times;
#define GA_DIST_TIMES_INIT \
  { sizeof(ga_dist_times), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0 }
/* Predicts how long the plan takes on the machine, by simulating its schedule. Caches and other traffic on the links
 * are not modelled. */
GA_API GA_NODISCARD ga_status ga_dist_plan_simulate(const ga_dist_plan *plan, const ga_dist_machine *machine,
                                                    ga_dist_times *times);

/* --- running --- */

typedef struct ga_dist_exec ga_dist_exec;

/* Tensors of one rank, on the executor's device. A rank without rows may leave pointers NULL. */
typedef struct ga_dist_tensors {
  size_t struct_size;
  uint64_t q_layout, kv_layout; /* ids (ga_dist_layout_id) of the layouts of the query rows, and of the key rows */
  const void *q, *k, *v;
  void *o;
  float *lse;       /* log sum exp of each row of logits: written by forward plans, read by backward plans */
  const void *dout; /* gradient of o; backward only */
  void *dq, *dk, *dv;
  /* [q_heads] logits of sinks and slopes of ALiBi, the same on all ranks; read if the plan has GA_DIST_SINKS or
   * GA_DIST_ALIBI */
  const float *sinks, *alibi;
  /* [q_heads], backward with sinks: gradients of the sinks, written with the sums over the rank's own queries. The
   * caller adds up the ranks' dsinks with ga_comm_all_reduce */
  float *dsinks;
} ga_dist_tensors;
#define GA_DIST_TENSORS_INIT \
  { sizeof(ga_dist_tensors), 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL }

typedef struct ga_dist_exec_options {
  size_t struct_size;
  /* how GPUs send blocks: "peer" = into each other's memory, "host" = through host memory, "nccl" = by NCCL, "auto" =
   * peer where possible, else host. NULL = the value of the variable GA_DIST_COPIES */
  const char *copies;
  int32_t timeline; /* 1: each run records spans for ga_dist_exec_span; 0: none */
  int32_t reserved; /* must be 0 */
} ga_dist_exec_options;
#define GA_DIST_EXEC_OPTIONS_INIT \
  { sizeof(ga_dist_exec_options), NULL, 0, 0 }

/* Creates the executor of this rank of comm, which must have the plan's number of ranks. All ranks call it and compare
 * hashes: a rank with another plan makes the call fail on all ranks with GA_ERR_COMM. plan, comm and ctx must outlive
 * the executor. ctx is on a CPU or a GPU; on a GPU partial_dtype must be f32. On GPUs only plans that gather keys
 * (method llama3) can have f32 inputs, sinks or causal ALiBi (GA_ERR_UNSUPPORTED). GPUs write into each other's memory
 * where they can. Where some cannot, blocks go through host memory, and the log says so. options->copies or the
 * variable GA_DIST_COPIES selects one way, which must be the same on all ranks (GA_ERR_COMM). NCCL is loaded at run
 * time, from the file named by GA_NCCL or as libnccl.so.2; each rank then needs its own GPU. */
GA_API GA_NODISCARD ga_status ga_dist_exec_create(const ga_dist_plan *plan, ga_comm *comm, ga_ctx *ctx,
                                                  ga_dist_exec **out);
/* Does the same as ga_dist_exec_create, with options. NULL = the values of GA_DIST_EXEC_OPTIONS_INIT. */
GA_API GA_NODISCARD ga_status ga_dist_exec_create_with(const ga_dist_plan *plan, ga_comm *comm, ga_ctx *ctx,
                                                       const ga_dist_exec_options *options, ga_dist_exec **out);
/* Returns how GPUs send blocks: "peer", "host" or "nccl"; "" on a CPU and for NULL. */
GA_API const char *ga_dist_exec_copies(const ga_dist_exec *exec);
/* Returns why blocks go through host memory, such as "rank 1: GA_PEER is off"; "" if they do not. The string lives as
 * long as exec. */
GA_API const char *ga_dist_exec_host_staged(const ga_dist_exec *exec);
GA_API void ga_dist_exec_destroy(ga_dist_exec *exec); /* NULL is fine */
/* Runs the plan once. All ranks call it. If a rank fails, all ranks get an error within the timeout of comm, and
 * outputs are zeroed. On a GPU this may take twice the timeout and a second, and longer while streams still advance.
 * The failed rank gets its own error, the others GA_ERR_COMM or GA_ERR_TIMEOUT with a text that names it. On a GPU
 * the executor has streams of its own: inputs must be complete when it is called, and results are complete when it
 * returns. */
GA_API GA_NODISCARD ga_status ga_dist_exec_run(ga_dist_exec *exec, const ga_dist_tensors *io);
/* Returns the bytes that this rank has sent in all runs so far. Each run adds ga_dist_cost.sent_bytes. NULL: 0. */
GA_API uint64_t ga_dist_exec_sent_bytes(const ga_dist_exec *exec);

/* --- the timeline of a run --- */

/* The kinds of work that a span of the timeline may show. */
typedef enum ga_dist_work {
  GA_DIST_WORK_ATTENTION = 1, /* a call of attention */
  GA_DIST_WORK_MERGE = 2,     /* partial results are merged, or gradients added */
  GA_DIST_WORK_CONVERT = 3,   /* results are rounded into the caller's tensors */
  GA_DIST_WORK_CLEAR = 4,     /* zeros are written */
  GA_DIST_WORK_COPY = 5,      /* rows are copied within the rank's own memory */
  GA_DIST_WORK_PUSH = 6,      /* a block is sent to another rank */
  GA_DIST_WORK_EXCHANGE = 7,  /* blocks are sent to and received from other ranks, through host memory or by NCCL */
  GA_DIST_WORK_WAIT = 8       /* the stream waits for another rank, or for another stream of this rank */
} ga_dist_work;
/* Returns the name of a kind of work, such as "attention": a static string. */
GA_API const char *ga_dist_work_name(int32_t work);

/* One piece of work of a stream. begin and end are seconds since the run's start on this rank. On a GPU they are
 * times of events: a kernel that shares the GPU with another stream's kernel may begin later than its span. */
typedef struct ga_dist_span {
  size_t struct_size;
  int32_t work;            /* ga_dist_work */
  int32_t stream;          /* number of the stream, from 0 on */
  const char *stream_name; /* "compute", "second", "local", "copies", "results"; on a CPU "host". Static. */
  const char *what; /* tensors of the work, or the data waited for: "K, V", "own copy"; "" = not known. Static. */
  int32_t peer;     /* rank that receives the data, or that is waited for; -1 = none, or several */
  /* number of the group of heads that the work is for, in plans that gather keys or split heads; -1 = none, or all */
  int32_t group;
  int64_t bytes; /* bytes sent to other ranks; in one run they add up to ga_dist_cost.sent_bytes */
  double begin, end;
} ga_dist_span;
#define GA_DIST_SPAN_INIT \
  { sizeof(ga_dist_span), 0, 0, NULL, NULL, 0, 0, 0, 0.0, 0.0 }

typedef struct ga_dist_timeline {
  size_t struct_size;
  int64_t spans;
  double seconds; /* seconds from the run's start until all of its work has ended */
  /* Time of the start on the host's clock (CLOCK_MONOTONIC), in seconds. Ranks of one host share the clock.
   * start_error: possible error of start in seconds, on a GPU some 10 us. */
  double start, start_error;
} ga_dist_timeline;
#define GA_DIST_TIMELINE_INIT \
  { sizeof(ga_dist_timeline), 0, 0.0, 0.0, 0.0 }
/* Returns the timeline of the last run. GA_ERR_STATE unless that run succeeded and the executor was created with
 * ga_dist_exec_options.timeline. Runs then take longer, since two events are recorded for each span. */
GA_API GA_NODISCARD ga_status ga_dist_exec_timeline(const ga_dist_exec *exec, ga_dist_timeline *out);
/* Returns span `index` of the last run's timeline, from 0 to spans - 1 (else GA_ERR_ARG). Spans of one stream are in
 * order and do not overlap. */
GA_API GA_NODISCARD ga_status ga_dist_exec_span(const ga_dist_exec *exec, int64_t index, ga_dist_span *out);

/* --- how fast ranks are linked --- */

typedef struct ga_dist_link_options {
  size_t struct_size;
  const char *copies; /* how GPUs send blocks: NULL or a name of ga_dist_exec_options.copies */
  int32_t runs;       /* number of measurements, 1 to 64; 0 = 7 */
  int32_t reserved;   /* must be 0 */
} ga_dist_link_options;
#define GA_DIST_LINK_OPTIONS_INIT \
  { sizeof(ga_dist_link_options), NULL, 0, 0 }

/* Measures how fast ranks send blocks, for ga_dist_machine.link: its rates are bytes[i] / seconds[i]. All ranks at once
 * send to the next rank and receive from the one before, one block after another. bytes[n] are sizes of blocks, 1 to
 * 2^34; n is 1 to 64. seconds[i] is the median time of a block of bytes[i] bytes on the slowest rank; all ranks get the
 * same. Before the measurements the largest block is sent once and its contents are checked. All ranks (at least 2)
 * call the function with the same sizes and runs, else GA_ERR_COMM. comm, ctx and errors are as for
 * ga_dist_exec_create; on a CPU blocks go through comm. Each rank allocates twice the largest block. options may be
 * NULL. *copies gets how blocks were sent, as ga_dist_exec_copies names it, a static string; copies may be NULL. */
GA_API GA_NODISCARD ga_status ga_dist_link_times(ga_comm *comm, ga_ctx *ctx, const ga_dist_link_options *options,
                                                 const int64_t *bytes, int32_t n, double *seconds, const char **copies);

#ifdef __cplusplus
}
#endif
#endif
