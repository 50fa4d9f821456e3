/* Host images of the buffers of a draw: guard, offset, payload with padding, guard. */
#include "ref/ref.h"
#include "verify/check/internal.h"

/* A multiple of the 256 bytes that device buffers are aligned to, and more than any vector or tile row. */
#define GUARD 4096

static int64_t in_bytes(const check_arg *arg, int64_t elems) {
  const ga_dtype_traits *t = ga_dtype_info(arg->dtype);
  return elems / t->block_elems * t->block_bytes;
}

/* Elements from the first to behind the last. */
static int64_t span(const check_arg *arg) {
  int64_t last = 0;
  for (int i = 0; i < arg->n_dims; i++) {
    if (arg->dim[i] == 0) return 0;
    last += (arg->dim[i] - 1) * arg->stride[i];
  }
  /* The last element stands for its whole block. */
  int64_t block = ga_dtype_info(arg->dtype)->block_elems;
  return (last / block + 1) * block;
}

size_t check_payload(const check_arg *arg) { return (size_t)in_bytes(arg, span(arg)); }

/* Little-endian pairs 0xffc0..0xffff: NaN for f16, and repeated for bf16, f32 and f64. Copies of padding from another
 * place or buffer do not go unseen, because position and salt choose the low bits. */
void check_canary(uint8_t *p, size_t n, size_t at, uint64_t salt) {
  for (size_t i = 0; i < n; i++) {
    uint64_t pair = (at + i) / 2 + salt * 0x9e3779b97f4a7c15u;
    p[i] = (at + i) & 1 ? 0xff : (uint8_t)(0xc0 | ((pair * 0xd1342543de82ef95u) >> 58));
  }
}

typedef void (*row_fn)(const check_arg *arg, size_t at, size_t bytes, void *user);

/* Calls fn with the byte range of every contiguous row of the view. */
static void each_row(const check_arg *arg, row_fn fn, void *user) {
  int64_t width = arg->n_dims ? arg->dim[arg->n_dims - 1] : 1, n = check_count(arg);
  for (int64_t i = 0; i < n; i += width)
    fn(arg, arg->at + (size_t)in_bytes(arg, check_at(arg, i)), (size_t)in_bytes(arg, width), user);
}

/* Only the first values, so that timing large arguments needs neither their memory nor their time on the host. Blocks
 * of quantised types and what op->fill makes are there whole. */
static ga_status allocate_some(check_case *c, check_arg *arg) {
  void *p;
  const int64_t n = check_count(arg), block = ga_dtype_info(arg->dtype)->block_elems;
  const bool dense =
      n > 0 && check_at(arg, n - 1) == n - 1 && block == 1 && arg->fill != CHECK_FILL_OP && !arg->derived;
  arg->at = 0;
  arg->bytes = ga_round_up(check_payload(arg), 64);
  arg->repeat_bytes = dense && n > TIMING_PERIOD ? (size_t)in_bytes(arg, TIMING_PERIOD) : arg->bytes;
  GA_TRY(ga_arena_alloc(&c->arena, arg->repeat_bytes + 1, &p));
  arg->before = p;
  return GA_OK;
}

static ga_status allocate(check_case *c, check_arg *arg, size_t offset) {
  void *p;
  if (c->timing) return allocate_some(c, arg);
  arg->at = GUARD + offset;
  arg->bytes = ga_round_up(arg->at + check_payload(arg), 64) + GUARD;
  GA_TRY(ga_arena_alloc(&c->arena, arg->bytes, &p));
  arg->before = p;
  GA_TRY(ga_arena_alloc(&c->arena, arg->bytes, &p));
  arg->after = p;
  GA_TRY(ga_arena_alloc(&c->arena, arg->bytes, &p));
  arg->scratch = p;
  check_canary(arg->before, arg->bytes, 0, (uint64_t)arg->io_at + 1);
  return GA_OK;
}

/* Half of the buffers start at the device's alignment, the others at their own. */
static size_t draw_offset(check_case *c, const check_arg *arg) {
  size_t unit = arg->align ? arg->align : (size_t)ga_dtype_info(arg->dtype)->block_bytes;
  return check_pick(c, 2) ? unit * (size_t)check_pick(c, 16) : 0;
}

static void poison_row(const check_arg *arg, size_t at, size_t bytes, void *salt) {
  check_canary(arg->before + at, bytes, at, *(uint64_t *)salt);
}

void check_poison(check_arg *arg, uint64_t salt) {
  if (arg->role == CHECK_OUT && arg->alias < 0) each_row(arg, poison_row, &salt);
}

/* Copies values element by element: exact, because the target's type is at least as wide. */
static void convert_arg(const check_arg *from, check_arg *to) {
  if (from->dtype == to->dtype && ga_dtype_info(from->dtype)->block_elems > 1) {
    int64_t block = ga_dtype_info(from->dtype)->block_elems, n = check_count(from);
    for (int64_t i = 0; i < n; i += block)
      memcpy(to->before + to->at + in_bytes(to, check_at(to, i)),
             from->before + from->at + in_bytes(from, check_at(from, i)), (size_t)in_bytes(from, block));
    return;
  }
  int64_t n = check_count(from);
  size_t size = (size_t)ga_dtype_info(from->dtype)->block_bytes;
  for (int64_t i = 0; i < n; i++) {
    int64_t a = check_at(from, i), b = check_at(to, i);
    if (from->dtype == to->dtype)
      memcpy(to->before + to->at + (size_t)b * size, from->before + from->at + (size_t)a * size, size);
    else
      ga_ref_store(to->dtype, to->before + to->at, b, ga_ref_load(from->dtype, from->before + from->at, a));
  }
}

/* Shares the target's images; geometry is the same. */
static void join_alias(check_args *a, check_arg *arg) {
  check_arg *target = &a->arg[arg->alias];
  target->role = CHECK_INOUT;
  arg->at = target->at;
  arg->bytes = target->bytes;
  arg->before = target->before;
  arg->after = target->after;
  arg->scratch = target->scratch;
}

/* The row's image of an argument; for a derived one the oracle's comes first. */
static ga_status build_row_arg(check_case *c, int i) {
  check_arg *row = &c->row.arg[i], *oracle = &c->oracle.arg[i];
  oracle->alias = -1;
  if (row->alias >= 0) return GA_OK;
  GA_TRY(allocate(c, row, draw_offset(c, row)));
  if (row->derived) {
    GA_TRY(allocate(c, oracle, 0));
    GA_TRY(check_fill_arg(c, oracle));
    return c->op->derive(c, i);
  }
  if (!c->timing) check_poison(row, 1);
  return row->role == CHECK_OUT ? GA_OK : check_fill_arg(c, row);
}

ga_status check_build_row(check_case *c) {
  c->op->args(c, c->desc, &c->row);
  c->op->args(c, c->oracle_desc, &c->oracle);
  GA_REQUIRE(c->row.n == c->oracle.n && c->row.n < CHECK_MAX_ARGS, GA_ERR_INTERNAL,
             "check: %d arguments, %d of the oracle", c->row.n, c->oracle.n);
  for (int i = 0; i < c->row.n; i++) GA_TRY(build_row_arg(c, i));
  for (int i = 0; i < c->row.n; i++)
    if (c->row.arg[i].alias >= 0) join_alias(&c->row, &c->row.arg[i]);
  return GA_OK;
}

static ga_status build_oracle_arg(check_case *c, int i) {
  const check_arg *row = &c->row.arg[i];
  check_arg *oracle = &c->oracle.arg[i];
  if (row->derived) return GA_OK;
  GA_TRY(allocate(c, oracle, 0));
  if (oracle->role == CHECK_OUT)
    check_poison(oracle, 1);
  else
    convert_arg(row, oracle);
  return GA_OK;
}

ga_status check_build(check_case *c) {
  GA_TRY(check_build_row(c));
  for (int i = 0; i < c->row.n; i++) GA_TRY(build_oracle_arg(c, i));
  check_bind_host(&c->oracle);
  return GA_OK;
}

ga_status check_build_plain(check_case *c, check_args *out) {
  *out = c->row;
  for (int i = 0; i < out->n; i++) {
    check_arg *arg = &out->arg[i];
    const check_arg *from = &c->row.arg[i];
    if (from->derived) {
      *arg = c->oracle.arg[i];
      continue;
    }
    arg->alias = -1;
    GA_TRY(allocate(c, arg, 0));
    if (from->role == CHECK_OUT)
      check_poison(arg, 1);
    else
      convert_arg(from, arg);
  }
  check_bind_host(out);
  return GA_OK;
}

void check_bind_host(check_args *a) {
  for (int i = 0; i < a->n; i++) {
    void *p = a->arg[i].before + a->arg[i].at;
    memcpy(a->io + a->arg[i].io_at, &p, sizeof p);
  }
}

/* --- after the run --- */

typedef struct copy_rows {
  uint8_t *to;
  const uint8_t *from;
} copy_rows;

static void copy_row(const check_arg *arg, size_t at, size_t bytes, void *user) {
  (void)arg;
  const copy_rows *c = user;
  memcpy(c->to + at, c->from + at, bytes);
}

static check_detector outside(const check_arg *arg, size_t i, char *text, size_t capacity) {
  size_t begin = arg->at, end = arg->at + check_payload(arg);
  if (i < begin)
    (void)snprintf(text, capacity, "wrote before the start of %s, at byte -%zu", arg->name, begin - i);
  else if (i >= end)
    (void)snprintf(text, capacity, "wrote behind the end of %s, at byte %zu", arg->name, i - end);
  else
    (void)snprintf(text, capacity, "wrote between the rows of %s, at byte %zu", arg->name, i - begin);
  return i < begin || i >= end ? CHECK_BY_GUARD : CHECK_BY_PADDING;
}

static check_detector hygiene_of(const check_arg *arg, char *text, size_t capacity) {
  uint8_t *want = memcpy(arg->scratch, arg->before, arg->bytes); /* + the results: then all must be equal */
  copy_rows copy = {.to = want, .from = arg->after};
  if (arg->role != CHECK_IN) each_row(arg, copy_row, &copy);
  if (!memcmp(want, arg->after, arg->bytes)) return CHECK_PASSED;
  size_t i = 0;
  while (want[i] == arg->after[i]) i++;
  size_t begin = arg->at, end = arg->at + check_payload(arg);
  if (arg->role != CHECK_IN || i < begin || i >= end) return outside(arg, i, text, capacity);
  (void)snprintf(text, capacity, "changed its input %s, at byte %zu", arg->name, i - begin);
  return CHECK_BY_INPUT;
}

check_detector check_hygiene(const check_args *a, char *text, size_t capacity) {
  for (int i = 0; i < a->n; i++) {
    if (a->arg[i].alias >= 0) continue;
    check_detector d = hygiene_of(&a->arg[i], text, capacity);
    if (d) return d;
  }
  return CHECK_PASSED;
}

bool check_same(const check_arg *arg, const uint8_t *a, const uint8_t *b, int64_t *at) {
  const ga_dtype_traits *t = ga_dtype_info(arg->dtype);
  bool floats = !t->is_quant && !(arg->dtype >= GA_I8 && arg->dtype <= GA_U8);
  int64_t n = check_count(arg);
  for (int64_t i = 0; i < n; i += t->block_elems) {
    size_t o = arg->at + (size_t)in_bytes(arg, check_at(arg, i));
    if (!memcmp(a + o, b + o, (size_t)t->block_bytes)) continue;
    int64_t e = check_at(arg, i);
    if (floats && isnan(ga_ref_load(arg->dtype, a + arg->at, e)) && isnan(ga_ref_load(arg->dtype, b + arg->at, e)))
      continue;
    *at = i;
    return false;
  }
  return true;
}
