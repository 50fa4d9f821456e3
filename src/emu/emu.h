/* The emulator, host side: a GPU acted out on a CPU, with its memory, tensor maps and launches. docs/guide says
 * what is modelled. One machine per process; calls come from one thread at a time. */
#ifndef GA_EMU_EMU_H
#define GA_EMU_EMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum emu_when {
  EMU_LATE,
  EMU_EARLY,
  EMU_MIXED
} emu_when; /* when asynchronous operations happen, within what is legal */

typedef struct emu_options {
  uint64_t seed;
  emu_when when;
  bool checks;    /* races, unwritten reads, registers in flight; the rest is always on */
  int sms;        /* multiprocessors that the device claims to have */
  bool dependent; /* every launch may overlap a grid that wrote all that the host wrote: kernels must wait before they
                     touch it */
  bool
      in_order; /* blocks of a grid run from the first to the last: of kernels that wait for the same block elsewhere */
  double perturb; /* approximations give any value within this part of their documented error, by the seed */
  bool verbose;   /* reports also go to stderr as they come */
} emu_options;

/* Every rule that a report can name. X(id, name) */
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
  void (*run)(const void *args); /* one thread of it */
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

/* Device memory: 256-byte aligned, unwritten. NULL when there is none left. */
void *emu_alloc(size_t bytes);
bool emu_free(void *p);
bool emu_is_device(const void *p, size_t bytes); /* all of it inside one live allocation */
/* Host writes: memset and copies from the host make bytes written. */
void emu_mark_written(void *p, size_t bytes);

/* Runs a grid to its end. The number of reports it made; texts by emu_report. */
int emu_run_launch(const emu_launch *launch);

/* Reports since the last clear; each is a block of lines. */
size_t emu_n_reports(void);
emu_rule emu_report_rule(size_t i);
const char *emu_report_text(size_t i);
void emu_clear_reports(void);

/* What cuTensorMapEncodeTiled does, with its checks: 0, or a driver's error code and a report of rule tensor-map.
 * type, interleave, swizzle, l2, oob: the driver's numbers. */
int emu_tmap_encode(void *map, int type, unsigned rank, void *base, const uint64_t *dims, const uint64_t *strides_bytes,
                    const uint32_t *box, const uint32_t *element_strides, int interleave, int swizzle, int l2, int oob);

/* Floating-point operations of wgmma done so far in this process, for speed reports. */
double emu_wgmma_flops(void);

#endif
