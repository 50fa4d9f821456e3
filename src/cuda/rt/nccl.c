#include "cuda/rt/nccl.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "cuda/rt/symbol.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static ga_nccl loaded;
static ga_status load_status;
static char load_text[512];

/* Before NCCL reads it: sends and receives need no multicast of NVLink, which NCCL sets up for all that share the GPUs
 * of a host. Who asks for it gets it. */
static void switch_multicast_off(void) { (void)setenv("NCCL_NVLS_ENABLE", "0", 0); }

void ga_nccl_version_text(int version, char text[16]) {
  const int v = version > 0 && version < 1000000 ? version : 0, hundred = v < 10000 ? 1000 : 10000;
  (void)snprintf(text, 16, "%d.%d.%d", v / hundred, v % hundred / 100, v % 100);
}

static ga_status find_nccl_symbols(void *library, const char *name) {
  const char *missing = NULL;
#define X(name_, params) \
  if (!missing && !cuda_symbol(library, "nccl" #name_, &loaded.name_)) missing = "nccl" #name_;
  GA_NCCL_SYMBOLS(X)
#undef X
  if (!missing && !cuda_symbol(library, "ncclGetErrorString", &loaded.GetErrorString)) missing = "ncclGetErrorString";
  if (!missing && !cuda_symbol(library, "ncclGetLastError", &loaded.GetLastError)) missing = "ncclGetLastError";
  const bool has_version = loaded.GetVersion && loaded.GetVersion(&loaded.version) == NCCL_SUCCESS;
  char text[16];
  ga_nccl_version_text(loaded.version, text);
  GA_REQUIRE(!has_version || (loaded.version >= NCCL_OLDEST && loaded.version < NCCL_ABOVE), GA_ERR_UNSUPPORTED,
             "%s is NCCL %s; allowed: 2.17 and newer, below 3", name, text);
  GA_REQUIRE(!missing, GA_ERR_UNSUPPORTED, "%s has no function %s", name, missing);
  GA_REQUIRE(has_version, GA_ERR_UNSUPPORTED, "%s does not tell its version", name);
  return GA_OK;
}

static ga_status open_nccl(void) {
  const char *asked = getenv("GA_NCCL");
  const char *const name = asked && *asked ? asked : "libnccl.so.2";
  switch_multicast_off();
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  GA_REQUIRE(library, GA_ERR_UNSUPPORTED, "no NCCL: %s%s cannot be loaded (%s)%s", name == asked ? "GA_NCCL=" : "",
             name, dlerror(), name == asked ? "" : "; GA_NCCL may name the file");
  return find_nccl_symbols(library, name);
}

static void load_nccl(void) {
  load_status = open_nccl();
  if (load_status != GA_OK) (void)snprintf(load_text, sizeof load_text, "%s", ga_error_text());
}

ga_status ga_nccl_load(const ga_nccl **out) {
  (void)pthread_once(&once, load_nccl);
  GA_REQUIRE(load_status == GA_OK, load_status, "%s", load_text);
  *out = &loaded;
  return GA_OK;
}
