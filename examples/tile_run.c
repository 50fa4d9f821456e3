/* Runs the example kernels through GA's C library: checks each against plain C, then times it.
 *
 *   cc -std=c11 tile_run.c tile_image.c -o tile_run $(pkg-config --cflags --libs ga) -lm
 *   ./tile_run [DEVICE [SIZE]]     cuda:0, 8192; the kernels' images are looked for beside the program (tile_image.c)
 *
 * Nothing of CUDA is linked: the library loads the driver when the device is opened. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ga/launch.h>

#include "tile_args.h"
#include "tile_image.h"

#define TRY(call)                               \
  do {                                          \
    ga_status try_status = (call);              \
    if (try_status != GA_OK) return try_status; \
  } while (0)

#define SMS     132 /* persistent blocks; more than the multiprocessors is fine */
#define SECONDS 0.5 /* of consecutive launches: a GPU under load is slower than an idle one */

static ga_ctx *ctx;

/* --- bf16, and numbers --- */

static float widen(uint16_t h) {
  const uint32_t u = (uint32_t)h << 16;
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}
static uint16_t narrow(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
/* Draws an approximately normal number: the sum of four uniform ones. */
static void fill_inputs(uint16_t *x, size_t n) {
  static uint64_t state = 1;
  for (size_t i = 0; i < n; i++) {
    float sum = -2;
    for (int j = 0; j < 4; j++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      sum += (float)(state >> 40) * 0x1p-24f;
    }
    x[i] = narrow(sum * 1.7f);
  }
}

/* A matrix on the host and on the device. */
typedef struct matrix {
  uint16_t *host;
  void *device;
  size_t n;
} matrix;

static ga_status make_matrix(matrix *m, size_t n, int filled) {
  *m = (matrix){.host = malloc(n * sizeof(uint16_t)), .n = n};
  if (!m->host) return GA_ERR_NOMEM;
  if (filled) fill_inputs(m->host, n);
  TRY(ga_buffer_alloc(ctx, n * sizeof(uint16_t), &m->device));
  return filled ? ga_copy_to_device(ctx, m->device, m->host, n * sizeof(uint16_t), NULL) : GA_OK;
}
static void drop_matrix(matrix *m) {
  ga_buffer_free(ctx, m->device);
  free(m->host);
}

/* --- running --- */

static ga_status load_example(const char *name, ga_function **f) {
  void *image = example_image(name);
  if (!image) {
    (void)fprintf(stderr, "%s: its image is not beside this program\n", name);
    return GA_ERR_IO;
  }
  const ga_status status = ga_function_load(ctx, image, name, f);
  example_image_free(image);
  return status;
}

static ga_status milliseconds(ga_function *f, const ga_launch *l, const void *args, double *ms) {
  ga_event *start, *stop;
  TRY(ga_event_create(ctx, &start));
  TRY(ga_event_create(ctx, &stop));
  for (int turns = 10, pass = 0; pass < 2; pass++) { /* the first pass finds the number of launches for SECONDS */
    TRY(ga_event_record(ctx, start, NULL));
    for (int i = 0; i < turns; i++) TRY(ga_function_launch(f, l, args, NULL));
    TRY(ga_event_record(ctx, stop, NULL));
    TRY(ga_event_elapsed(start, stop, ms));
    *ms /= turns;
    turns = (int)(SECONDS * 1e3 / *ms) + 1;
  }
  ga_event_destroy(start);
  ga_event_destroy(stop);
  return GA_OK;
}

/* Launches once, copies `out` to the host, and times launches on a GPU. */
static ga_status run_example(const char *name, const ga_launch *l, const void *args, matrix *out, double *ms) {
  ga_function *f;
  TRY(load_example(name, &f));
  TRY(ga_function_launch(f, l, args, NULL));
  TRY(ga_copy_to_host(ctx, out->host, out->device, out->n * sizeof(uint16_t), NULL));
  *ms = 0;
  if (!strncmp(ga_ctx_device_name(ctx), "cuda", 4)) TRY(milliseconds(f, l, args, ms));
  ga_function_destroy(f);
  return GA_OK;
}

/* off: the largest error, as a fraction of the error of rounding the result to bf16. */
static ga_status judge_example(const char *name, double off, double ms, double work, const char *unit) {
  printf("%-16s %s: largest error %.2f of allowed", name, off <= 1 ? "right" : "WRONG", off);
  if (ms > 0) printf("; %.1f us, %.1f %s", ms * 1e3, work / (ms * 1e-3), unit);
  printf("\n");
  return off <= 1 ? GA_OK : GA_ERR_INTERNAL;
}

/* --- the product --- */

static ga_status tensor_map_of(const matrix *m, int rows, int cols, int box_rows, ga_tmap *map) {
  ga_tensor_map_desc d = GA_TENSOR_MAP_DESC_INIT;
  d.data = m->device;
  d.dtype = GA_BF16;
  d.n_dims = 2;
  d.dim[0] = cols;
  d.dim[1] = rows;
  d.stride[0] = 1;
  d.stride[1] = cols;
  d.box[0] = 64;
  d.box[1] = box_rows;
  return ga_tensor_map(ctx, &d, map);
}

static double gemm_error(const gemm_args *p, const matrix *a, const matrix *b, const matrix *c) {
  double off = 0;
  for (int t = 0; t < 4000; t++) { /* some elements, including the corners */
    const int i = t < 4 ? t % 2 * (p->m - 1) : (int)((unsigned)t * 7919u % (unsigned)p->m);
    const int j = t < 4 ? t / 2 * (p->n - 1) : (int)((unsigned)t * 104729u % (unsigned)p->n);
    double sum = 0, size = 0;
    for (int k = 0; k < p->k; k++) {
      const double x = (double)widen(a->host[(size_t)i * (size_t)p->k + (size_t)k]) *
                       (double)widen(b->host[(size_t)j * (size_t)p->k + (size_t)k]);
      sum += x;
      size += fabs(x);
    }
    const double allowed = 0x1p-8 * fabs(sum) + 0x1p-20 * size; /* the result's rounding; f32 sums */
    const double x = fabs((double)widen(c->host[(size_t)i * (size_t)p->n + (size_t)j]) - sum) / allowed;
    off = x <= off ? off : x; /* a NaN counts as an error */
  }
  return off;
}

static ga_status run_gemm(int m, int n, int k) {
  matrix a, b, c;
  gemm_args p = {.m = m, .n = n, .k = k};
  ga_launch l = GA_LAUNCH_INIT;
  double ms;
  l.grid[0] = SMS;
  l.block[0] = 384;
  l.shared_bytes = 4 * 3 * 16384 + 8 * 4096 + 2 * 4 * 8; /* stages, sums, barriers: the offsets of tile_gemm.cu */
  TRY(make_matrix(&a, (size_t)m * (size_t)k, 1));
  TRY(make_matrix(&b, (size_t)n * (size_t)k, 1));
  TRY(make_matrix(&c, (size_t)m * (size_t)n, 0));
  TRY(tensor_map_of(&a, m, k, 128, &p.a));
  TRY(tensor_map_of(&b, n, k, 256, &p.b));
  TRY(tensor_map_of(&c, m, n, 16, &p.c));
  TRY(run_example("tile_gemm", &l, &p, &c, &ms));
  const double off = gemm_error(&p, &a, &b, &c);
  drop_matrix(&a), drop_matrix(&b), drop_matrix(&c);
  return judge_example("tile_gemm", off, ms, 2.0 * m * n * k * 1e-12, "TFLOP/s");
}

/* --- softmax and layer norm --- */

static double softmax_error(const softmax_args *p, const matrix *x, const matrix *y) {
  double off = 0;
  for (int i = 0; i < p->rows; i += 1 + p->rows / 50) {
    const uint16_t *row = x->host + (size_t)i * (size_t)p->width;
    double most = -INFINITY, sum = 0;
    for (int j = 0; j < p->width; j++) most = fmax(most, (double)widen(row[j]));
    for (int j = 0; j < p->width; j++) sum += exp((double)widen(row[j]) - most);
    for (int j = 0; j < p->width; j++) {
      const double want = exp((double)widen(row[j]) - most) / sum;
      const double allowed = (0x1p-8 + 0x1p-16) * want + 1e-30; /* the result's rounding; f32 */
      const double got = fabs((double)widen(y->host[(size_t)i * (size_t)p->width + (size_t)j]) - want) / allowed;
      off = got <= off ? off : got;
    }
  }
  return off;
}

static ga_status run_softmax(int rows, int width) {
  matrix x, y;
  ga_launch l = GA_LAUNCH_INIT;
  double ms;
  TRY(make_matrix(&x, (size_t)rows * (size_t)width, 1));
  TRY(make_matrix(&y, (size_t)rows * (size_t)width, 0));
  const softmax_args p = {.x = x.device, .y = y.device, .rows = rows, .width = width};
  l.grid[0] = 4 * SMS;
  l.block[0] = 256;
  TRY(run_example("tile_softmax", &l, &p, &y, &ms));
  const double off = softmax_error(&p, &x, &y);
  drop_matrix(&x), drop_matrix(&y);
  return judge_example("tile_softmax", off, ms, 4.0 * rows * width * 1e-9, "GB/s");
}

static double layer_norm_error(const layer_norm_args *p, const matrix *x, const matrix *gain, const matrix *bias,
                               const matrix *y) {
  double off = 0;
  for (int i = 0; i < p->rows; i += 1 + p->rows / 50) {
    const size_t first = (size_t)i * (size_t)p->width;
    double mean = 0, square = 0;
    for (int j = 0; j < p->width; j++) mean += (double)widen(x->host[first + (size_t)j]) / p->width;
    for (int j = 0; j < p->width; j++) square += pow((double)widen(x->host[first + (size_t)j]) - mean, 2) / p->width;
    for (int j = 0; j < p->width; j++) {
      const double part = ((double)widen(x->host[first + (size_t)j]) - mean) / sqrt(square + (double)p->eps) *
                          (double)widen(gain->host[j]);
      const double want = part + (double)widen(bias->host[j]);
      const double got =
          fabs((double)widen(y->host[first + (size_t)j]) - want) / (0x1p-8 * fabs(want) + 0x1p-18 * (fabs(part) + 1));
      off = got <= off ? off : got;
    }
  }
  return off;
}

static ga_status layer_norm(int rows, int width) {
  matrix x, y, gain, bias;
  ga_launch l = GA_LAUNCH_INIT;
  double ms;
  TRY(make_matrix(&x, (size_t)rows * (size_t)width, 1));
  TRY(make_matrix(&gain, (size_t)width, 1));
  TRY(make_matrix(&bias, (size_t)width, 1));
  TRY(make_matrix(&y, (size_t)rows * (size_t)width, 0));
  const layer_norm_args p = {.x = x.device,
                             .gain = gain.device,
                             .bias = bias.device,
                             .y = y.device,
                             .rows = rows,
                             .width = width,
                             .eps = 1e-5f};
  l.grid[0] = 2 * SMS;
  l.block[0] = 256;
  TRY(run_example("tile_layer_norm", &l, &p, &y, &ms));
  const double off = layer_norm_error(&p, &x, &gain, &bias, &y);
  drop_matrix(&x), drop_matrix(&gain), drop_matrix(&bias), drop_matrix(&y);
  return judge_example("tile_layer_norm", off, ms, 4.0 * rows * width * 1e-9, "GB/s");
}

int main(int argc, char **argv) {
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = argc > 1 ? argv[1] : "cuda:0";
  const int size = argc > 2 ? atoi(argv[2]) : 8192;
  ga_status status = ga_ctx_create(&o, &ctx);
  /* Odd sizes first: memory outside of a matrix is neither read nor written. */
  if (status == GA_OK) status = run_gemm(136, 264, 72);
  if (status == GA_OK) status = run_softmax(3, 1000);
  if (status == GA_OK) status = layer_norm(3, 2056);
  if (status == GA_OK && size > 0) status = run_gemm(size, size, size);
  if (status == GA_OK && size > 0) status = run_softmax(4 * size, size);
  if (status == GA_OK && size > 0) status = layer_norm(4 * size, size);
  if (status != GA_OK) (void)fprintf(stderr, "tile_run: %s: %s\n", ga_status_name(status), ga_error_text());
  ga_ctx_destroy(ctx);
  return status == GA_OK ? 0 : 1;
}
