/* The one file that names backends. */
#include "base/compiler.h"
#include "core/device.h"
#include "cpu/cpu.h"
#include "cuda/rt/cuda.h"
#include "ref/ref.h"

const ga_backend *const ga_backends[] = {&ga_cpu_backend, &ga_cuda_backend, &ga_ref_backend};
const size_t ga_n_backends = GA_COUNT_OF(ga_backends);
