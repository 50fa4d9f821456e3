#include "cuda/rt/jit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/status.h"
#include "cuda/rt/cuda.h"
#include "cuda/rt/nvrtc.h"
#include "cuda/rt/targets.h"

#define MAX_OPTIONS 48
#define TEXT_BYTES  4096

ga_status cuda_jit_mode_of(cuda_jit_mode *out) {
  const char *s = getenv("GA_JIT");
  *out = CUDA_JIT_AUTO;
  if (!s || !*s || !strcmp(s, "auto")) return GA_OK;
  *out = !strcmp(s, "force") ? CUDA_JIT_FORCE : CUDA_JIT_OFF;
  GA_REQUIRE(*out == CUDA_JIT_FORCE || !strcmp(s, "off"), GA_ERR_ARG, "GA_JIT is '%s'; allowed: off, auto, force", s);
  return GA_OK;
}

bool cuda_jit_forced(void) {
  cuda_jit_mode mode;
  return cuda_jit_mode_of(&mode) == GA_OK && mode == CUDA_JIT_FORCE;
}

bool cuda_jit_can(const ga_kernel *kernel) {
  const ga_nvrtc *nvrtc;
  cuda_jit_mode mode;
  return cuda_jit_mode_of(&mode) == GA_OK && mode != CUDA_JIT_OFF && cuda_source_of(kernel->source) &&
         ga_nvrtc_load(&nvrtc) == GA_OK;
}

/* --- options --- */

typedef struct options {
  const char *list[MAX_OPTIONS];
  int n;
  char text[TEXT_BYTES];
  size_t used;
} options;

static ga_status add_option(options *o, const char *prefix, const char *s, size_t n) {
  size_t len = strlen(prefix);
  GA_REQUIRE(o->n < MAX_OPTIONS && len + n + 1 <= sizeof o->text - o->used, GA_ERR_ARG, "too many parameters");
  char *at = o->text + o->used;
  memcpy(at, prefix, len);
  memcpy(at + len, s, n);
  at[len + n] = 0;
  o->used += len + n + 1;
  o->list[o->n++] = at;
  return GA_OK;
}

/* "A=1, B=x": names in lower case tell how to compile (fast_math) or are for the build alone. */
static ga_status add_params(options *o, const char *params) {
  for (const char *s = params; *s;) {
    s += strspn(s, " ,");
    size_t n = strcspn(s, " ,");
    if (n == 11 && !strncmp(s, "fast_math=1", n))
      GA_TRY(add_option(o, "--use_fast_math", "", 0));
    else if (n && (*s < 'a' || *s > 'z'))
      GA_TRY(add_option(o, "-DGA_P_", s, n));
    s += n;
  }
  return GA_OK;
}

static ga_status make_options(const ga_kernel *k, const char *params, int capability, options *o) {
  char arch[16];
  (void)snprintf(arch, sizeof arch, "%d%s", capability, cuda_suffix_of(k->isa));
  GA_TRY(add_option(o, "-arch=sm_", arch, strlen(arch)));
  GA_TRY(add_option(o, "-DGA_KERNEL_ID=", k->id, strlen(k->id)));
  GA_TRY(add_option(o, "--std=c++17", "", 0));
  return add_params(o, params);
}

static ga_status make_key(const ga_nvrtc *nvrtc, const char *text, const options *o, char key[65]) {
  int version[2];
  ga_sha256 sha;
  GA_REQUIRE(nvrtc->Version(&version[0], &version[1]) == 0, GA_ERR_DEVICE, "nvrtcVersion failed");
  ga_sha256_init(&sha);
  ga_sha256_update(&sha, version, sizeof version);
  ga_sha256_update(&sha, o->text, o->used); /* NUL between them */
  ga_sha256_update(&sha, text, strlen(text));
  ga_sha256_hex(&sha, key);
  return GA_OK;
}

/* --- compiling --- */

/* *text is the caller's to free. */
static ga_status text_of_source(const cuda_source *source, char **text) {
  size_t n = 0;
  void *p;
  for (const cuda_source_part *part = source->parts; part->text; part++) n += (size_t)(part->end - part->text);
  GA_TRY(ga_mem_alloc(n + 1, "source of a kernel", &p));
  *text = p;
  n = 0;
  for (const cuda_source_part *part = source->parts; part->text; part++) {
    memcpy(*text + n, part->text, (size_t)(part->end - part->text));
    n += (size_t)(part->end - part->text);
  }
  (*text)[n] = 0;
  return GA_OK;
}

static ga_status compile_failed(const ga_nvrtc *nvrtc, nvrtcProgram program, nvrtcResult rc) {
  size_t n = 0;
  void *log = NULL;
  char text[600] = "";
  if (nvrtc->GetProgramLogSize(program, &n) == 0 && n && ga_mem_zalloc(n + 1, 1, "compiler log", &log) == GA_OK &&
      nvrtc->GetProgramLog(program, log) == 0)
    (void)snprintf(text, sizeof text, ": %s", (const char *)log);
  ga_mem_free(log);
  return ga_fail(GA_ERR_DEVICE, "NVRTC: %s%s", nvrtc->GetErrorString(rc), text);
}

static ga_status take_cubin(const ga_nvrtc *nvrtc, nvrtcProgram program, void **cubin, size_t *bytes) {
  void *p;
  nvrtcResult rc = nvrtc->GetCUBINSize(program, bytes);
  GA_REQUIRE(rc == 0 && *bytes, GA_ERR_DEVICE, "nvrtcGetCUBINSize: %s", rc ? nvrtc->GetErrorString(rc) : "no bytes");
  GA_TRY(ga_mem_alloc(*bytes, "cubin", &p));
  rc = nvrtc->GetCUBIN(program, p);
  if (rc == 0) {
    *cubin = p;
    return GA_OK;
  }
  ga_mem_free(p);
  return ga_fail(GA_ERR_DEVICE, "nvrtcGetCUBIN: %s", nvrtc->GetErrorString(rc));
}

static ga_status compile_text(const ga_nvrtc *nvrtc, const char *text, const char *path, const options *o, void **cubin,
                              size_t *bytes) {
  nvrtcProgram program;
  nvrtcResult rc = nvrtc->CreateProgram(&program, text, path, 0, NULL, NULL);
  GA_REQUIRE(rc == 0, GA_ERR_DEVICE, "nvrtcCreateProgram: %s", nvrtc->GetErrorString(rc));
  rc = nvrtc->CompileProgram(program, o->n, o->list);
  ga_status status = rc == 0 ? take_cubin(nvrtc, program, cubin, bytes) : compile_failed(nvrtc, program, rc);
  (void)nvrtc->DestroyProgram(&program);
  return status;
}

static ga_status jit_text(const ga_nvrtc *nvrtc, const char *text, const char *path, const options *o, void **cubin,
                          size_t *bytes) {
  char key[65];
  GA_TRY(make_key(nvrtc, text, o, key));
  if (cuda_jit_cache_get(key, cubin, bytes)) return GA_OK;
  GA_TRY(compile_text(nvrtc, text, path, o, cubin, bytes));
  cuda_jit_cache_put(key, *cubin, *bytes);
  return GA_OK;
}

ga_status cuda_jit(const ga_kernel *k, const char *params, int capability, void **cubin, size_t *bytes) {
  options o = {.n = 0};
  char *text = NULL;
  const ga_nvrtc *nvrtc;
  ga_status status;
  *cubin = NULL;
  *bytes = 0;
  const cuda_source *source = cuda_source_of(k->source);
  GA_REQUIRE(source, GA_ERR_UNSUPPORTED, "%s: the build embeds no source %s", k->id, k->source);
  GA_TRY_OUT(ga_nvrtc_load(&nvrtc));
  GA_TRY_OUT(make_options(k, params, capability, &o));
  GA_TRY_OUT(text_of_source(source, &text));
  status = jit_text(nvrtc, text, source->path, &o, cubin, bytes);
  ga_mem_free(text);
  if (status == GA_OK) return GA_OK;
out:
  return ga_fail_in(status, "%s", k->id);
}
