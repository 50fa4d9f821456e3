/* The kernel table. Each kernel is declared in a .toml file beside its code; tools/gen_kernels.py generates the table
 * from these files.
 *
 * A kernel's id, <op>_<dtypes>_<mode>_<isa>_<tile>, is written literally in its declaration. It names the kernel in
 * reports, tests, benchmarks, logs and error texts. */
#ifndef GA_CORE_KERNEL_H
#define GA_CORE_KERNEL_H

#include "core/op.h"
#include "ga/ctx.h"
#include "ga/tensor.h"

/* Instruction sets that kernels need. A device has several (ga_caps.isas). */
typedef enum ga_isa {
  GA_ISA_ref,     /* scalar oracles with double accumulation */
  GA_ISA_generic, /* any CPU */
  GA_ISA_avx2,    /* AVX2 with FMA, F16C and BMI2 */
  GA_ISA_avx512,  /* AVX-512 F, BW, VL, DQ, VNNI, BF16, VBMI and VBMI2: Zen 4, Sapphire Rapids and newer */
  GA_ISA_amx,     /* avx512, and AMX tile, int8 and bf16 */
  GA_ISA_neon,    /* Armv8.2 with dot product and f16 */
  GA_ISA_sm80,    /* any NVIDIA GPU from Ampere on */
  GA_ISA_sm90a,   /* NVIDIA Hopper GPUs */
  GA_ISA_COUNT
} ga_isa;

const char *ga_isa_name(ga_isa isa);

/* Rates of one unit of a device. A unit is a multiprocessor of a GPU, or a thread of a CPU. */
typedef struct ga_rates {
  /* Smallest time of a call in microseconds, whatever its size. */
  double call_us;
  /* Arithmetic operations, and bytes of memory traffic, per microsecond of one unit. */
  double unit_flops, unit_bytes;
} ga_rates;

/* Capabilities of a device. They are fixed when it is opened, so that the choice of a kernel needs no call to the
 * device. */
typedef struct ga_caps {
  uint32_t isas; /* Instruction sets, bits 1 << ga_isa. */
  int32_t threads;
  /* Results of ga_device_in_host_memory and ga_device_works_in_calls. */
  bool host_memory, works_in_calls;
  int32_t sms;         /* Number of multiprocessors of a GPU; 0 on a CPU. */
  uint32_t smem_bytes; /* Bytes of shared memory that a block may use. */
  uint64_t memory_bytes;
  uint64_t l2_bytes;
  /* Rates of one unit. NULL: the rates of a thread with AVX-512. */
  const ga_rates *rates;
} ga_caps;

/* Flags of kernels of any op. Flags of one op are in src/opdef (ga_kernel.op_flags). */
typedef enum ga_kernel_flags {
  GA_KERNEL_NONDET = 1, /* results may differ from run to run */
  /* for learning: the planner never chooses it, and the checker gives it no infinities, NaN or huge numbers */
  GA_KERNEL_TEACHING = 2,
  GA_KERNEL_STEP = 4, /* launched by other kernels only, and checked and timed with them */
  /* adds products on tensor cores, which round toward zero: the checker allows for that larger error */
  GA_KERNEL_TENSOR = 8
} ga_kernel_flags;

typedef struct ga_plan_steps ga_plan_steps;

/* Returns NULL when the kernel can compute `desc` on a device with these capabilities, otherwise the reject reason
 * (static text). The function must be pure. */
typedef const char *(*ga_kernel_ok)(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
/* Returns the predicted microseconds of `desc`. The planner chooses the legal kernel with the smallest prediction
 * (core/cost.h). The function must be pure. */
typedef double (*ga_kernel_cost)(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
/* Returns a number of bytes of device memory for `desc`: of workspace, or of the result (ga_kernel.out_bytes). The
 * function must be pure. */
typedef uint64_t (*ga_kernel_bytes)(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
/* Adds to *steps the launches that run `desc`, in their order, and the bytes of workspace that they share
 * (core/steps.h). Returns NULL, or the reject reason (static text). The function must be pure. */
typedef const char *(*ga_kernel_plan)(const ga_kernel *kernel, const void *desc, ga_plan_steps *steps);
/* Enqueues the kernel's own launch. Arguments are validated; on failure nothing has been changed. */
typedef ga_status (*ga_kernel_launch)(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                                      ga_stream *stream);

struct ga_kernel {
  const char *id;
  const char *source; /* Path of the file that holds the code, from the root of the tree. */
  ga_op op;
  ga_isa isa;
  /* Types of the operands that src/opdef/ops.h names. GA_DTYPE_NONE: any type that `ok` accepts. */
  ga_dtype dtype[3];
  ga_layout layout; /* Layout of the weights that the kernel reads or makes. */
  /* Range of the number of rows of activations for which the kernel is meant. 0: no bound. */
  int32_t rows_min, rows_max;
  int32_t speed;     /* Speed of the kernel in per cent of the rates that core/cost.h assumes. */
  uint32_t flags;    /* Bits of ga_kernel_flags. */
  uint32_t op_flags; /* Flags of the kernel's own op: bits of ga_<op>_row_flags in src/opdef. */
  /* Number of bytes of which addresses and strides of tensors must be multiples. 0: the size of an element. */
  int32_t align;
  double tolerance; /* Allowed error, as a multiple of the error of a plain evaluation in the same types. */
  ga_kernel_ok ok;
  ga_kernel_cost cost;       /* NULL: the cost of the op, at `speed`. */
  ga_kernel_bytes workspace; /* NULL: no workspace. */
  /* Bytes of the result, for kernels that determine its size, such as packing. NULL for other kernels. */
  ga_kernel_bytes out_bytes;
  ga_kernel_plan plan; /* NULL: one launch of the kernel, with `workspace` bytes. */
  ga_kernel_launch launch;
  /* Kernels of other files that `plan` may add, ended by NULL. NULL: none. */
  const ga_kernel *const *helpers;
  const void *impl; /* Data of the family, such as a micro-kernel or a variant. May be NULL. */
};

/* Returns whether `text` matches one of the comma-separated patterns, which may contain * and ?. */
bool ga_pattern_match(const char *patterns, const char *text);

#endif
