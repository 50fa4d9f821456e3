#include "model/pass/memory.h"

#include "base/mem.h"
#include "base/status.h"

#define PLACE_ALIGN 256 /* bytes */
#define LIVE_BLOCKS 64

/* Bytes of the arena that values have in common, each after the one before it. */
typedef struct block {
  int64_t offset, bytes;
  int32_t last_read; /* launch */
} block;

typedef struct memory_planner {
  const ga_model_graph *graph;
  ga_program *program;
  memory_rows rows;
  int32_t *last_read; /* [values] the last launch that reads the value or columns of it; -1: none */
  int32_t *block_of;  /* [values] of roots; -1: none */
  int64_t *slot;      /* [values] offset of a pinned value, or of one that a pinned value replaces; -1: none */
  block *blocks;
  int32_t n_blocks;
  int32_t live[LIVE_BLOCKS], n_live; /* blocks that are in use, by offset */
  int64_t scratch;                   /* where it begins */
} memory_planner;

static int64_t value_bytes(const ga_model_graph *graph, value_id v, memory_rows rows) {
  const ga_value *value = &graph->values[v];
  const int64_t n = graph_rows(graph, value->rows, rows.tokens, rows.wanted);
  return (int64_t)ga_round_up((size_t)(n * value->cols) * sizeof(float), PLACE_ALIGN);
}

/* --- pins --- */

/* The last node that reads v or columns of it; -1: none. */
static int32_t last_user(const ga_model_graph *g, value_id v) {
  int32_t last = -1;
  for (int32_t i = g->first_user[v]; i < g->first_user[v + 1]; i++) {
    const ga_node *node = &g->nodes[g->users[i]];
    const int32_t at = node->kind == NODE_SLICE ? last_user(g, node->y) : g->users[i];
    if (at > last) last = at;
  }
  return last;
}

static bool is_pinned(const ga_model_graph *g, value_id v, int32_t first, int32_t end) {
  const int32_t made = g->values[v].producer, read = last_user(g, v);
  if (g->values[v].root != v || made >= end) return false;
  if (v == g->result) return made >= first;
  if (read >= end || (made < first && read >= first)) return true; /* enters or leaves these nodes */
  return made >= first && g->nodes[made].layer < g->n_layers && read >= 0 && g->nodes[read].layer == g->n_layers;
}

ga_status memory_pin_values(const ga_model_graph *graph, int32_t first, int32_t end, memory_rows most,
                            memory_pins *out) {
  *out = (memory_pins){.n = 0};
  for (value_id v = 0; v < graph->n_values; v++) {
    if (!is_pinned(graph, v, first, end)) continue;
    GA_REQUIRE(out->n < MEMORY_PINS, GA_ERR_INTERNAL, "more than %d values pass between parts of the model",
               MEMORY_PINS);
    out->list[out->n++] = (memory_pin){.value = v, .offset = (int64_t)out->bytes};
    out->bytes += (uint64_t)value_bytes(graph, v, most);
  }
  return GA_OK;
}

/* --- when values are read --- */

static void mark_read(memory_planner *m, value_id v, int32_t at) {
  const ga_value *value = &m->graph->values[v];
  const ga_node *maker = &m->graph->nodes[m->graph->values[value->root].producer];
  if (at > m->last_read[v]) m->last_read[v] = at;
  if (maker->kind == NODE_WANTED) mark_read(m, maker->as.wanted.x, at); /* it may be read as a part of x */
}

static void mark_reads(memory_planner *m, const memory_pins *pins) {
  const ga_program *p = m->program;
  value_id in[LAUNCH_READS];
  for (value_id v = 0; v < m->graph->n_values; v++) m->last_read[v] = -1;
  for (int32_t i = 0; i < p->n_launches; i++)
    for (int32_t n = launch_reads(&p->launches[i], in); n > 0; n--) mark_read(m, in[n - 1], i);
  for (int32_t i = 0; i < pins->n; i++) m->last_read[pins->list[i].value] = p->n_launches; /* they stay */
}

/* Columns of x overlap those of v, of the same root. */
static bool overlap(const ga_value *x, const ga_value *v) {
  return x->root == v->root && x->first < v->first + v->cols && v->first < x->first + x->cols;
}

/* y, which launch i writes, may lie where x does: nothing reads these columns later, and launch i reads them as x
 * alone. */
static bool may_replace(const memory_planner *m, int32_t i, value_id x, value_id y) {
  const ga_value *values = m->graph->values;
  value_id in[LAUNCH_READS];
  if (values[x].cols != values[y].cols || values[x].rows != values[y].rows) return false;
  for (value_id v = values[x].root; v < m->graph->n_values; v++)
    if (overlap(&values[x], &values[v]) && m->last_read[v] > i) return false;
  const int32_t n = launch_reads(&m->program->launches[i], in);
  int32_t reads = 0;
  for (int32_t j = 0; j < n; j++) reads += overlap(&values[x], &values[in[j]]);
  return reads == 1;
}

/* --- slots --- */

/* Values that a pinned one replaces, one after the other, lie where it does: residual streams and logits stay where
 * they are. */
static void extend_slots(memory_planner *m) {
  value_id out[LAUNCH_WRITES];
  for (int32_t i = m->program->n_launches - 1; i >= 0; i--) {
    const launch *l = &m->program->launches[i];
    for (int32_t n = launch_writes(l, out); n > 0; n--) {
      const value_id y = out[n - 1], x = m->slot[y] >= 0 ? launch_in_place(l, y) : NO_VALUE;
      if (x != NO_VALUE && m->graph->values[x].root == x && m->slot[x] < 0 && may_replace(m, i, x, y))
        m->slot[x] = m->slot[y];
    }
  }
}

/* --- blocks --- */

static void drop_dead(memory_planner *m, int32_t i) {
  int32_t n = 0;
  for (int32_t j = 0; j < m->n_live; j++)
    if (m->blocks[m->live[j]].last_read >= i) m->live[n++] = m->live[j];
  m->n_live = n;
}

/* The last launch that reads v or columns of it. */
static int32_t family_read(const memory_planner *m, value_id v) {
  int32_t last = -1;
  for (value_id w = v; w < m->graph->n_values; w++)
    if (m->graph->values[w].root == v && m->last_read[w] > last) last = m->last_read[w];
  return last;
}

/* A block for y, which launch i writes, in the first gap that is large enough. */
static ga_status new_block(memory_planner *m, int32_t i, value_id y) {
  const int32_t read = family_read(m, y);
  block b = {.offset = m->scratch, .bytes = value_bytes(m->graph, y, m->rows), .last_read = read > i ? read : i};
  int32_t at = 0;
  GA_REQUIRE(m->n_live < LIVE_BLOCKS, GA_ERR_INTERNAL, "more than %d values are alive at once", LIVE_BLOCKS);
  for (; at < m->n_live; at++) {
    const block *next = &m->blocks[m->live[at]];
    if (b.offset + b.bytes <= next->offset) break;
    b.offset = next->offset + next->bytes;
  }
  for (int32_t j = m->n_live++; j > at; j--) m->live[j] = m->live[j - 1];
  m->live[at] = m->n_blocks;
  m->blocks[m->n_blocks] = b;
  m->block_of[y] = m->n_blocks++;
  m->program->places[y].offset = b.offset;
  if ((uint64_t)(b.offset + b.bytes) > m->program->bytes) m->program->bytes = (uint64_t)(b.offset + b.bytes);
  return GA_OK;
}

/* y lies where x did. */
static void replace(memory_planner *m, value_id x, value_id y) {
  value_place *places = m->program->places;
  const int32_t at = m->block_of[m->graph->values[x].root], read = family_read(m, y);
  places[y] = places[x];
  m->block_of[y] = at;
  if (at >= 0 && read > m->blocks[at].last_read) m->blocks[at].last_read = read;
}

/* Slices lie in their roots. */
static void place_slices(const memory_planner *m, value_id root) {
  value_place *places = m->program->places;
  for (value_id v = root + 1; v < m->graph->n_values; v++)
    if (m->graph->values[v].root == root)
      places[v] = (value_place){.offset = places[root].offset + m->graph->values[v].first * (int64_t)sizeof(float),
                                .stride = places[root].stride};
}

static ga_status place(memory_planner *m, int32_t i, value_id y) {
  const value_id x = launch_in_place(&m->program->launches[i], y);
  if (m->slot[y] >= 0)
    m->program->places[y].offset = m->slot[y];
  else if (x != NO_VALUE && m->slot[x] < 0 && may_replace(m, i, x, y))
    replace(m, x, y);
  else
    GA_TRY(new_block(m, i, y));
  place_slices(m, y);
  return GA_OK;
}

static ga_status place_all(memory_planner *m, const memory_pins *pins) {
  const ga_program *p = m->program;
  value_id out[LAUNCH_WRITES];
  for (value_id v = 0; v < m->graph->n_values; v++) m->slot[v] = m->block_of[v] = -1;
  for (int32_t i = 0; i < pins->n; i++) {
    const memory_pin *pin = &pins->list[i];
    m->slot[pin->value] = p->places[pin->value].offset = pin->offset;
    place_slices(m, pin->value);
  }
  mark_reads(m, pins);
  extend_slots(m);
  for (int32_t i = 0; i < p->n_launches; i++) {
    const int32_t n = launch_writes(&p->launches[i], out);
    drop_dead(m, i);
    for (int32_t j = 0; j < n; j++) GA_TRY(place(m, i, out[j]));
  }
  return GA_OK;
}

ga_status memory_plan(const ga_model_graph *graph, const memory_pins *pins, memory_rows rows, ga_program *program) {
  const size_t values = (size_t)graph->n_values;
  memory_planner m = {.graph = graph, .program = program, .rows = rows, .scratch = (int64_t)pins->bytes};
  void *lists, *blocks = NULL;
  program->bytes = pins->bytes;
  GA_TRY(ga_mem_zalloc(values, 2 * sizeof(int32_t) + sizeof(int64_t), "program", &lists));
  m.slot = lists;
  m.last_read = (int32_t *)(m.slot + values);
  m.block_of = m.last_read + values;
  ga_status status = ga_mem_zalloc(values, sizeof *m.blocks, "program", &blocks);
  m.blocks = blocks;
  if (status == GA_OK) status = place_all(&m, pins);
  ga_mem_free(blocks);
  ga_mem_free(lists);
  return status;
}
