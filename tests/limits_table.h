/* Tests from tables: every field of a description at, below and above its limits, with NaN and infinities, and every
 * pointer NULL and misaligned: refused with a text that names op and field, or taken. */
#ifndef GA_TESTS_LIMITS_TABLE_H
#define GA_TESTS_LIMITS_TABLE_H

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ctx.h"
#include "opdef/ops.h"

typedef enum kind { DIM, STRIDE, INT, FLAG, REAL, POSITIVE, SHARE, ZERO, TYPE } kind;

/* least and most: of DIM and INT; of ZERO two values that are refused, 0: 1 and -1; of STRIDE least is the width of the
 * row; of POSITIVE and SHARE least is 1 where 0 is refused, most is 1 where 1 is. */
typedef struct field {
  const char *name;
  size_t at;
  kind kind;
  int64_t least, most;
} field;

typedef struct pointer {
  const char *name;
  size_t at;
  bool needed;
  unsigned align; /* 1: not looked at */
} pointer;

typedef ga_status (*plan_fn)(ga_ctx *ctx, const void *desc, ga_plan **out);
typedef ga_status (*run_fn)(const ga_plan *plan, const void *io, void *workspace, ga_stream *stream);

typedef struct op_case {
  const char *op;
  const void *desc, *io; /* that are taken; io's pointers are to `room` or NULL */
  size_t desc_bytes, io_bytes;
  const field *fields;
  size_t n_fields;
  const pointer *pointers;
  size_t n_pointers;
  plan_fn plan;
  run_fn run;
} op_case;

static ga_ctx *ctx;
static GA_ALIGNED(64) unsigned char room[16][4096];

#define TWO_40 ((int64_t)1 << 40)
#define HEADS  65536

#define AT(op, name) #name, offsetof(ga_##op##_desc, name)
#define IO(op, name) #name, offsetof(ga_##op##_io, name)

#define WRAP(op)                                                                                                   \
  static inline ga_status plan_##op(ga_ctx *c, const void *d, ga_plan **out) { return ga_##op##_plan(c, d, out); } \
  static inline ga_status run_##op(const ga_plan *p, const void *io, void *workspace, ga_stream *stream) {         \
    return ga_##op##_run(p, io, workspace, stream);                                                                \
  }
/* --- from a table --- */

static inline ga_status plan_of(const op_case *c, const void *desc, ga_plan **plan) {
  const ga_status status = c->plan(ctx, desc, plan);
  if (status != GA_OK) assert_null(*plan);
  return status;
}

static inline void write_field(void *struct_, const field *f, int64_t v) {
  unsigned char *at = (unsigned char *)struct_ + f->at;
  const int32_t narrow = (int32_t)v;
  if (f->kind == DIM || f->kind == STRIDE || !strncmp(f->name, "total_", 6) || !strcmp(f->name, "b_rows"))
    memcpy(at, &v, sizeof v);
  else
    memcpy(at, &narrow, sizeof narrow);
}

/* The text says which op and which field; `taken` is also what this device has no row for. */
static inline void expect(const op_case *c, const void *desc, const char *field_name, const char *value, bool taken) {
  ga_plan *plan;
  const ga_status status = plan_of(c, desc, &plan);
  ga_plan_destroy(plan);
  if (taken && status != GA_OK && status != GA_ERR_UNSUPPORTED)
    fail_msg("%s: %s = %s: refused: %s", c->op, field_name, value, ga_error_text());
  if (taken) return;
  if (status != GA_ERR_ARG && status != GA_ERR_SHAPE && status != GA_ERR_DTYPE)
    fail_msg("%s: %s = %s: status %s", c->op, field_name, value, ga_status_name(status));
  if (strncmp(ga_error_text(), c->op, strlen(c->op)) != 0 || !strstr(ga_error_text(), field_name))
    fail_msg("%s: %s = %s: the text does not name it: %s", c->op, field_name, value, ga_error_text());
}

static inline void try_int(const op_case *c, const field *f, int64_t v, bool taken) {
  GA_ALIGNED(8) unsigned char desc[GA_DESC_MAX_BYTES];
  char value[32];
  memcpy(desc, c->desc, c->desc_bytes);
  write_field(desc, f, v);
  (void)snprintf(value, sizeof value, "%lld", (long long)v);
  expect(c, desc, f->name, value, taken);
}

static inline void try_float(const op_case *c, const field *f, float v, bool taken) {
  GA_ALIGNED(8) unsigned char desc[GA_DESC_MAX_BYTES];
  char value[32];
  memcpy(desc, c->desc, c->desc_bytes);
  memcpy(desc + f->at, &v, sizeof v);
  (void)snprintf(value, sizeof value, "%g", (double)v);
  expect(c, desc, f->name, value, taken);
}

static inline void try_field(const op_case *c, const field *f) {
  switch (f->kind) {
  case DIM:
    try_int(c, f, f->least, true);
    try_int(c, f, f->most, true);
    try_int(c, f, -1, false);
    try_int(c, f, INT64_MIN, false);
    try_int(c, f, f->most + 1, false);
    try_int(c, f, INT64_MAX, false);
    break;
  case STRIDE:
    try_int(c, f, 0, true);
    try_int(c, f, f->least - 1, false);
    try_int(c, f, f->least, true);
    try_int(c, f, f->most, true);
    try_int(c, f, f->most + 1, false);
    try_int(c, f, -f->least, false);
    try_int(c, f, INT64_MIN, false);
    try_int(c, f, INT64_MAX, false);
    break;
  case INT:
    try_int(c, f, f->least - 1, false);
    try_int(c, f, INT32_MIN, false);
    if (f->most < INT32_MAX) try_int(c, f, f->most + 1, false);
    if (f->most < INT32_MAX) try_int(c, f, INT32_MAX, false);
    break;
  case FLAG:
    try_int(c, f, -1, true);
    try_int(c, f, INT32_MAX, true);
    break;
  case REAL:
  case POSITIVE:
    if (f->kind == POSITIVE) try_float(c, f, 0, !f->least);
    try_float(c, f, NAN, false);
    try_float(c, f, INFINITY, false);
    try_float(c, f, -INFINITY, false);
    try_float(c, f, FLT_MAX, true);
    try_float(c, f, FLT_MIN, true);
    try_float(c, f, -1, f->kind == REAL);
    break;
  case SHARE:
    try_float(c, f, NAN, false);
    try_float(c, f, INFINITY, false);
    try_float(c, f, -INFINITY, false);
    try_float(c, f, -FLT_MIN, false);
    try_float(c, f, 0, !f->least);
    try_float(c, f, 0.5F, true);
    try_float(c, f, 1, !f->most);
    try_float(c, f, 1 + FLT_EPSILON, false);
    break;
  case ZERO:
    try_int(c, f, f->least ? f->least : 1, false);
    try_int(c, f, f->most ? f->most : -1, false);
    break;
  case TYPE:
    try_int(c, f, 0, false);
    try_int(c, f, -1, false);
    try_int(c, f, GA_I64, false);
    try_int(c, f, GA_Q4_K, false);
    try_int(c, f, INT32_MAX, false);
    break;
  }
}

/* The largest value of each INT that stands alone. */
static inline void try_most(const op_case *c, const char *name, int64_t v) {
  for (size_t i = 0; i < c->n_fields; i++)
    if (!strcmp(c->fields[i].name, name)) {
      try_int(c, &c->fields[i], v, true);
      return;
    }
  fail_msg("%s has no field %s", c->op, name);
}

static inline void expect_io(const op_case *c, const ga_plan *plan, const void *io, const char *name, const char *how) {
  void *workspace = malloc(ga_plan_workspace_bytes(plan) + 1);
  const ga_status status = c->run(plan, io, workspace, NULL);
  free(workspace);
  if (status != GA_ERR_ARG) fail_msg("%s: %s is %s: status %s", c->op, name, how, ga_status_name(status));
  if (strncmp(ga_error_text(), c->op, strlen(c->op)) != 0 || !strstr(ga_error_text(), name))
    fail_msg("%s: %s is %s: the text does not name it: %s", c->op, name, how, ga_error_text());
}

static inline void try_pointers(const op_case *c) {
  unsigned char io[1024];
  ga_plan *plan;
  if (plan_of(c, c->desc, &plan) != GA_OK) fail_msg("%s: %s", c->op, ga_error_text());
  void *workspace = malloc(ga_plan_workspace_bytes(plan) + 1);
  if (c->run(plan, c->io, workspace, NULL) != GA_OK) fail_msg("%s: %s", c->op, ga_error_text());
  free(workspace);
  for (size_t i = 0; i < c->n_pointers; i++) {
    const pointer *p = &c->pointers[i];
    unsigned char *at;
    for (unsigned off = 1; off < p->align; off++) {
      memcpy(io, c->io, c->io_bytes);
      memcpy(&at, io + p->at, sizeof at);
      if (!at) at = room[15];
      at += off;
      memcpy(io + p->at, &at, sizeof at);
      expect_io(c, plan, io, p->name, "misaligned");
    }
    if (!p->needed) continue;
    memcpy(io, c->io, c->io_bytes);
    memset(io + p->at, 0, sizeof(void *));
    expect_io(c, plan, io, p->name, "NULL");
  }
  ga_plan_destroy(plan);
}

#define CASE(op, d, i)                                                                         \
  {                                                                                            \
#op, d, i, sizeof *(d), sizeof *(i), op##_fields, GA_COUNT_OF(op##_fields), op##_pointers, \
        GA_COUNT_OF(op##_pointers), plan_##op, run_##op                                        \
  }

static inline void all_of(const op_case *c) {
  for (size_t i = 0; i < c->n_fields; i++) try_field(c, &c->fields[i]);
  try_pointers(c);
}

static inline void *at(int i) { return room[i]; }

/* The oracles take every fused form. */
static ga_ctx *cpu;
static inline void open_ref(void) {
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  cpu = ctx;
  o.device = "ref";
  assert_int_equal(ga_ctx_create(&o, &ctx), GA_OK);
}
static inline void close_ref(void) {
  ga_ctx_destroy(ctx);
  ctx = cpu;
}

static inline int open_limits(void **state) {
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  (void)state;
  o.device = "cpu";
  o.threads = 1;
  return ga_ctx_create(&o, &ctx) != GA_OK;
}
static inline int close_limits(void **state) {
  (void)state;
  ga_ctx_destroy(ctx);
  return 0;
}

#endif
