/* Methods: sets of parameters, and nothing else. */
#include <string.h>

#include "base/status.h"
#include "dist/gather.h"

/* How a method cuts the ranks when the grid leaves it open. */
typedef enum cut_rule {
  CUT_KV,       /* 1 x 1 x ranks */
  CUT_Q,        /* 1 x ranks x 1 */
  CUT_HEADS,    /* ranks x 1 x 1 */
  CUT_BYTES,    /* 1 x q x kv with the fewest bytes a rank */
  CUT_SQUARE,   /* 1 x q x kv, q the largest divisor with q q <= ranks */
  CUT_SQUARE_T, /* the same with q and kv exchanged */
  CUT_USP       /* heads x 1 x kv: the largest divisor below ranks that kv_heads has room for */
} cut_rule;

enum { R = GA_DIST_RELAY, D = GA_DIST_DIRECT, B = GA_DIST_BULK };
enum { ALL = GA_DIST_SEND_ALL, BLOCKS = GA_DIST_SEND_BLOCKS, STRETCHES = GA_DIST_SEND_STRETCHES };

typedef struct pass_params {
  cut_rule cut;
  int move_q, move_kv, move_out, move_dkv;
} pass_params;

typedef struct method {
  const char *name, *text;
  int order, table, need, prefetch;
  bool two_level;
  pass_params forward, backward;
} method;

#define BOTH(...) \
  {__VA_ARGS__}, { __VA_ARGS__ }

static const method methods[] = {
    {"ring", "K and V go round; a rank keeps its queries", GA_DIST_CONTIGUOUS, DIST_PRODUCT, ALL, 1, false,
     BOTH(CUT_KV, R, R, D, R)},
    {"striped", "ring, over tokens dealt out one by one", GA_DIST_STRIPED, DIST_PRODUCT, ALL, 1, false,
     BOTH(CUT_KV, R, R, D, R)},
    {"zigzag", "ring, over chunks r and 2 ranks - 1 - r: equal work in every stage", GA_DIST_ZIGZAG, DIST_PRODUCT, ALL,
     1, false, BOTH(CUT_KV, R, R, D, R)},
    {"zigzag-direct", "zigzag; each rank gets only the chunks that it sees, from their owners", GA_DIST_ZIGZAG,
     DIST_PRODUCT, STRETCHES, 1, false, BOTH(CUT_KV, D, D, D, D)},
    {"double-ring", "zigzag in two rings: one inside of a host, one between hosts", GA_DIST_ZIGZAG, DIST_PRODUCT, ALL,
     1, true, BOTH(CUT_KV, R, R, D, R)},
    {"distflash", "DistFlashAttn: ranks that are done help those that are not; causal", GA_DIST_CONTIGUOUS,
     DIST_HELPERS, BLOCKS, 1, false, BOTH(CUT_KV, D, D, D, D)},
    {"balanced", "each tile to a rank with room that has its data: equal work for documents of any lengths",
     GA_DIST_PIECES, DIST_BALANCED, STRETCHES, 4, false, BOTH(CUT_KV, D, D, D, D)},
    {"llama3", "all K and V gathered before the first tile", GA_DIST_ZIGZAG, DIST_PRODUCT, ALL, 1, false,
     BOTH(CUT_KV, B, B, B, B)},
    {"mesh", "Mesh-Attention: a rank has q x kv blocks; queries and keys go round, results go home", GA_DIST_ZIGZAG,
     DIST_PRODUCT, ALL, 1, false, BOTH(CUT_BYTES, R, R, D, R)},
    {"wallfacer",
     "WallFacer, StarTrail: teams share their queries, keys go round the teams",
     GA_DIST_ZIGZAG,
     DIST_PRODUCT,
     ALL,
     1,
     false,
     {CUT_SQUARE, B, R, B, R},
     {CUT_SQUARE_T, R, B, R, B}},
    {"attention2d", "rows share queries, columns share keys, both gathered at once", GA_DIST_ZIGZAG, DIST_PRODUCT, ALL,
     1, false, BOTH(CUT_SQUARE, B, B, B, B)},
    {"ulysses", "all tokens of some heads on each rank", GA_DIST_CONTIGUOUS, DIST_PRODUCT, ALL, 1, false,
     BOTH(CUT_HEADS, B, B, B, B)},
    {"usp", "Ulysses in groups of ranks, zigzag between the groups", GA_DIST_ZIGZAG, DIST_PRODUCT, ALL, 1, false,
     BOTH(CUT_USP, B, R, B, R)},
    {"burst",
     "BurstAttention: zigzag; backward the side of the queries goes round",
     GA_DIST_ZIGZAG,
     DIST_PRODUCT,
     ALL,
     1,
     false,
     {CUT_KV, R, R, D, R},
     {CUT_Q, R, R, R, D}},
    {"tokenring",
     "Q goes round, partial O goes straight home; K and V stay",
     GA_DIST_ZIGZAG,
     DIST_PRODUCT,
     ALL,
     1,
     false,
     {CUT_Q, R, R, D, D},
     {CUT_Q, R, R, R, D}},
    {"pass-q",
     "Q goes round, partial O comes home at the end; K and V stay",
     GA_DIST_ZIGZAG,
     DIST_PRODUCT,
     ALL,
     1,
     false,
     {CUT_Q, R, R, B, D},
     {CUT_Q, R, R, R, D}},
    {"tree", "Tree decode: Q to all, partial O back from all; for few queries", GA_DIST_ZIGZAG, DIST_PRODUCT, ALL, 1,
     false, BOTH(CUT_Q, B, B, B, B)},
};

static const method *method_of(const char *name) {
  for (size_t i = 0; name && i < GA_COUNT_OF(methods); i++)
    if (!strcmp(methods[i].name, name)) return &methods[i];
  return NULL;
}

const char *ga_dist_method_name(size_t index) { return index < GA_COUNT_OF(methods) ? methods[index].name : NULL; }

const char *ga_dist_method_text(const char *name) {
  const method *m = method_of(name);
  return m ? m->text : NULL;
}

int32_t ga_dist_method_order(const char *name) {
  const method *m = method_of(name);
  return m ? m->order : 0;
}

static int32_t largest_divisor(int32_t n, int32_t most) {
  int32_t best = 1;
  for (int32_t i = 1; i <= most && i <= n; i++)
    if (n % i == 0) best = i;
  return best;
}

static int32_t square_side(int32_t n) {
  int32_t side = 1;
  while ((side + 1) * (side + 1) <= n) side++;
  return largest_divisor(n, side);
}

/* What a rank gets, in heads of a row: queries in and results out, and keys with values. */
static int32_t fewest_bytes(const dist_problem *p, int32_t n) {
  int32_t best = 1;
  int64_t least = INT64_MAX;
  for (int32_t q = 1; q <= n; q++) {
    const int64_t bytes = (int64_t)(q - 1) * 2 * p->q_heads + (int64_t)(n / q - 1) * 2 * p->kv_heads;
    if (n % q == 0 && bytes < least) least = bytes, best = q;
  }
  return best;
}

/* The product of what is open becomes what is left of the ranks. */
static void cut_grid(const dist_problem *p, cut_rule rule, ga_dist_grid *g) {
  const int32_t n = p->ranks;
  ga_dist_grid want = {.heads = 1, .q = 1, .kv = n};
  switch (rule) {
  case CUT_KV: break;
  case CUT_Q: want = (ga_dist_grid){.heads = 1, .q = n, .kv = 1}; break;
  case CUT_HEADS: want = (ga_dist_grid){.heads = n, .q = 1, .kv = 1}; break;
  case CUT_BYTES: want.q = fewest_bytes(p, n); break;
  case CUT_SQUARE: want.q = square_side(n); break;
  case CUT_SQUARE_T: want.q = n / square_side(n); break;
  case CUT_USP: want.heads = largest_divisor(n, p->kv_heads < n ? p->kv_heads : n > 1 ? n - 1 : 1); break;
  }
  if (!g->heads) g->heads = g->q || g->kv ? 1 : want.heads;
  if (!g->q && !g->kv) g->q = n % (g->heads * want.q) == 0 ? want.q : 1;
  if (!g->q) g->q = n / g->heads / g->kv > 0 ? n / g->heads / g->kv : 1;
  if (!g->kv) g->kv = n / g->heads / g->q > 0 ? n / g->heads / g->q : 1;
}

static int32_t or_else(int32_t asked, int32_t want) { return asked ? asked : want; }

static ga_status check_choices(const char *name, const ga_dist_grid *g, bool table) {
  const int32_t moves[4] = {g->move_q, g->move_kv, g->move_out, g->move_dkv};
  static const char *const names[4] = {"move_q", "move_kv", "move_out", "move_dkv"};
  for (int i = 0; i < 4; i++) {
    GA_REQUIRE(moves[i] >= R && moves[i] <= B, GA_ERR_ARG, "dist %s: %s is %d; must be 1 to 3", name, names[i],
               moves[i]);
    GA_REQUIRE(!table || moves[i] != R, GA_ERR_ARG, "dist %s: %s is relay; must be direct or bulk", name, names[i]);
  }
  GA_REQUIRE(g->need >= ALL && g->need <= STRETCHES, GA_ERR_ARG, "dist %s: need is %d; must be 1 to 3", name, g->need);
  GA_REQUIRE(g->prefetch >= 1 && g->prefetch <= 1024, GA_ERR_ARG, "dist %s: prefetch is %d; must be 1 to 1024", name,
             g->prefetch);
  GA_REQUIRE(g->reserved == 0, GA_ERR_ARG, "dist %s: reserved of the grid is %d; must be 0", name, g->reserved);
  return GA_OK;
}

static ga_status check_grid_of_method(const char *name, const dist_problem *p) {
  const ga_dist_grid *g = &p->grid;
  GA_REQUIRE(g->heads >= 1 && g->heads <= p->ranks && g->q >= 1 && g->q <= p->ranks && g->kv >= 1 &&
                 g->kv <= p->ranks && (int64_t)g->heads * g->q * g->kv == p->ranks,
             GA_ERR_SHAPE, "dist %s: grid of %d heads x %d q x %d kv; their product must be the rank count, %d", name,
             g->heads, g->q, g->kv, p->ranks);
  GA_REQUIRE(g->heads <= p->q_heads, GA_ERR_SHAPE, "dist %s: %d groups of heads; must be 1 to q_heads, %d", name,
             g->heads, p->q_heads);
  GA_REQUIRE(g->kv_inner >= 1 && g->kv % g->kv_inner == 0, GA_ERR_SHAPE, "dist %s: kv_inner is %d; must divide kv, %d",
             name, g->kv_inner, g->kv);
  GA_REQUIRE(p->table == DIST_PRODUCT || (g->heads == 1 && g->q == 1), GA_ERR_SHAPE,
             "dist %s: grid of %d heads x %d q; must be 1 x 1", name, g->heads, g->q);
  const int32_t heads = dist_heads_of_rank(p);
  GA_REQUIRE(g->groups >= 1 && g->groups <= GATHER_MOST_GROUPS && heads % g->groups == 0, GA_ERR_SHAPE,
             "dist %s: %d groups of heads; must be 1 to %d and divide kv_heads%s, %d", name, g->groups,
             GATHER_MOST_GROUPS, p->splits_heads ? " of a rank" : "", heads);
  return check_choices(name, g, p->table != DIST_PRODUCT);
}

ga_status dist_method_fill(const char *name, const ga_dist_grid *asked, dist_problem *p) {
  const method *m = method_of(name);
  if (!m) {
    const ga_quoted q = ga_quote(name ? name : "", name ? strlen(name) : 0);
    return ga_fail(GA_ERR_ARG,
                   "dist: method is '%s'; allowed: ring, striped, zigzag, zigzag-direct, double-ring, distflash, "
                   "balanced, llama3, mesh, "
                   "wallfacer, attention2d, ulysses, usp, burst, tokenring, pass-q, tree",
                   q.text);
  }
  const pass_params *pass = p->flags & GA_DIST_BACKWARD ? &m->backward : &m->forward;
  ga_dist_grid *g = &p->grid;
  *g = *asked;
  const int32_t given[4] = {g->heads, g->q, g->kv, g->kv_inner};
  for (int i = 0; i < 4; i++)
    GA_REQUIRE(given[i] >= 0 && given[i] <= p->ranks, GA_ERR_SHAPE, "dist %s: grid has %d; must be 0 to %d ranks", name,
               given[i], p->ranks);
  p->table = m->table;
  cut_grid(p, pass->cut, g);
  g->kv_inner = or_else(g->kv_inner, m->two_level ? square_side(g->kv) : g->kv);
  g->move_q = or_else(g->move_q, pass->move_q);
  g->move_kv = or_else(g->move_kv, pass->move_kv);
  g->move_out = or_else(g->move_out, pass->move_out);
  g->move_dkv = or_else(g->move_dkv, pass->move_dkv);
  /* Of packed documents a rank that gathers keys sees few of the others'. */
  p->splits_heads = dist_may_split_heads(p);
  const bool few = dist_gathers(p) && p->kv->documents > 1 && m->need == ALL;
  g->need = or_else(g->need, few ? STRETCHES : p->window && m->need == ALL ? BLOCKS : m->need);
  g->prefetch = or_else(g->prefetch, m->prefetch);
  g->groups = or_else(g->groups, dist_is_plain(p) ? dist_gather_groups(p) : 1);
  return check_grid_of_method(name, p);
}
