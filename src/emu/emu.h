/* Host side of the emulator, which runs a GPU's kernels on a CPU: its memory, tensor maps and launches.
 * docs/guide/emulator.md lists what is modelled. There is one emulated machine per process; calls must come from one
 * thread at a time. */
#ifndef GA_EMU_EMU_H
#define GA_EMU_EMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Time, within the legal range, at which asynchronous operations happen: as late as possible, as early as possible, or
 * varied at random. */
typedef enum emu_when { EMU_LATE, EMU_EARLY, EMU_MIXED } emu_when;

typedef struct emu_options {
  uint64_t seed;
  emu_when when;
  /* True: checks races, reads of unwritten memory, and registers in flight. Other checks are always on. */
  bool checks;
  /* Number of multiprocessors that the device reports. */
  int sms;
  /* True: data from the host counts as written by a previous grid that may still run. Kernels must then wait before
   * they access the data. */
  bool dependent;
  /* True: blocks of a grid run in the order of their indices. Kernels need this if a block waits for the same block on
   * another GPU. */
  bool in_order;
  /* Approximate instructions return random values, whose distance from the exact result is at most this fraction of the
   * documented error. 0: they return the exact result, rounded. */
  double perturb;
  bool verbose; /* True: reports are also written to stderr when they occur. */
} emu_options;

/* EMU_RULES lists every rule that a report can have, as X(id, name). */
/* clang-format off */
#define EMU_RULES(X) \
  X(DEADLOCK, "deadlock") \
  X(TX_BYTES, "tx-bytes")               /* the announced bytes of an mbarrier differ from the copied bytes */ \
  X(OVER_ARRIVAL, "over-arrival") \
  X(BARRIER_INIT, "barrier-init")       /* an mbarrier is used before its initialisation is visible */ \
  X(BARRIER_ARGS, "barrier-args") \
  X(RACE_SHARED, "race-shared") \
  X(RACE_GLOBAL, "race-global") \
  X(PROXY_FENCE, "proxy-fence")         /* TMA or wgmma reads an ordinary write without fence.proxy.async */ \
  X(LOAD, "load-in-flight")             /* TMA may overwrite data that an earlier load still reads */ \
  X(UNWRITTEN, "unwritten-read") \
  X(BOUNDS, "out-of-bounds") \
  X(MISALIGNED, "misaligned") \
  X(REGISTERS, "register-in-flight")    /* an accumulator or operand register is accessed before its wait */ \
  X(WGMMA_FENCE, "wgmma-fence") \
  X(WGMMA_ARGS, "wgmma-args") \
  X(DIVERGENT, "divergent")             /* not all threads execute an aligned operation */ \
  X(SMEM_BUDGET, "smem-budget") \
  X(REGISTER_BUDGET, "register-budget") \
  X(EXIT, "in-flight-exit") \
  X(COPY_ARGS, "copy-args") \
  X(TENSOR_MAP, "tensor-map") \
  X(LAUNCH, "launch") \
  X(STACK, "stack")                     /* the stack of the emulator, not of the kernel */
/* clang-format on */

typedef enum emu_rule {
#define X(id, name) EMU_RULE_##id,
  EMU_RULES(X)
#undef X
      EMU_RULE_COUNT
} emu_rule;

const char *emu_rule_name(emu_rule rule);

/* A kernel with its launch bounds. src/emu/row.cpp defines one for each compiled kernel. */
typedef struct emu_kernel {
  const char *id;
  void (*run)(const void *args); /* Runs one thread of the kernel. */
  uint32_t args_bytes;
  /* Launch bounds: threads of a block, and blocks per multiprocessor. */
  uint32_t threads, blocks_per_sm;
} emu_kernel;

typedef struct emu_launch {
  const emu_kernel *kernel;
  /* Numbers of blocks of the grid, of threads of a block, and of blocks of a cluster, in three dimensions. cluster 0:
   * no cluster. */
  uint32_t grid[3], block[3], cluster[3];
  uint32_t shared_bytes;
  bool dependent; /* True: the launch is a programmatic dependent launch. */
  const void *args;
} emu_launch;

/* Returns the settings: defaults, overridden by the environment variable
 * GA_EMU="seed=1,late|early|mixed,nocheck,sms=4,dependent,perturb,inorder,verbose". The driver of the tests
 * (tests/emu/emu_driver.c) reads further settings from GA_EMU. */
emu_options *emu_settings(void);

/* Allocates device memory, 256-byte aligned. Its bytes count as unwritten. NULL: the memory is exhausted. */
void *emu_alloc(size_t bytes);
bool emu_free(void *p);
bool emu_is_device(const void *p, size_t bytes); /* returns whether all bytes are in one live allocation */
/* Marks bytes of device memory as written. memset and copies from the host call it. */
void emu_mark_written(void *p, size_t bytes);

/* Runs a grid to its end. Returns the number of reports that it caused. */
int emu_run_launch(const emu_launch *launch);

/* Returns the number of reports since the last emu_clear_reports. emu_report_text returns the text of a report, several
 * lines. */
size_t emu_n_reports(void);
emu_rule emu_report_rule(size_t i);
const char *emu_report_text(size_t i);
void emu_clear_reports(void);

/* Encodes a tensor map with the checks of cuTensorMapEncodeTiled. Returns 0, or the driver's error code and a report of
 * the rule tensor-map. type, interleave, swizzle, l2 and oob are the driver's numbers. */
int emu_tmap_encode(void *map, int type, unsigned rank, void *base, const uint64_t *dims, const uint64_t *strides_bytes,
                    const uint32_t *box, const uint32_t *element_strides, int interleave, int swizzle, int l2, int oob);

/* Returns the number of floating-point operations of wgmma in this process so far, for speed reports. */
double emu_wgmma_flops(void);

#endif
