/* Ranges on the timeline of a profiler (NVTX): each launch is one, named by the kernel's id. On when a tool put its
 * library into NVTX_INJECTION64_PATH, as Nsight Systems does, or where libnvToolsExt is present; else a call costs one
 * test of a pointer. */
#ifndef GA_CUDA_RT_NVTX_H
#define GA_CUDA_RT_NVTX_H

typedef struct cuda_nvtx {
  int (*push)(const char *name);
  int (*pop)(void);
} cuda_nvtx;

/* Returns the functions of the profiler that listens for ranges; NULL without one. */
const cuda_nvtx *cuda_nvtx_load(void);

/* Loads a tool's library and lets it fill *out. False when it is no such library or does not want to. */
int cuda_nvtx_inject(const char *library, cuda_nvtx *out);

/* For tests: replaces what listens (NULL: back to the real one). Not thread-safe. */
void cuda_nvtx_replace(const cuda_nvtx *mock);

#endif
