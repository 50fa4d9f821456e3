/* Ranges on the timeline of a profiler (NVTX): each launch is a range, named by the kernel's id. Ranges are on when a
 * tool such as Nsight Systems has set NVTX_INJECTION64_PATH, or where libnvToolsExt is present. Otherwise a call costs
 * one test of a pointer. */
#ifndef GA_CUDA_RT_NVTX_H
#define GA_CUDA_RT_NVTX_H

typedef struct cuda_nvtx {
  int (*push)(const char *name);
  int (*pop)(void);
} cuda_nvtx;

/* Returns the functions of the profiler that listens for ranges; NULL without one. */
const cuda_nvtx *cuda_nvtx_load(void);

/* Loads a tool's library and lets it fill *out. Returns false when the file is not such a library, or the library
 * refuses. */
int cuda_nvtx_inject(const char *library, cuda_nvtx *out);

/* Replaces the profiler's functions, for tests. NULL: the real ones are used again. Not thread-safe. */
void cuda_nvtx_replace(const cuda_nvtx *mock);

#endif
