#include "cuda/rt/driver.h"

#include <pthread.h>
#include <stdio.h>

#include "base/status.h"
#include "cuda/rt/symbol.h"

#define LIBRARY        "libcuda.so.1"
#define OLDEST_VERSION 12000 /* cuLaunchKernelEx and tensor maps */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static ga_cu loaded;
static ga_status load_status;
static char load_text[256];
static ga_cu *replacement;

void ga_cu_replace(ga_cu *mock) { replacement = mock; }

ga_status ga_cu_fail(const ga_cu *cu, CUresult rc, const char *what) {
  const char *name = NULL, *text = NULL;
  if (cu->GetErrorName(rc, &name) != CUDA_SUCCESS) name = NULL;
  if (cu->GetErrorString(rc, &text) != CUDA_SUCCESS) text = NULL;
  ga_status status = rc == CUDA_ERROR_OUT_OF_MEMORY   ? GA_ERR_NOMEM
                     : rc == CUDA_ERROR_NOT_SUPPORTED ? GA_ERR_UNSUPPORTED
                                                      : GA_ERR_DEVICE;
  return ga_fail(status, "%s: %s (%d)%s%s", what, name ? name : "CUDA error", rc, text ? ": " : "", text ? text : "");
}

/* The library stays loaded: drivers do not like to be unloaded. */
ga_status ga_cu_open(const char *library, ga_cu *out) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  GA_REQUIRE(handle, GA_ERR_UNSUPPORTED, "no CUDA driver on this machine: %s cannot be loaded", library);
#define X(name, symbol, params)                                            \
  GA_REQUIRE(cuda_symbol(handle, #symbol, &out->name), GA_ERR_UNSUPPORTED, \
             "the CUDA driver %s lacks %s; 12.0 or newer is needed", library, #symbol);
  GA_CU_SYMBOLS(X)
#undef X
  return GA_OK;
}

static ga_status start_driver(ga_cu *cu) {
  CUresult rc = cu->Init(0);
  if (rc == CUDA_ERROR_NO_DEVICE) return ga_fail(GA_ERR_UNSUPPORTED, "the CUDA driver finds no device");
  if (rc != CUDA_SUCCESS && ga_cu_fail(cu, rc, "the CUDA driver does not start: cuInit") != GA_OK)
    return GA_ERR_UNSUPPORTED;
  GA_CU(cu, DriverGetVersion, &cu->version);
  GA_REQUIRE(cu->version >= OLDEST_VERSION, GA_ERR_UNSUPPORTED,
             "the CUDA driver is for CUDA %d.%d; 12.0 or newer is needed", cu->version / 1000, cu->version % 1000 / 10);
  return GA_OK;
}

static void load_driver(void) {
  load_status = ga_cu_open(LIBRARY, &loaded);
  if (load_status == GA_OK) load_status = start_driver(&loaded);
  if (load_status != GA_OK) (void)snprintf(load_text, sizeof load_text, "%s", ga_error_text());
}

ga_status ga_cu_load(const ga_cu **out) {
  *out = replacement;
  if (replacement) return start_driver(replacement);
  (void)pthread_once(&once, load_driver);
  if (load_status != GA_OK) return ga_fail(load_status, "%s", load_text);
  *out = &loaded;
  return GA_OK;
}
