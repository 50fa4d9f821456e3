/* The kernel table. One row declares a kernel, in a .toml file beside its code; tools/gen_kernels.py makes the table of
 * them.
 *
 * A row's id, <op>_<dtypes>_<mode>_<isa>_<tile>, stands literally in its declaration, and is the one name of the
 * kernel: in reports, tests, benchmarks, logs and error texts.
 */
#ifndef GA_CORE_KERNEL_H
#define GA_CORE_KERNEL_H

#include "core/op.h"
#include "ga/ctx.h"
#include "ga/tensor.h"

/* Instruction sets that kernels need. A device has a set of them (ga_caps.isas). */
typedef enum ga_isa {
  GA_ISA_ref,     /* oracles: scalar, double accumulation */
  GA_ISA_generic, /* any CPU */
  GA_ISA_avx2,    /* + FMA, F16C, BMI2 */
  GA_ISA_avx512,  /* F BW VL DQ VNNI BF16 VBMI VBMI2: Zen 4, Sapphire Rapids and newer */
  GA_ISA_amx,     /* avx512 and AMX tile, int8, bf16 */
  GA_ISA_neon,    /* Armv8.2 with dot product and f16 */
  GA_ISA_sm80,    /* any NVIDIA GPU from Ampere on */
  GA_ISA_sm90a,   /* Hopper */
  GA_ISA_COUNT
} ga_isa;

const char *ga_isa_name(ga_isa isa);

/* Rates of one unit of a device: a multiprocessor, or a thread of a CPU. */
typedef struct ga_rates {
  double call_us;                /* a call of any size takes at least */
  double unit_flops, unit_bytes; /* a microsecond */
} ga_rates;

/* The capabilities of a device. They are fixed when it is opened, so that the choice of a kernel needs no device
 * call. */
typedef struct ga_caps {
  uint32_t isas; /* bit 1 << ga_isa */
  int32_t threads;
  bool host_memory, works_in_calls; /* ga_device_in_host_memory, ga_device_works_in_calls */
  int32_t sms;                      /* GPU multiprocessors, 0 on a CPU */
  uint32_t smem_bytes;              /* shared memory a block may use */
  uint64_t memory_bytes;
  uint64_t l2_bytes;
  const ga_rates *rates; /* NULL: those of a thread with AVX-512 */
} ga_caps;

/* Rows of any op may have these; an op's own are in src/opdef (ga_kernel.op_flags). */
typedef enum ga_kernel_flags {
  GA_KERNEL_NONDET = 1,   /* not bitwise equal from run to run */
  GA_KERNEL_TEACHING = 2, /* never chosen; checked without hostile values */
  GA_KERNEL_STEP = 4,     /* launched by other rows, and checked and timed with them; never chosen */
  GA_KERNEL_TENSOR = 8    /* sums of products on tensor cores, which round toward zero: checked against that bound */
} ga_kernel_flags;

typedef struct ga_plan_steps ga_plan_steps;

/* NULL when the kernel can do `desc` on such a device, else the reason why not (static text). Pure. */
typedef const char *(*ga_kernel_ok)(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
/* Predicted microseconds of `desc`: the legal row with the least is chosen (core/cost.h). Pure. */
typedef double (*ga_kernel_cost)(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
/* Bytes of device memory. Pure. */
typedef uint64_t (*ga_kernel_bytes)(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
/* Adds the launches that run `desc`, in their order, and the workspace that they share (core/steps.h). NULL, or why
 * there are none (static text). Pure. */
typedef const char *(*ga_kernel_plan)(const ga_kernel *kernel, const void *desc, ga_plan_steps *steps);
/* Enqueues the row's own launch. Arguments are validated; nothing is touched on failure. */
typedef ga_status (*ga_kernel_launch)(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                                      ga_stream *stream);

struct ga_kernel {
  const char *id;
  const char *source; /* file that holds the code, from the root of the tree */
  ga_op op;
  ga_isa isa;
  ga_dtype dtype[3];          /* of the operands that src/opdef/ops.h names; GA_DTYPE_NONE = any that `ok` takes */
  ga_layout layout;           /* of weights, read or made */
  int32_t rows_min, rows_max; /* rows of activations that it is for; 0 = no bound */
  int32_t speed;              /* per cent of the rates that core/cost.h assumes */
  uint32_t flags;             /* ga_kernel_flags */
  uint32_t op_flags;          /* of the op: ga_<op>_row_flags of src/opdef */
  int32_t align;              /* bytes that tensors and their strides must be multiples of; 0 = of the element */
  double tolerance;           /* error allowed, as a multiple of that of a plain evaluation in the same dtypes */
  ga_kernel_ok ok;
  ga_kernel_cost cost;       /* NULL = that of the op at `speed` */
  ga_kernel_bytes workspace; /* NULL = 0 */
  ga_kernel_bytes out_bytes; /* of a result whose size the row decides; else NULL */
  ga_kernel_plan plan;       /* NULL = one launch of the row, with `workspace` bytes */
  ga_kernel_launch launch;
  const ga_kernel *const *helpers; /* rows of other files that `plan` may add, up to a NULL; NULL = none */
  const void *impl;                /* micro-kernel or variant data of the family, may be NULL */
};

/* True when `text` matches a comma-separated list of patterns with * and ?. */
bool ga_pattern_match(const char *patterns, const char *text);

#endif
