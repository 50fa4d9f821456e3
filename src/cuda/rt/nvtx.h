/* Ranges on the timeline of a profiler (NVTX): each launch is a range, named by the kernel's id.
 *
 * Ranges are recorded if a tool such as Nsight Systems has set NVTX_INJECTION64_PATH, or if libnvToolsExt is present.
 * Otherwise a call costs one test of a pointer. */
#ifndef GA_CUDA_RT_NVTX_H
#define GA_CUDA_RT_NVTX_H

typedef struct cuda_nvtx {
  int (*push)(const char *name);
  int (*pop)(void);
} cuda_nvtx;

/* Returns the functions that begin and end a range in the profiler. Returns NULL if no profiler listens. */
const cuda_nvtx *cuda_nvtx_load(void);

/* Loads a profiler's library and lets it fill *out. Returns 1 on success, or 0 if the file is not such a library, or if
 * the library refuses. */
int cuda_nvtx_inject(const char *library, cuda_nvtx *out);

/* Replaces the profiler's functions by `mock`, for tests. NULL: the real functions are used again. Not thread-safe. */
void cuda_nvtx_replace(const cuda_nvtx *mock);

#endif
