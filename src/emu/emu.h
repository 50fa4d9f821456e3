/* The emulator, host side: runs a GPU's kernels on a CPU, with its memory, tensor maps and launches.
 * docs/guide/emulator.md lists what is modelled. One machine per process; calls come from one thread at a time. */
#ifndef GA_EMU_EMU_H
#define GA_EMU_EMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum emu_when {
  EMU_LATE,
  EMU_EARLY,
  EMU_MIXED
} emu_when; /* when asynchronous operations happen, within the legal range */

typedef struct emu_options {
  uint64_t seed;
  emu_when when;
  bool checks; /* checks races, unwritten reads, registers in flight; other checks are always on */
  int sms;     /* multiprocessors that the device claims to have */
  /* Host data counts as written by a previous grid that may still run: kernels must wait before they touch it. */
  bool dependent;
  /* Blocks of a grid run from the first to the last, for kernels that wait for the same block of another GPU. */
  bool in_order;
  double perturb; /* approximations return random values within this fraction of their documented error */
  bool verbose;   /* reports also go to stderr as they come */
} emu_options;

/* Every rule that a report can have. X(id, name) */
/* clang-format off */
#define EMU_RULES(X) \
  X(DEADLOCK, "deadlock") \
  X(TX_BYTES, "tx-bytes")               /* an mbarrier's announced bytes and the copied ones differ */ \
  X(OVER_ARRIVAL, "over-arrival") \
  X(BARRIER_INIT, "barrier-init")       /* mbarrier used before its initialisation is visible */ \
  X(BARRIER_ARGS, "barrier-args") \
  X(RACE_SHARED, "race-shared") \
  X(RACE_GLOBAL, "race-global") \
  X(PROXY_FENCE, "proxy-fence")         /* ordinary write seen by TMA or wgmma without fence.proxy.async */ \
  X(LOAD, "load-in-flight")             /* TMA may write what an earlier load has yet to read: no loads_done */ \
  X(UNWRITTEN, "unwritten-read") \
  X(BOUNDS, "out-of-bounds") \
  X(MISALIGNED, "misaligned") \
  X(REGISTERS, "register-in-flight")    /* accumulator or operand register touched before its wait */ \
  X(WGMMA_FENCE, "wgmma-fence") \
  X(WGMMA_ARGS, "wgmma-args") \
  X(DIVERGENT, "divergent")             /* an aligned operation that not all threads execute alike */ \
  X(SMEM_BUDGET, "smem-budget") \
  X(REGISTER_BUDGET, "register-budget") \
  X(EXIT, "in-flight-exit") \
  X(COPY_ARGS, "copy-args") \
  X(TENSOR_MAP, "tensor-map") \
  X(LAUNCH, "launch") \
  X(STACK, "stack")                     /* of the emulator, not of the kernel */
/* clang-format on */

typedef enum emu_rule {
#define X(id, name) EMU_RULE_##id,
  EMU_RULES(X)
#undef X
      EMU_RULE_COUNT
} emu_rule;

const char *emu_rule_name(emu_rule rule);

/* A kernel, as src/emu/row.cpp describes each compiled row. */
typedef struct emu_kernel {
  const char *id;
  void (*run)(const void *args); /* runs one thread */
  uint32_t args_bytes;
  uint32_t threads, blocks_per_sm; /* launch bounds */
} emu_kernel;

typedef struct emu_launch {
  const emu_kernel *kernel;
  uint32_t grid[3], block[3], cluster[3]; /* cluster zeros: none */
  uint32_t shared_bytes;
  bool dependent; /* programmatic dependent launch */
  const void *args;
} emu_launch;

emu_options *emu_settings(void); /* defaults, overridden by GA_EMU="seed=1,late|early|mixed,nocheck,sms=4,dependent,
                                    perturb,inorder,verbose"; the driver has settings of its own there */

/* Allocates device memory, 256-byte aligned, unwritten. NULL: the memory is exhausted. */
void *emu_alloc(size_t bytes);
bool emu_free(void *p);
bool emu_is_device(const void *p, size_t bytes); /* true when all bytes lie in one live allocation */
/* Marks bytes as written, for memset and copies from the host. */
void emu_mark_written(void *p, size_t bytes);

/* Runs a grid to its end. Returns the number of its reports; emu_report_text has their texts. */
int emu_run_launch(const emu_launch *launch);

/* Number of reports since the last clear; each is several lines of text. */
size_t emu_n_reports(void);
emu_rule emu_report_rule(size_t i);
const char *emu_report_text(size_t i);
void emu_clear_reports(void);

/* Encodes a tensor map as cuTensorMapEncodeTiled does, with its checks. Returns 0, or a driver's error code with a
 * report of rule tensor-map. type, interleave, swizzle, l2, oob: the driver's numbers. */
int emu_tmap_encode(void *map, int type, unsigned rank, void *base, const uint64_t *dims, const uint64_t *strides_bytes,
                    const uint32_t *box, const uint32_t *element_strides, int interleave, int swizzle, int l2, int oob);

/* Floating-point operations of wgmma done so far in this process, for speed reports. */
double emu_wgmma_flops(void);

#endif
