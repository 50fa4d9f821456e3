/* From seed, id and number to the description of a draw. */
#include "base/hash.h"
#include "verify/check/internal.h"

/* Draws per number until the row takes one. Rows for few rows or one type refuse most. */
#define TRIES 200

static const check_mode modes[] = {CHECK_EXACT, CHECK_NORMAL, CHECK_HOSTILE};

static check_mode mode_of(const check_op *op, bool tame, int64_t i) {
  for (int64_t k = i; k < i + 3; k++)
    if (op->modes & modes[k % 3] && !(tame && modes[k % 3] == CHECK_HOSTILE)) return modes[k % 3];
  return CHECK_NORMAL;
}

static void start_case(check_case *c, const check_options *o, int64_t i, int attempt) {
  uint64_t seed = ga_fnv64(o->seed * 0x9e3779b97f4a7c15u + GA_FNV64_START, c->kernel->id, strlen(c->kernel->id));
  ga_rng_seed(&c->rng, seed + (uint64_t)i * TRIES + (uint64_t)attempt);
  c->edge = i < CHECK_N_EDGES ? (int)i : -1;
  c->n_dims = 0;
  c->large = o->launches > 0;
  c->mode = c->large ? CHECK_NORMAL : mode_of(c->op, o->tame || c->kernel->flags & GA_KERNEL_TEACHING, i);
  c->bits = (uint32_t)ga_rng_u64(&c->rng);
  c->specials = c->op->specials;
  c->expect = GA_OK;
  memset(c->drawn, 0, sizeof c->drawn);
  c->row = c->oracle = (check_args){0};
  c->desc = memset(c->desc_bytes[0], 0, sizeof c->desc_bytes[0]);
  c->oracle_desc = memset(c->desc_bytes[1], 0, sizeof c->desc_bytes[1]);
}

/* What the row declares binds it, whatever its predicate says. */
static const char *desc_must_refuse(const check_case *c) {
  for (int s = 0; s < 3; s++)
    if (c->drawn[s] && c->kernel->dtype[s] && c->drawn[s] != c->kernel->dtype[s]) return "a dtype other than its own";
  return c->op->must_refuse ? c->op->must_refuse(c) : NULL;
}

/* More than a few milliseconds of copying a launch. */
static bool desc_too_large(const check_case *c) {
  check_args a = {0};
  size_t bytes = 0;
  c->op->args(c, c->desc, &a);
  for (int i = 0; i < a.n; i++) bytes += check_payload(&a.arg[i]);
  return bytes > (size_t)96 << 20;
}

ga_status check_draw_desc(check_case *c, const check_options *o, int64_t i) {
  for (int attempt = 0; attempt < TRIES; attempt++) {
    start_case(c, o, i, attempt);
    c->op->draw(c);
    ga_plan_steps steps;
    const char *not_legal = desc_must_refuse(c),
               *refused = ga_plan_steps_fill(&steps, c->ctx->device, NULL, c->kernel, c->desc);
    GA_REQUIRE(refused || !not_legal, GA_ERR_STATE, "takes what it must refuse: %s", not_legal);
    if (refused) continue;
    memcpy(c->oracle_desc, c->desc, GA_DESC_MAX_BYTES);
    if (c->op->oracle_types) c->op->oracle_types(c->oracle_desc);
    if (c->large && desc_too_large(c)) continue;
    return GA_OK;
  }
  return GA_ERR_UNSUPPORTED;
}
