/* NVRTC, NVIDIA's run-time compiler, loaded when a kernel has to be compiled. Declarations are from the NVRTC user
 * guide, 12.0 and newer. */
#ifndef GA_CUDA_RT_NVRTC_H
#define GA_CUDA_RT_NVRTC_H

#include "ga/base.h"

typedef int nvrtcResult; /* 0: NVRTC_SUCCESS */
typedef struct nvrtcProgram_st *nvrtcProgram;

/* GA_NVRTC_SYMBOLS lists NVRTC's functions as X(name). In the library a function's name is nvrtc<name>. */
/* clang-format off */
#define GA_NVRTC_SYMBOLS(X) \
  X(Version) X(GetErrorString) X(CreateProgram) X(DestroyProgram) X(CompileProgram) X(GetProgramLogSize) \
  X(GetProgramLog) X(GetCUBINSize) X(GetCUBIN)
/* clang-format on */

typedef struct ga_nvrtc {
  nvrtcResult (*Version)(int *major, int *minor);
  const char *(*GetErrorString)(nvrtcResult rc);
  nvrtcResult (*CreateProgram)(nvrtcProgram *program, const char *text, const char *name, int n_headers,
                               const char *const *headers, const char *const *include_names);
  nvrtcResult (*DestroyProgram)(nvrtcProgram *program);
  nvrtcResult (*CompileProgram)(nvrtcProgram program, int n_options, const char *const *options);
  nvrtcResult (*GetProgramLogSize)(nvrtcProgram program, size_t *bytes);
  nvrtcResult (*GetProgramLog)(nvrtcProgram program, char *log);
  nvrtcResult (*GetCUBINSize)(nvrtcProgram program, size_t *bytes);
  nvrtcResult (*GetCUBIN)(nvrtcProgram program, char *cubin);
} ga_nvrtc;

/* Sets *out to NVRTC's functions, which are loaded on first use. Later calls return the same result. Returns
 * GA_ERR_UNSUPPORTED if the library is not found. */
GA_NODISCARD ga_status ga_nvrtc_load(const ga_nvrtc **out);

/* Replaces NVRTC by `mock`, for tests. NULL: the real library is used again. Not thread-safe. */
void ga_nvrtc_replace(const ga_nvrtc *mock);

#endif
