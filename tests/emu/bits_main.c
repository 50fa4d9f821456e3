/* emu_bits run FOLDER OUT [NAME]   the probes, or one, on a GPU; FOLDER: their images (.cubin). Results to OUT, hashes
 *                                  to the standard output
 * emu_bits emu [OUT]           the same on the emulator
 * emu_bits compare FILE        the emulator against the hashes in FILE: fails where they differ */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "core/emu_calls.h"
#include "cuda/rt/driver.h"
#include "emu/emu.h"
#include "tests/emu/bits.h"
#include "tests/emu/emu_driver.h"

extern const emu_kernel emu_kernel_bits_num, emu_kernel_bits_mma, emu_kernel_bits_warp, emu_kernel_bits_bulk;

typedef enum family { NUM, MMA, WARP, BULK, ENCODE } family;

typedef struct bits_case {
  const char *name;
  family family;
  int what, type;
  int rank, swizzle, nan_fill; /* BULK */
} bits_case;

static const bits_case probes[] = {
#define X(name_) {.name = #name_, .family = NUM, .what = BITS_##name_},
    BITS_NUM(X)
#undef X
#define X(name_, type_) {.name = #name_, .family = MMA, .what = BITS_##name_, .type = EMU_WGMMA_##type_},
        BITS_MMA(X)
#undef X
#define X(name_) {.name = #name_, .family = WARP, .what = BITS_##name_},
            BITS_WARP(X)
#undef X
#define X(name_, how, rank_, type_, swizzle_, fill) {#name_, BULK, BITS_BY_##how, type_, rank_, swizzle_, fill},
                BITS_BULK(X)
#undef X
                    {.name = "ENCODE", .family = ENCODE},
};

static const struct {
  const char *kernel;
  const emu_kernel *emu;
  int in, out, blocks, threads;
} families[] = {
    {"bits_num", &emu_kernel_bits_num, BITS_NUM_WORDS, BITS_NUM_WORDS, BITS_NUM_WORDS / 256, 256},
    {"bits_mma", &emu_kernel_bits_mma, BITS_MMA_WORDS *BITS_INSTANCES, BITS_MMA_OUT *BITS_INSTANCES, BITS_INSTANCES,
     128},
    {"bits_warp", &emu_kernel_bits_warp, BITS_WARP_WORDS, BITS_WARP_WORDS, 1, 32},
    {"bits_bulk", &emu_kernel_bits_bulk, BITS_BULK_WORDS, BITS_BULK_WORDS, 2, 128},
    {NULL, NULL, 1, 64, 0, 0},
};

/* --- inputs: the same on every machine --- */

static uint32_t word(uint64_t seed, uint64_t i) {
  uint64_t x = seed * 0x100000001b3u + i;
  return (uint32_t)(ga_splitmix64(&x) >> 32);
}

/* Every sign, exponent and leading fraction; then exponents of -24 to 8. */
static void fill_num(uint32_t *in) {
  for (uint32_t i = 0; i < BITS_NUM_WORDS / 2; i++) in[i] = i << 16 | word(1, i) >> 16;
  for (uint32_t i = BITS_NUM_WORDS / 2; i < BITS_NUM_WORDS; i++)
    in[i] = (word(2, i) & 0x807fffffu) | (103 + word(3, i) % 32) << 23;
}

typedef struct format {
  int exponent, fraction;
} format;

static const int bytes_of[] = {2, 2, 1, 1, 1, 4};
static const format formats[] = {[EMU_WGMMA_BF16] = {8, 7},
                                 [EMU_WGMMA_F16] = {5, 10},
                                 [EMU_WGMMA_E4M3] = {4, 3},
                                 [EMU_WGMMA_E5M2] = {5, 2},
                                 [EMU_WGMMA_TF32] = {8, 23}};

/* Sign, then an exponent in [lo, lo + n) above the bias, then a random fraction. */
static uint32_t format_value(format f, uint32_t r, int lo, int n) {
  int top = (1 << f.exponent) - 1, e = (1 << (f.exponent - 1)) - 1 + lo + (int)(r % (uint32_t)n);
  e = e < 0 ? 0 : e >= top ? top - 1 : e;
  return (r >> 31) << (f.exponent + f.fraction) | (uint32_t)e << f.fraction |
         ((r * 2654435761u) >> 5 & ((1u << f.fraction) - 1));
}

/* What an instance has in a and b, and in c. */
static uint32_t format_element(int mode, format f, uint32_t r) {
  switch (mode) {
  case 1: return format_value(f, r, -4, 9);
  case 2: return format_value(f, r, -30, 60);
  case 4: return format_value(f, r, -(1 << (f.exponent - 1)) + 1, 3); /* subnormal, or nearly so */
  case 5: return r;
  default: return format_value(f, r, -1, 3);
  }
}

static uint32_t addend(int mode, uint32_t r) {
  const format f32 = {8, 23};
  switch (mode) {
  case 1: return format_value(f32, r, -8, 17);
  case 2: return format_value(f32, r, -60, 120);
  case 3: return format_value(f32, r, -6, 6);
  case 4: return format_value(f32, r, -127, 127);
  case 5: return r;
  case 6: return 0;
  case 7: return format_value(f32, r, 10, 14);
  default: return format_value(f32, r, -2, 5);
  }
}

static void fill_instance(uint32_t *in, int type, int instance) {
  int bytes = bytes_of[type], n = BITS_TILE_BYTES / bytes, mode = instance % 8;
  uint64_t seed = (uint64_t)(type * 100 + instance);
  uint8_t *p = (uint8_t *)in;
  for (int i = 0; i < 2 * n; i++) {
    uint32_t r = word(seed, (uint64_t)i), v = type == EMU_WGMMA_S8 ? r : format_element(mode, formats[type], r);
    if (mode == 3 && type != EMU_WGMMA_S8 && i < n && i % 2) /* sums cancel, all but a little */
      memcpy(&v, p + (size_t)(i - 1) * (size_t)bytes, (size_t)bytes), v ^= (r & 1) | 1u << (8 * bytes - 1);
    if (mode == 3 && i >= n && i % 2) memcpy(&v, p + (size_t)(i - 1) * (size_t)bytes, (size_t)bytes);
    memcpy(p + (size_t)i * (size_t)bytes, &v, (size_t)bytes);
  }
  for (int i = 0; i < BITS_MMA_OUT; i++) {
    uint32_t r = word(seed + 50, (uint64_t)i);
    in[BITS_TILE_BYTES / 2 + i] = type == EMU_WGMMA_S8 ? r : addend(mode, r);
  }
}

static void fill_case(const bits_case *p, uint32_t *in) {
  if (p->family == NUM)
    fill_num(in);
  else if (p->family == WARP || p->family == BULK)
    for (uint32_t i = 0; i < (uint32_t)families[p->family].in; i++) in[i] = word(7, i);
  else if (p->family == ENCODE)
    return;
  else
    for (int i = 0; i < BITS_INSTANCES; i++) fill_instance(in + i * BITS_MMA_WORDS, p->type, i);
}

/* --- running, on either driver --- */

typedef struct machine {
  const ga_cu *cu;
  const char *folder; /* of images; NULL: the emulator */
  CUmemoryPool pool;
  CUstream stream;
  FILE *out;
} machine;

static void must(const machine *m, CUresult rc, const char *what) {
  if (rc == CUDA_SUCCESS) return;
  const char *text = "";
  (void)m->cu->GetErrorString(rc, &text);
  (void)fprintf(stderr, "%s: error %d: %s\n", what, rc, text);
  exit(2);
}

static machine start_machine(const ga_cu *cu, const char *folder) {
  machine m = {.cu = cu, .folder = folder};
  CUdevice device;
  CUcontext ctx;
  CUmemPoolProps props = {.allocation_type = 1, .location_type = 1};
  must(&m, cu->Init(0), "cuInit");
  must(&m, cu->DeviceGet(&device, 0), "cuDeviceGet");
  must(&m, cu->DevicePrimaryCtxRetain(&ctx, device), "cuDevicePrimaryCtxRetain");
  must(&m, cu->CtxSetCurrent(ctx), "cuCtxSetCurrent");
  must(&m, cu->MemPoolCreate(&m.pool, &props), "cuMemPoolCreate");
  must(&m, cu->StreamCreate(&m.stream, 0), "cuStreamCreate");
  return m;
}

static CUfunction function_of_family(const machine *m, family f) {
  static CUfunction loaded[4];
  static char image[1 << 20];
  if (loaded[f]) return loaded[f];
  const void *data = families[f].emu;
  if (m->folder) {
    char path[400];
    (void)snprintf(path, sizeof path, "%s/%s.cubin", m->folder, families[f].kernel);
    FILE *file = fopen(path, "rb");
    if (!file || !fread(image, 1, sizeof image, file)) must(m, 1, path);
    if (file) (void)fclose(file);
    data = image;
  }
  CUmodule module;
  must(m, m->cu->ModuleLoadData(&module, data), "cuModuleLoadData");
  must(m, m->cu->ModuleGetFunction(&loaded[f], module, families[f].kernel), "cuModuleGetFunction");
  return loaded[f];
}

static CUdeviceptr device_words(const machine *m, size_t words) {
  CUdeviceptr p;
  must(m, m->cu->MemAllocFromPoolAsync(&p, 4 * words, m->pool, m->stream), "cuMemAllocFromPoolAsync");
  return p;
}

/* --- tensor maps --- */

enum { U8, U16, U32, I32, U64, I64, F16, F32, F64, BF16 };

/* A box that sticks out of the tensor on some sides. */
static void make_map(const machine *m, const bits_case *p, bits_args *args, CUdeviceptr base) {
  static const uint8_t size[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};
  const uint32_t element = size[p->type], span = p->swizzle ? 16u << p->swizzle : 64;
  const uint32_t box[5] = {span / element, p->rank == 1 ? 1 : 9, p->rank > 3 ? 2 : 5, 3, 2}, one[5] = {1, 1, 1, 1, 1};
  const uint64_t dims[5] = {p->rank == 1 ? 1000 : 96 / element + 3, 11, 6, 4, 2};
  uint64_t strides[4] = {112, 112 * 12, 112 * 12 * 7, 112 * 12 * 7 * 5};
  /* A multiple of 16 bytes, and not negative in stores, or the instruction is illegal. */
  const int32_t c0 = p->swizzle == 3 ? 16 : (p->what == BITS_BY_LOAD ? -16 : 32) / (int32_t)element;
  const int32_t c[5] = {c0, 4, p->rank > 3 ? 5 : p->what == BITS_BY_LOAD ? -2 : 3, 2, p->what == BITS_BY_LOAD ? -1 : 1};
  must(m,
       m->cu->TensorMapEncodeTiled(&args->map, p->type, (unsigned)p->rank, (void *)(uintptr_t)base, dims, strides, box,
                                   one, 0, p->swizzle, 0, p->nan_fill),
       "cuTensorMapEncodeTiled");
  args->rank = p->rank;
  args->box_bytes = element;
  for (int i = 0; i < p->rank; i++) args->box_bytes *= box[i];
  memcpy(args->c, c, sizeof c);
}

/* What the driver says to one change of good arguments. */
static uint32_t encode_operand_bits(const machine *m, int change, CUdeviceptr base) {
  struct {
    int type, interleave, swizzle, l2, oob;
    unsigned rank;
    uint64_t dims[5], strides[4];
    uint32_t box[5], one[5];
  } a = {BF16,
         0,
         3,
         0,
         0,
         4,
         {256, 64, 8, 4, 2},
         {512, 512 * 64, 512 * 64 * 8, 512 * 64 * 8 * 4},
         {64, 16, 1, 1, 1},
         {1, 1, 1, 1, 1}};
  switch (change) {
  case 1: a.rank = 0; break;
  case 2: a.rank = 6; break;
  case 3: a.rank = 5; break;
  case 4: a.rank = 1; break;
  case 5: a.type = 13; break;
  case 6: a.type = 16; break;
  case 7: base += 8; break;
  case 8: a.dims[1] = 0; break;
  case 9: a.dims[1] = (uint64_t)1 << 32; break;
  case 10: a.dims[1] = ((uint64_t)1 << 32) + 1; break;
  case 11: a.strides[0] = 520; break;
  case 12: a.strides[0] = 0; break;
  case 13: a.strides[2] = (uint64_t)1 << 40; break;
  case 14: a.strides[2] = ((uint64_t)1 << 40) - 16; break;
  case 15: a.strides[1] = 528; break; /* less than the dimension before takes */
  case 16: a.strides[1] = 16; break;
  case 17: a.box[1] = 0; break;
  case 18: a.box[1] = 256; break;
  case 19: a.box[1] = 257; break;
  case 20: a.box[0] = 72; break; /* more than the swizzle's span */
  case 21: a.box[0] = 72, a.swizzle = 0; break;
  case 22: a.box[0] = 4; break; /* 8 bytes */
  case 23: a.one[1] = 0; break;
  case 24: a.box[0] = 256, a.box[1] = 256, a.swizzle = 0; break;               /* 128 KiB */
  case 25: a.box[0] = 256, a.box[1] = 224, a.box[2] = 2, a.swizzle = 0; break; /* 224 KiB */
  case 26: a.one[1] = 9; break;
  case 27: a.oob = 1; break;
  case 28: a.oob = 1, a.type = U16; break;
  case 29: a.oob = 2; break;
  case 30: a.swizzle = 4; break;
  case 31: a.l2 = 3; break;
  case 32: a.l2 = 4; break;
  case 33: a.box[0] = 256, a.box[1] = 256, a.box[2] = 2, a.swizzle = 0; break; /* 256 KiB */
  case 34: a.box[0] = 32, a.swizzle = 2; break;
  case 35: a.box[0] = 40, a.swizzle = 2; break;
  case 36: a.box[0] = 24, a.swizzle = 1; break;
  case 37: a.box[0] = 60; break; /* 120 bytes */
  case 38: a.type = U8, a.box[0] = 24, a.swizzle = 0; break;
  case 39: a.box[0] = 256, a.swizzle = 0, a.type = F32; break;
  case 40: a.box[0] = 256, a.box[1] = 256, a.box[2] = 8; break; /* more than shared memory */
  case 41: a.box[1] = 65; break;                                /* more than the tensor has */
  case 42: a.strides[0] = 256; break;                           /* rows overlap */
  case 43: a.oob = 1, a.type = I32; break;
  case 44: a.box[0] = 256, a.box[1] = 256, a.box[2] = 8, a.swizzle = 0; break;
  case 45: a.box[0] = 256, a.box[1] = 256, a.box[2] = 4, a.swizzle = 0; break;              /* 512 KiB */
  case 46: a.box[0] = 256, a.box[1] = 232, a.box[2] = 2, a.swizzle = 0; break;              /* 232 KiB */
  case 47: a.box[0] = 128, a.box[1] = 256, a.box[2] = 2, a.type = U8, a.swizzle = 0; break; /* 2^16 elements */
  case 48: a.box[0] = 256, a.box[1] = 256, a.box[2] = 3, a.type = U8, a.swizzle = 0; break; /* 192 KiB of bytes */
  default: break;
  }
  ga_tmap map;
  return (uint32_t)m->cu->TensorMapEncodeTiled(&map, a.type, a.rank, (void *)(uintptr_t)base, a.dims, a.strides, a.box,
                                               a.one, a.interleave, a.swizzle, a.l2, a.oob);
}

/* Results of one case; the caller's to free. */
static uint32_t *run_bits(const machine *m, const bits_case *p, int steps) {
  size_t n_in = (size_t)families[p->family].in, n_out = (size_t)families[p->family].out;
  uint32_t *in = calloc(n_in, 4), *out = calloc(n_out, 4);
  if (!in || !out) abort();
  fill_case(p, in);
  if (p->family == BULK) memcpy(out, in, 4 * n_out);
  CUdeviceptr din = device_words(m, n_in), dout = device_words(m, n_out);
  must(m, m->cu->MemcpyHtoDAsync(din, in, 4 * n_in, m->stream), "copy");
  must(m, m->cu->MemcpyHtoDAsync(dout, out, 4 * n_out, m->stream), "copy");
  for (int i = 0; p->family == ENCODE && i < (int)n_out; i++) out[i] = encode_operand_bits(m, i, din);
  if (p->family == ENCODE) return out;
  bits_args args = {
      .in = (const uint32_t *)(uintptr_t)din, .out = (uint32_t *)(uintptr_t)dout, .what = p->what, .steps = steps};
  if (p->family == BULK && p->what <= BITS_BY_MULTICAST)
    make_map(m, p, &args, p->what == BITS_BY_STORE || p->what == BITS_BY_ADD ? dout : din);
  CUlaunchAttribute cluster = {.id = CU_LAUNCH_CLUSTER_DIMENSION, .value.cluster = {2, 1, 1}};
  void *params[] = {&args};
  CUlaunchConfig c = {.grid_x = (unsigned)families[p->family].blocks,
                      .grid_y = 1,
                      .grid_z = 1,
                      .block_x = (unsigned)families[p->family].threads,
                      .block_y = 1,
                      .block_z = 1,
                      .shared_bytes = BITS_SHARED,
                      .stream = m->stream,
                      .attributes = &cluster,
                      .n_attributes = p->family == BULK};
  must(m, m->cu->LaunchKernelEx(&c, function_of_family(m, p->family), params, NULL), p->name);
  must(m, m->cu->MemcpyDtoHAsync(out, dout, 4 * n_out, m->stream), "copy back");
  must(m, m->cu->StreamSynchronize(m->stream), p->name);
  must(m, m->cu->MemFreeAsync(din, m->stream), "free");
  must(m, m->cu->MemFreeAsync(dout, m->stream), "free");
  free(in);
  return out;
}

static uint64_t run_one(const machine *m, const bits_case *p, int steps) {
  size_t n = (size_t)families[p->family].out;
  uint32_t *out = run_bits(m, p, steps);
  uint64_t hash = ga_fnv64(GA_FNV64_START, out, 4 * n);
  if (m->out) {
    char head[32] = {0};
    (void)snprintf(head, sizeof head, "%s %d", p->name, steps);
    uint32_t words = (uint32_t)n;
    if (fwrite(head, 1, 32, m->out) != 32 || fwrite(&words, 4, 1, m->out) != 1 || fwrite(out, 4, n, m->out) != n)
      must(m, 1, "write");
  }
  free(out);
  return hash;
}

static int run_every(machine *m, const char *out, const char *only) {
  m->out = out ? fopen(out, "wb") : NULL;
  for (size_t i = 0; i < sizeof probes / sizeof probes[0]; i++)
    for (int steps = only && strcmp(only, probes[i].name) ? 9 : 1; steps <= (probes[i].family == MMA ? 4 : 1);
         steps += 3)
      printf("%s %d %016llx\n", probes[i].name, steps, (unsigned long long)run_one(m, &probes[i], steps));
  return m->out ? fclose(m->out) : 0;
}

static int compare_file(const machine *m, const char *path) {
  FILE *f = fopen(path, "r");
  char line[200], name[100];
  int steps, bad = 0, n = 0;
  unsigned long long hash;
  while (f && fgets(line, sizeof line, f)) {
    if (sscanf(line, "%99s %d %llx", name, &steps, &hash) != 3 || line[0] == '#') continue;
    for (size_t i = 0; i < sizeof probes / sizeof probes[0]; i++)
      if (!strcmp(probes[i].name, name)) {
        bool same = run_one(m, &probes[i], steps) == hash;
        if (!same) printf("%s, %d steps: not what the GPU gave\n", name, steps);
        bad += !same;
        n++;
      }
  }
  if (f) (void)fclose(f);
  printf("probes: %d compared, %d differ\n", n, bad);
  return bad || !n;
}

int main(int argc, char **argv) {
  const ga_cu *cu = &emu_driver;
  if (argc >= 4 && !strcmp(argv[1], "run")) {
    if (ga_cu_load(&cu) != GA_OK) {
      (void)fprintf(stderr, "%s\n", ga_error_text());
      return 2;
    }
    machine m = start_machine(cu, argv[2]);
    return run_every(&m, argv[3], argc > 4 ? argv[4] : NULL);
  }
  machine m = start_machine(cu, NULL);
  if (argc >= 2 && !strcmp(argv[1], "emu")) return run_every(&m, argc > 2 ? argv[2] : NULL, NULL);
  if (argc == 3 && !strcmp(argv[1], "compare")) return compare_file(&m, argv[2]);
  (void)fprintf(stderr, "usage: emu_bits run FOLDER OUT | emu [OUT] | compare FILE\n");
  return 2;
}
