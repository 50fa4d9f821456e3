/* Every planted defect must be caught by its rule in each of 20 seeds, and clean kernels must be silent in 100. */
#include "tests/emu/plant_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "emu/emu.h"
#include "emu/tensor_map.h"
#include "tests/emu/plant.h"

extern const emu_kernel emu_kernel_plant_gemm, emu_kernel_plant_misc, emu_kernel_plant_cluster, emu_kernel_plant_copy;

typedef struct plant {
  const char *name;
  const emu_kernel *kernel;
  int number;
  emu_rule rule; /* COUNT: clean */
} plant;

static const plant plants[] = {
#define X(name_, rule_) {#name_, &emu_kernel_plant_gemm, PLANT_##name_, EMU_RULE_##rule_},
    PLANT_GEMM(X)
#undef X
#define X(name_, rule_) {#name_, &emu_kernel_plant_misc, PLANT_##name_, EMU_RULE_##rule_},
        PLANT_MISC(X)
#undef X
#define X(name_, rule_) {#name_, &emu_kernel_plant_cluster, PLANT_##name_, EMU_RULE_##rule_},
            PLANT_CLUSTER(X)
#undef X
#define X(name_, rule_) {#name_, &emu_kernel_plant_copy, PLANT_##name_, EMU_RULE_##rule_},
                PLANT_COPY(X)
#undef X
};

enum { ROWS = 256, OUT = 2048, WORDS = 256 };

static int steps = 6; /* blocks of 64 along k */
#define K (64 * (size_t)steps)

typedef struct world {
  uint16_t *a, *b;
  float *c, *out;
  int32_t *words;
  void *map;
} world;

static void *device_memory(size_t bytes, bool written) {
  void *p = emu_alloc(bytes);
  if (!p) abort();
  memset(p, 0, bytes);
  if (written) emu_mark_written(p, bytes);
  return p;
}

static void map(ga_tmap *m, int type, void *base, uint64_t width, uint64_t rows, uint32_t box_width, uint32_t box_rows,
                int bytes, int swizzle) {
  const uint64_t dims[4] = {width, rows, 1, 1}, strides[3] = {width * (uint64_t)bytes, 1 << 20, 1 << 20};
  const uint32_t box[4] = {box_width, box_rows, 1, 1}, one[4] = {1, 1, 1, 1};
  if (emu_tmap_encode(m, type, 4, base, dims, strides, box, one, 0, swizzle, 0, 0)) abort();
}

static uint16_t bf16_of(int i) {
  float x = (float)(i % 7 - 3);
  uint32_t u;
  memcpy(&u, &x, 4);
  return (uint16_t)(u >> 16);
}

static world build_world(plant_args *args) {
  world w = {device_memory(ROWS * K * 2, true), device_memory(64 * K * 2, true), device_memory(ROWS * 64 * 4, false),
             device_memory(OUT * 4, true),      device_memory(WORDS * 4, false), device_memory(128, true)};
  emu_mark_written(w.words, 64 * 4);
  for (size_t i = 0; i < ROWS * K; i++) w.a[i] = bf16_of((int)(i * 5 + i / 11));
  for (size_t i = 0; i < 64 * K; i++) w.b[i] = bf16_of((int)(i * 3 + i / 13));
  memset(args, 0, sizeof *args);
  map(&args->a, 9, w.a, K, ROWS, 64, 128, 2, 3);
  map(&args->b, 9, w.b, K, 64, 64, 64, 2, 3);
  map(&args->c, 7, w.c, 64, ROWS, 64, 64, 4, 0);
  args->pa = w.a;
  args->pb = w.b;
  args->pc = w.c;
  memcpy(w.map, &args->b, sizeof args->b);
  args->map = w.map;
  args->out = w.out;
  args->words = w.words;
  args->steps = steps;
  return w;
}

static void drop_world(world *w) {
  (void)emu_free(w->a);
  (void)emu_free(w->b);
  (void)emu_free(w->c);
  (void)emu_free(w->out);
  (void)emu_free(w->words);
  (void)emu_free(w->map);
}

static float number_of_half(uint16_t h) {
  uint32_t u = (uint32_t)h << 16;
  float x;
  memcpy(&x, &u, 4);
  return x;
}

/* Small integers: exact. */
static bool product_right(const world *w, size_t k_end) {
  for (size_t i = 0; i < ROWS; i++)
    for (size_t j = 0; j < 64; j++) {
      float s = 0;
      for (size_t k = 0; k < k_end; k++) s += number_of_half(w->a[i * K + k]) * number_of_half(w->b[j * K + k]);
      if (s != w->c[i * 64 + j]) return false;
    }
  return true;
}

static void run_plant(const plant *p, plant_args *args) {
  bool cluster = p->kernel == &emu_kernel_plant_cluster;
  emu_launch l = {.kernel = p->kernel,
                  .grid = {2, 1, 1},
                  .block = {p->kernel->threads, 1, 1},
                  .shared_bytes = PLANT_SHARED,
                  .args = args};
  if (cluster) l.cluster[0] = 2;
  if (p->number == PLANT_TOO_MANY_THREADS) l.block[0] += 128;
  if (p->number == PLANT_TOO_MUCH_SHARED) l.shared_bytes = 240 * 1024;
  if (p->kernel == &emu_kernel_plant_misc) {
    /* A first grid writes what the second reads. */
    plant_args before = *args;
    before.plant = PLANT_MISC_CLEAN;
    before.out = args->out - 512;
    before.words += 32; /* its own counters */
    before.map = NULL;
    (void)emu_run_launch(&(emu_launch){
        .kernel = p->kernel, .grid = {1, 1, 1}, .block = {128, 1, 1}, .shared_bytes = PLANT_SHARED, .args = &before});
    l.dependent = true;
  }
  (void)emu_run_launch(&l);
}

static bool caught(const plant *p, const world *w) {
  bool clean = p->rule == EMU_RULE_COUNT;
  if (clean && emu_n_reports()) return false;
  if (clean && p->kernel == &emu_kernel_plant_gemm) return product_right(w, K);
  if (clean && p->kernel == &emu_kernel_plant_copy) return product_right(w, K - 8);
  if (clean) return !w->words[63];
  for (size_t i = 0; i < emu_n_reports(); i++)
    if (emu_report_rule(i) == p->rule) return true;
  return false;
}

static int try_plant(const plant *p, int seeds) {
  bool clean = p->rule == EMU_RULE_COUNT;
  int good = 0, n = clean ? 5 * seeds : seeds;
  for (int i = 0; i < n; i++) {
    plant_args args;
    world w = build_world(&args);
    args.plant = p->number;
    emu_settings()->seed = (uint64_t)(1000 * i + 1);
    /* Late is the worst case and the default; clean kernels must be silent in the other modes too. */
    emu_settings()->when = !clean || i % 2 == 0 ? EMU_LATE : i % 4 == 1 ? EMU_MIXED : EMU_EARLY;
    emu_clear_reports();
    if (p->kernel == &emu_kernel_plant_misc) args.out += 512;
    run_plant(p, &args);
    if (caught(p, &w))
      good++;
    else if (good == i) {
      printf("  seed %d: %zu reports\n", 1000 * i + 1, emu_n_reports());
      for (size_t r = 0; r < emu_n_reports(); r++) printf("  %s\n", emu_report_text(r));
    }
    drop_world(&w);
  }
  printf("%-4s %-20s %3d of %3d seeds: %s\n", good == n ? "ok" : "FAIL", p->name, good, n,
         clean ? "silent" : emu_rule_name(p->rule));
  (void)fflush(stdout);
  return good != n;
}

int plant_all(int seeds, const char *only) {
  int bad = 0;
  for (size_t i = 0; i < sizeof plants / sizeof plants[0]; i++)
    if (!only || !strcmp(only, plants[i].name)) bad += try_plant(&plants[i], seeds);
  printf("planted: %zu kernels, %d failures\n", sizeof plants / sizeof plants[0], bad);
  return bad;
}

/* GFLOP/s of products in the clean kernel, with everything around them. */
int plant_speed(void) {
  steps = 128;
  for (int checks = 0; checks < 2; checks++) {
    struct timespec a, b;
    double before = emu_wgmma_flops();
    plant_args args;
    world w = build_world(&args);
    args.plant = PLANT_GEMM_CLEAN;
    emu_settings()->checks = checks;
    emu_clear_reports();
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    for (int i = 0; i < 6; i++) run_plant(&plants[0], &args);
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    double s = (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
    printf("%s: %.2f GFLOP/s a core\n", checks ? "checked" : "unchecked", (emu_wgmma_flops() - before) * 1e-9 / s);
    drop_world(&w);
  }
  return 0;
}

int check_selftest_plants(void) { return plant_all(20, NULL); }
