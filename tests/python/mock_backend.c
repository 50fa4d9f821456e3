/* For the module ga_python_mock: backend "cuda" is the CUDA backend over the mock driver (tests/mockcu.h), whose images
 * are empty ones of every row. Tests reach the functions below by ctypes. */
#include <stdlib.h>

#include "base/compiler.h"
#include "base/status.h"
#include "cpu/cpu.h"
#include "cuda/rt/cuda.h"
#include "ref/ref.h"
#include "tests/mockcu.h"

#define VISIBLE __attribute__((visibility("default")))

static const cuda_source no_sources[] = {{0}};

static ga_status take_mock(void) {
  static const unsigned char image[8];
  static cuda_image *images;
  size_t n;
  const ga_kernel *rows = cuda_rows(&n);
  if (images) return GA_OK;
  images = calloc(n + 1, sizeof *images);
  GA_REQUIRE(images, GA_ERR_NOMEM, "mock: no memory for %zu images", n);
  for (size_t i = 0; i < n; i++) images[i] = (cuda_image){rows[i].id, image, image + sizeof image};
  mockcu_reset();
  mockcu.args_bytes = 1;            /* any: each kernel has its own, which this test does not look at */
  mockcu.has_default_stream = true; /* for __dlpack__ of producers without a stream */
  ga_cu_replace(&mockcu_table);
  cuda_replace_tables(images, no_sources);
  return GA_OK;
}

static ga_status mock_open(const char *spec, int threads, ga_device **out) {
  *out = NULL;
  GA_TRY(take_mock());
  return ga_cuda_backend.open(spec, threads, out);
}

static const ga_backend mock_backend = {.name = "cuda", .kernels = cuda_rows, .open = mock_open, .rank = 1};
/* In the place of src/backends.c. */
const ga_backend *const ga_backends[] = {&ga_cpu_backend, &mock_backend, &ga_ref_backend};
const size_t ga_n_backends = GA_COUNT_OF(ga_backends);

/* A stream of the caller's. */
VISIBLE void *mock_new_stream(void);
void *mock_new_stream(void) { return mockcu_caller_stream(); }

/* From now on, or no more: calls of the driver that allocate, free, copy or wait are breaches. */
static bool is_watched;
VISIBLE void mock_watch(int on);
void mock_watch(int on) {
  if (on) mockcu.misuse[0] = 0;
  mockcu.caller_records = is_watched = on;
}

/* What is done until mock_pause(0) is not under watch. */
VISIBLE void mock_pause(int on);
void mock_pause(int on) { mockcu.caller_records = is_watched && !on; }

/* The first breach of the driver's rules, "" if none. */
VISIBLE const char *mock_breach(void);
const char *mock_breach(void) { return mockcu.misuse; }

VISIBLE long mock_launches(void);
long mock_launches(void) { return mockcu.launches; }

/* The stream of the last launch. */
VISIBLE void *mock_launched_on(void);
void *mock_launched_on(void) { return mockcu.last.stream; }

VISIBLE long mock_calls(void);
long mock_calls(void) { return mockcu.calls; }
