/* Compiling a row at run time: other parameters than those of the build, or rows that the build has no image of.
 *
 * GA_JIT=off never; auto (the default) when there is no image; force always. Results are kept on disk under
 * $XDG_CACHE_HOME/ga/jit (or ~/.cache/ga/jit), named by the SHA-256 of text, options, architecture and NVRTC version.
 * */
#ifndef GA_CUDA_RT_JIT_H
#define GA_CUDA_RT_JIT_H

#include "core/kernel.h"

typedef enum cuda_jit_mode { CUDA_JIT_OFF, CUDA_JIT_AUTO, CUDA_JIT_FORCE } cuda_jit_mode;

/* Reads the variable GA_JIT; unset is CUDA_JIT_AUTO. GA_ERR_ARG for a value that is none of the three. */
GA_NODISCARD ga_status cuda_jit_mode_of(cuda_jit_mode *out);
/* True when this row could be compiled here. */
bool cuda_jit_can(const ga_kernel *kernel);
bool cuda_jit_forced(void);

/* The cubin of a row with `params` ("D=128, DTYPE=bf16") for compute capability `capability` (90 = 9.0), from the cache
 * or compiled. Release with ga_mem_free. A failing compilation's text ends with the start of the compiler's log. */
GA_NODISCARD ga_status cuda_jit(const ga_kernel *kernel, const char *params, int capability, void **cubin,
                                size_t *bytes);

/* The cache: `key` is 64 hex digits. False when there is no sound file of that key; what is there is then removed. */
bool cuda_jit_cache_get(const char *key, void **cubin, size_t *bytes);
/* Best effort: a full disk or a folder that may not be written costs the next start a compilation, no more. */
void cuda_jit_cache_put(const char *key, const void *cubin, size_t bytes);

#endif
