/* A run on buffers that end where their last page ends: reading one byte further is a fault. Models are mapped files,
 * so what lies behind a tensor may be no memory at all. Host devices only. */
#include <sys/mman.h>
#include <unistd.h>

#include "verify/check/internal.h"

typedef struct tight {
  uint8_t *pages;
  size_t bytes; /* of all pages */
  uint8_t *data;
} tight;

static ga_status tight_alloc(size_t bytes, size_t align, tight *t) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), room = ga_round_up(bytes + align, page);
  *t = (tight){.bytes = room + page};
  void *p = mmap(NULL, t->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  GA_REQUIRE(p != MAP_FAILED, GA_ERR_NOMEM, "check: no memory for %zu bytes", t->bytes);
  t->pages = p;
  GA_REQUIRE(mprotect(t->pages + room, page, PROT_NONE) == 0, GA_ERR_NOMEM, "check: no guard page");
  uintptr_t at = (uintptr_t)(t->pages + room - bytes);
  t->data = t->pages + (at / align * align - (uintptr_t)t->pages);
  return GA_OK;
}

static void tight_free(tight *t) {
  if (t->pages) (void)munmap(t->pages, t->bytes);
}

/* One element is all the alignment that an argument has, unless it asks for more. */
static size_t align_of(const check_arg *arg) {
  const ga_dtype_traits *t = ga_dtype_info(arg->dtype);
  if (arg->align) return arg->align;
  return t->block_elems > 1 ? 2 : (size_t)t->block_bytes;
}

static ga_status place_arg(check_args *a, int i, tight *t) {
  check_arg *arg = &a->arg[i];
  size_t bytes = check_payload(arg);
  GA_TRY(tight_alloc(bytes, align_of(arg), t));
  memcpy(t->data, arg->before + arg->at, bytes);
  return GA_OK;
}

static void bind_io(check_args *a, const tight *t) {
  for (int i = 0; i < a->n; i++) {
    const tight *owner = &t[a->arg[i].alias >= 0 ? a->arg[i].alias : i];
    memcpy(a->io + a->arg[i].io_at, &owner->data, sizeof owner->data);
  }
}

ga_status check_run_tight(check_case *c, ga_ctx *ctx) {
  tight t[CHECK_MAX_ARGS] = {{0}}, space = {0};
  ga_status status = GA_OK;
  ga_plan_steps steps;
  GA_TRY(check_steps_of(c, ctx, &steps));
  for (int i = 0; i < c->row.n; i++)
    if (c->row.arg[i].alias < 0) GA_TRY_OUT(place_arg(&c->row, i, &t[i]));
  bind_io(&c->row, t);
  if (steps.workspace_bytes) GA_TRY_OUT(tight_alloc((size_t)steps.workspace_bytes, 256, &space));
  GA_TRY_OUT(check_launch_steps(c->op, &steps, c->desc, c->row.io, space.data, ctx->stream));
  for (int i = 0; i < c->row.n; i++) {
    check_arg *arg = &c->row.arg[i];
    if (arg->alias < 0) memcpy(arg->after + arg->at, t[i].data, check_payload(arg));
  }
out:
  for (int i = 0; i < c->row.n; i++) tight_free(&t[i]);
  tight_free(&space);
  return status;
}
