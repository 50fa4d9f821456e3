#include "cuda/rt/nvrtc.h"

#include <pthread.h>

#include "base/status.h"
#include "cuda/rt/symbol.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static ga_nvrtc loaded;
static bool is_loaded;
static const ga_nvrtc *replacement;

void ga_nvrtc_replace(const ga_nvrtc *mock) { replacement = mock; }

static bool load_from(const char *name) {
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library) return false;
#define X(name_) \
  if (!cuda_symbol(library, "nvrtc" #name_, &loaded.name_)) return false;
  GA_NVRTC_SYMBOLS(X)
#undef X
  return true;
}

static void load_nvrtc(void) {
  static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  for (size_t i = 0; i < GA_COUNT_OF(names) && !is_loaded; i++) is_loaded = load_from(names[i]);
}

ga_status ga_nvrtc_load(const ga_nvrtc **out) {
  *out = replacement;
  if (replacement) return GA_OK;
  (void)pthread_once(&once, load_nvrtc);
  GA_REQUIRE(is_loaded, GA_ERR_UNSUPPORTED, "no NVRTC on this machine: libnvrtc.so.13 and .12 cannot be loaded");
  *out = &loaded;
  return GA_OK;
}
