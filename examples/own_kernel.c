/* Loads the image of own_kernel.cu, launches it on a GPU and compares with plain C.
 *   cc -std=c11 own_kernel.c tile_image.c -o own_kernel $(pkg-config --cflags --libs ga) -lm
 *   ./own_kernel [DEVICE]     cuda:0; own_kernel.cubin lies beside the program (tile_image.c) */
#include "own_kernel.h"

#include <math.h>
#include <stdio.h>

#include <ga/launch.h>

#include "tile_image.h"

enum { ROWS = 100, WIDTH = 777 };

static float x[ROWS * WIDTH], y[ROWS];

/* Computes y = kernel(x) through the device's memory. */
static ga_status run_own_kernel(ga_ctx *ctx, const void *image) {
  ga_launch launch = GA_LAUNCH_INIT;
  ga_function *kernel = NULL;
  void *memory = NULL;
  launch.grid[0] = 32;
  launch.block[0] = 256;
  ga_status status = ga_function_load(ctx, image, "own_kernel", &kernel);
  if (status == GA_OK) status = ga_buffer_alloc(ctx, sizeof x + sizeof y, &memory);
  float *out = (float *)memory + ROWS * WIDTH;
  const own_args args = {.x = memory, .y = out, .rows = ROWS, .width = WIDTH};
  if (status == GA_OK) status = ga_copy_to_device(ctx, memory, x, sizeof x, NULL);
  if (status == GA_OK) status = ga_function_launch(kernel, &launch, &args, NULL);
  if (status == GA_OK) status = ga_copy_to_host(ctx, y, out, sizeof y, NULL); /* waits for the kernel */
  ga_buffer_free(ctx, memory);
  ga_function_destroy(kernel);
  return status;
}

int main(int argc, char **argv) {
  ga_ctx_options options = GA_CTX_OPTIONS_INIT;
  ga_ctx *ctx = NULL;
  void *image = example_image("own_kernel");
  double worst = 0;
  if (!image) return fprintf(stderr, "own_kernel.cubin is not beside this program\n"), 1;
  for (int i = 0; i < ROWS * WIDTH; i++) x[i] = sinf((float)i);
  options.device = argc > 1 ? argv[1] : "cuda:0";
  const int failed = ga_ctx_create(&options, &ctx) != GA_OK || run_own_kernel(ctx, image) != GA_OK;
  if (failed) (void)fprintf(stderr, "%s\n", ga_error_text());
  for (int row = 0; row < ROWS; row++) {
    double sum = 0;
    for (int c = 0; c < WIDTH; c++) sum += (double)x[row * WIDTH + c] * (double)x[row * WIDTH + c];
    worst = fmax(worst, fabs((double)y[row] - sqrt(sum / WIDTH)));
  }
  if (!failed) printf("largest difference %.2g\n", worst);
  ga_ctx_destroy(ctx);
  example_image_free(image);
  return failed || worst > 1e-5;
}
