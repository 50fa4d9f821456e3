#include "verify/bench/entry.h"

#define MAX_SETS        16384
#define MAX_DEVICE_SETS 1024 /* nodes of a graph */

static size_t bytes_of_set(const check_args *a) {
  size_t bytes = 0;
  for (int i = 0; i < a->n; i++)
    if (a->arg[i].alias < 0) bytes += ga_round_up(a->arg[i].bytes, 256);
  return bytes;
}

/* The argument's first values, and again until its end; by way of `stage`, from which a device copies faster. */
static ga_status fill_arg(bench_entry *l, const check_arg *arg, uint8_t *to, void *stage) {
  memcpy(stage, arg->before, arg->repeat_bytes);
  for (size_t at = 0; at < arg->bytes; at += arg->repeat_bytes) {
    const size_t left = arg->bytes - at;
    GA_TRY(ga_copy_to_device(l->ctx, to + at, stage, left < arg->repeat_bytes ? left : arg->repeat_bytes, NULL));
  }
  return GA_OK;
}

static ga_status fill_set(bench_entry *l, int set, void *stage) {
  uint8_t *base = l->memory + (size_t)set * l->set_bytes;
  check_args *a = &l->c.row;
  for (int i = 0; i < a->n; i++) {
    check_arg *arg = &a->arg[i];
    if (arg->alias >= 0) continue;
    arg->device = base;
    if (arg->role != CHECK_OUT) GA_TRY(fill_arg(l, arg, base, stage));
    base += ga_round_up(arg->bytes, 256);
  }
  memcpy(l->io[set], a->io, CHECK_MAX_IO);
  for (int i = 0; i < a->n; i++) {
    const check_arg *owner = a->arg[i].alias >= 0 ? &a->arg[a->arg[i].alias] : &a->arg[i];
    void *p = (char *)owner->device + owner->at;
    memcpy(l->io[set] + a->arg[i].io_at, &p, sizeof p);
  }
  return GA_OK;
}

static ga_status fill_sets(bench_entry *l) {
  size_t most = 0;
  void *stage;
  for (int i = 0; i < l->c.row.n; i++) most = l->c.row.arg[i].repeat_bytes > most ? l->c.row.arg[i].repeat_bytes : most;
  GA_TRY(ga_host_alloc(l->ctx, most, &stage));
  ga_status status = GA_OK;
  for (int s = 0; s < l->n_sets && status == GA_OK; s++) status = fill_set(l, s, stage);
  ga_host_free(l->ctx, stage);
  return status;
}

static ga_status open_case(bench_entry *l, const ga_kernel *kernel, int shape, const bench_options *o, char *name) {
  const bench_op *bench = bench_op_of(kernel->op);
  check_case *c = &l->c;
  c->op = check_op_of(kernel->op);
  c->kernel = kernel;
  c->ctx = l->ctx;
  c->mode = CHECK_NORMAL;
  c->bits = bench->bits;
  c->timing = true;
  c->edge = -1;
  c->desc = c->desc_bytes[0];
  c->oracle_desc = c->desc_bytes[1];
  ga_rng_seed(&c->rng, o->seed);
  ga_arena_init(&c->arena, 0);
  (void)bench->shape(shape, kernel, c->desc, name);
  memcpy(c->oracle_desc, c->desc, GA_DESC_MAX_BYTES);
  if (c->op->oracle_types) c->op->oracle_types(c->oracle_desc);
  if (c->op->timed) GA_TRY(c->op->timed(c));
  return check_build_row(c);
}

static ga_status open_buffers(bench_entry *l, size_t budget) {
  void *p;
  const size_t sets = budget / l->set_bytes + 1, most = bench_has_clock(l->ctx->device) ? MAX_DEVICE_SETS : MAX_SETS;
  l->n_sets = (int)(sets > most ? most : sets);
  GA_TRY(ga_mem_zalloc((size_t)l->n_sets, CHECK_MAX_IO, "bench", &p));
  l->io = p;
  GA_TRY(ga_mem_zalloc(BENCH_MAX_SAMPLES, sizeof(double), "bench", &p));
  l->samples = p;
  GA_TRY(ga_buffer_alloc(l->ctx, l->set_bytes * (size_t)l->n_sets, &p));
  l->memory = p;
  GA_TRY(fill_sets(l));
  GA_TRY(check_steps_of(&l->c, l->ctx, &l->steps));
  const uint64_t bytes = l->steps.workspace_bytes;
  return bytes ? ga_buffer_alloc(l->ctx, bytes, &l->workspace) : GA_OK;
}

ga_status entry_open(ga_ctx *ctx, const ga_kernel *kernel, int shape, size_t budget, const bench_options *o,
                     bench_entry *l, char *name) {
  l->ctx = ctx;
  GA_TRY(open_case(l, kernel, shape, o, name));
  l->set_bytes = bytes_of_set(&l->c.row);
  GA_TRY(open_buffers(l, o->hot ? 0 : budget));
  if (!bench_has_clock(ctx->device)) return GA_OK;
  GA_TRY(ga_event_create(ctx, &l->start));
  return ga_event_create(ctx, &l->stop);
}

void entry_close(bench_entry *l) {
  if (!l->ctx) return;
  ga_graph_destroy(l->graph);
  ga_event_destroy(l->start);
  ga_event_destroy(l->stop);
  ga_buffer_free(l->ctx, l->memory);
  ga_buffer_free(l->ctx, l->workspace);
  ga_mem_free(l->io);
  ga_mem_free(l->samples);
  ga_arena_free(&l->c.arena);
}
