/* Launches one attention kernel from a cubin, through the CUDA driver opened at run time. A shared library for
 * attn_check.py and attn_bench.py: the smallest host side that can drive the kernels on their own, with no library
 * behind it. */
#include "cuda/kern/attn/attn_fwd_sm90a_args.h"
#include "cuda/kern/attn/attn_rows.h"
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  int f16, d, dv, mask, bm, bn, stages, store, resident, blocks, features, is_short;
} config; /* the row's GA_P_* */
typedef struct {
  int64_t batch, row, head;
} strides;
typedef struct {
  void *q, *k, *v, *o;
  float *lse;
  int32_t *counter, *cu_q, *cu_k;
  float *slope, *sink;
  strides sq, sk, sv, so, slse;
  int32_t batch, heads_q, heads_k, rows_q, rows_k, d, dv, total_q, total_k, window_left, window_right, features,
      section_mb, dependent;
  float scale, softcap;
} problem;
typedef struct {
  CUfunction f;
  config c;
  int smem, threads;
} kernel;
typedef struct {
  ga_kargs_attn_fwd a;
  CUfunction f;
  int grid, threads, smem, dependent;
} plan;

/* clang-format off */
#define DRIVER(X) \
  X(cuInit) \
  X(cuModuleLoad) X(cuModuleGetFunction) X(cuFuncSetAttribute) X(cuLaunchKernelEx) X(cuTensorMapEncodeTiled) \
      X(cuCtxGetDevice) X(cuDeviceGetAttribute)
/* clang-format on */
#define X(n) static __typeof__(n) *p_##n;
DRIVER(X)
#undef X

static int open_driver(void) {
  void *h = dlopen("libcuda.so.1", RTLD_NOW);
  if (!h) return 1;
#define X(n) \
  if (!(p_##n = (__typeof__(n) *)dlsym(h, #n))) return 1;
  DRIVER(X)
#undef X
  return p_cuInit(0) != CUDA_SUCCESS;
}

kernel *attn_open(const char *path, const char *symbol, const config *c) {
  CUmodule m;
  kernel *k = calloc(1, sizeof *k);
  if (!p_cuInit && open_driver()) return NULL;
  if (!k || p_cuModuleLoad(&m, path) || p_cuModuleGetFunction(&k->f, m, symbol)) return free(k), NULL;
  k->c = *c;
  k->smem = GA_ATTN_SMEM(c->is_short, c->d, c->dv, c->bm, c->bn, c->stages, c->store, c->resident);
  k->threads = GA_ATTN_THREADS(c->is_short, c->bm);
  if (p_cuFuncSetAttribute(k->f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, k->smem)) return free(k), NULL;
  return k;
}

/* (column, row, head, batch), boxes of 64 columns; rows that pack heads have q as (column, 1, row, head, batch). */
static int encode(ga_tmap *map, const config *c, void *base, int d, int rows, int heads, int batch, const strides *s,
                  int box_rows, int packs) {
  const cuuint64_t dims[5] = {(cuuint64_t)d, 1, (cuuint64_t)rows, (cuuint64_t)heads, (cuuint64_t)batch};
  const cuuint64_t plain[4] = {(cuuint64_t)d, (cuuint64_t)rows, (cuuint64_t)heads, (cuuint64_t)batch};
  const cuuint64_t bytes[4] = {16, (cuuint64_t)s->row * 2, (cuuint64_t)s->head * 2, (cuuint64_t)s->batch * 2};
  const cuuint32_t box[5] = {64, 1, (cuuint32_t)box_rows, 1, 1}, box4[4] = {64, (cuuint32_t)box_rows, 1, 1},
                   one[5] = {1, 1, 1, 1, 1};
  return p_cuTensorMapEncodeTiled(
             (CUtensorMap *)map, c->f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
             packs ? 5 : 4, base, packs ? dims : plain, packs ? bytes : bytes + 1, packs ? box : box4, one,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS;
}

static int min_int(int a, int b) { return a < b ? a : b; }

plan *attn_plan(const kernel *k, const problem *p) {
  plan *r = aligned_alloc(64, (sizeof *r + 63) / 64 * 64);
  const config *c = &k->c;
  const int varlen = p->features & GA_KATTN_VARLEN, batch = varlen ? 1 : p->batch;
  const int rows_q = varlen ? p->total_q : p->rows_q, rows_k = varlen ? p->total_k : p->rows_k;
  ga_kargs_attn_fwd *a = &r->a;
  CUdevice dev;
  int sms;
  memset(r, 0, sizeof *r);
  if (encode(&a->q, c, p->q, p->d, rows_q, p->heads_q, batch, &p->sq, 64, c->features >= 8) ||
      encode(&a->k, c, p->k, p->d, rows_k, p->heads_k, batch, &p->sk, c->bn, 0) ||
      encode(&a->v, c, p->v, p->dv, rows_k, p->heads_k, batch, &p->sv, c->bn, 0) ||
      encode(&a->o, c, p->o, p->dv, rows_q, p->heads_q, batch, &p->so, 16, 0))
    return free(r), NULL;
  a->o_base = p->o;
  a->o_stride_row = p->so.row;
  a->o_stride_head = p->so.head;
  a->o_stride_batch = p->so.batch;
  a->lse = p->lse;
  a->lse_stride_head = p->slse.head;
  a->lse_stride_batch = p->slse.batch;
  a->cu_q = p->cu_q;
  a->cu_k = p->cu_k;
  a->slope = p->slope;
  a->sink = p->sink;
  a->counter = p->counter;
  a->heads_q = p->heads_q;
  a->group = p->heads_q / p->heads_k;
  a->rows_q = p->rows_q;
  a->rows_k = p->rows_k;
  a->heads_total = p->heads_q * p->batch;
  a->tiles_per_head = (p->rows_q + c->bm - 1) / c->bm;
  a->unit_tiles = 1;
  p_cuCtxGetDevice(&dev);
  p_cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, dev);
  if (c->resident) { /* as many tiles per unit as still fill the machine */
    a->unit_tiles = a->tiles_per_head;
    while (a->unit_tiles % 2 == 0 && a->heads_total * (a->tiles_per_head / a->unit_tiles) < sms * c->blocks * 3 / 4)
      a->unit_tiles /= 2;
    a->tiles_per_head /= a->unit_tiles;
  }
  a->tiles = a->tiles_per_head * a->heads_total;
  const int64_t per = (int64_t)p->rows_k * (p->d + p->dv) * 2;
  /* long sequences: all heads in one section, so that tiles of a head run together and share K and V as they pass */
  const int wide = p->d > 128 && (k->c.mask == 1 || p->rows_k <= 1024);
  const int mb = wide ? 16 : p->rows_k <= 1024 ? 8 : p->rows_k < 8192 ? 32 : 1 << 10;
  const int64_t section = (int64_t)(p->section_mb ? p->section_mb : mb) << 20;
  const int64_t heads = section * a->group / per;
  a->heads_per_section = heads > a->heads_total ? a->heads_total : (int)heads;
  if (a->heads_per_section < 1) a->heads_per_section = 1;
  a->heads_per_section = min_int(a->heads_per_section, a->heads_total);
  a->cols_v = p->dv;
  a->window_left = p->window_left;
  a->window_right = p->window_right;
  a->features = p->features;
  a->scale_log2 = p->scale * 1.44269504f;
  a->ln_hi = 0.693147181f;
  a->chunks = a->pack = 1;
  a->pack_inverse = 1 << 16;
  a->wg_queries = 64;
  if (p->softcap > 0) {
    a->softcap_in = p->scale / p->softcap;
    a->softcap_out = p->softcap * 1.44269504f;
  }
  r->f = k->f;
  r->grid = min_int(a->tiles, sms * c->blocks);
  r->threads = k->threads;
  r->smem = k->smem;
  r->dependent = p->dependent;
  return r;
}

int attn_run(plan *r, void *stream) {
  CUlaunchAttribute at[1];
  CUlaunchConfig cfg;
  void *args[1] = {&r->a};
  memset(&cfg, 0, sizeof cfg);
  cfg.gridDimX = (unsigned)r->grid;
  cfg.gridDimY = cfg.gridDimZ = cfg.blockDimY = cfg.blockDimZ = 1;
  cfg.blockDimX = (unsigned)r->threads;
  cfg.sharedMemBytes = (unsigned)r->smem;
  cfg.hStream = stream;
  at[0].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  at[0].value.programmaticStreamSerializationAllowed = 1;
  cfg.attrs = at;
  cfg.numAttrs = r->dependent ? 1 : 0;
  return (int)p_cuLaunchKernelEx(&cfg, r->f, args, NULL);
}

void attn_free(void *p) { free(p); }
