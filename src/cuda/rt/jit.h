/* Compiles kernels at run time, if they have parameters that the build does not have, or no image in the build.
 *
 * The environment variable GA_JIT selects the mode. off: never; auto (the default): if there is no image; force:
 * always.
 *
 * Results are kept on disk under $XDG_CACHE_HOME/ga/jit (or ~/.cache/ga/jit), named by the SHA-256 of text, options,
 * architecture and NVRTC version. */
#ifndef GA_CUDA_RT_JIT_H
#define GA_CUDA_RT_JIT_H

#include "core/kernel.h"

typedef enum cuda_jit_mode { CUDA_JIT_OFF, CUDA_JIT_AUTO, CUDA_JIT_FORCE } cuda_jit_mode;

/* Sets *out to the mode that the environment variable GA_JIT names. Unset: CUDA_JIT_AUTO. Returns GA_ERR_ARG for an
 * unknown value. */
GA_NODISCARD ga_status cuda_jit_mode_of(cuda_jit_mode *out);
/* Returns true if this kernel could be compiled on this machine. */
bool cuda_jit_can(const ga_kernel *kernel);
bool cuda_jit_forced(void);

/* Gets the cubin of a kernel with `params` ("D=128, DTYPE=bf16") for a compute capability (90 is 9.0), from the cache
 * or compiled. The caller releases *cubin with ga_mem_free. The error text of a failed compilation ends with the start
 * of the compiler's log. */
GA_NODISCARD ga_status cuda_jit(const ga_kernel *kernel, const char *params, int capability, void **cubin,
                                size_t *bytes);

/* Reads a cubin from the cache on disk. `key` is 64 hex digits. Returns false if there is no valid file for the key; an
 * invalid file is removed. The caller releases *cubin with ga_mem_free. */
bool cuda_jit_cache_get(const char *key, void **cubin, size_t *bytes);
/* Writes a cubin to the cache on disk. Failures are ignored: the next process then compiles again. */
void cuda_jit_cache_put(const char *key, const void *cubin, size_t bytes);

#endif
