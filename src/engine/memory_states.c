/* Kinds of states: a sequence has a unit of its own, and snapshots are copies of it. */
#include "engine/layer_memory_impl.h"

/* --- snapshots of a sequence --- */

/* The node of the sequence's i-th page. */
static prefix_node *node_of_page(const sequence_memory *sequence, int32_t i) {
  prefix_node *node = sequence->node;
  for (int32_t at = sequence->n_nodes - 1; at > i; at--) node = node->parent;
  return node;
}

static bool has_snapshot(const layer_memory *memory, const sequence_memory *sequence, int32_t n) {
  const int32_t size = memory->options.page_tokens;
  for (int32_t i = 0; i < sequence->n_snapshots; i++)
    if (sequence->snapshots[i].n_tokens == n) return true;
  if (n > sequence->n_nodes * size) return false;
  const prefix_node *node = node_of_page(sequence, n / size - 1);
  for (int32_t k = 0; k < memory->states.n; k++)
    if (!prefix_node_has(node, memory->states.at[k])) return false;
  return true;
}

static void remove_snapshot(layer_memory *memory, sequence_memory *sequence, int32_t i) {
  for (int32_t k = 0; k < memory->states.n; k++)
    memory_unpin_unit(memory, memory->states.at[k], sequence->snapshots[i].unit[memory->states.at[k]]);
  for (sequence->n_snapshots--; i < sequence->n_snapshots; i++) sequence->snapshots[i] = sequence->snapshots[i + 1];
}

/* Removes the snapshot nearest after its predecessor, the earliest of equals: those that stay are spread evenly. */
static bool thin_snapshots(layer_memory *memory, sequence_memory *sequence) {
  int32_t best = -1, least = INT32_MAX, before = 0;
  for (int32_t i = 0; i < sequence->n_snapshots; i++) {
    const int32_t n = sequence->snapshots[i].n_tokens;
    if (n - before < least) least = n - before, best = i;
    before = n;
  }
  if (best < 0) return false;
  remove_snapshot(memory, sequence, best);
  return true;
}

static bool has_free_states(const layer_memory *memory) {
  for (int32_t k = 0; k < memory->states.n; k++)
    if (memory_available(memory, memory->states.at[k]) < 1) return false;
  return true;
}

void layer_memory_snapshot(layer_memory *memory, sequence_memory *sequence, int32_t n) {
  memory_snapshot *last;
  if (!memory->states.n || !sequence->has_state || n < 1 || n % memory->options.page_tokens) return;
  if (has_snapshot(memory, sequence, n) || !memory_can_copy(memory)) return;
  while (sequence->n_snapshots == MEMORY_SNAPSHOTS_MAX || !has_free_states(memory))
    if (!thin_snapshots(memory, sequence)) return;
  last = &sequence->snapshots[sequence->n_snapshots++];
  last->n_tokens = n;
  for (int32_t k = 0; k < memory->states.n; k++) {
    const int32_t kind = memory->states.at[k];
    last->unit[kind] = memory_take_unit(memory, kind);
    memory_add_copy(memory, (unit_copy){kind, UNIT_WITHIN, sequence->state[kind], last->unit[kind]});
  }
  memory_join_snapshots(memory, sequence);
}

bool layer_memory_can_repeat(const layer_memory *memory) { return !memory->states.n; }

void memory_drop_snapshots(layer_memory *memory, sequence_memory *sequence, int32_t n) {
  while (sequence->n_snapshots && sequence->snapshots[sequence->n_snapshots - 1].n_tokens > n)
    remove_snapshot(memory, sequence, sequence->n_snapshots - 1);
}

void memory_join_snapshots(layer_memory *memory, sequence_memory *sequence) {
  const int32_t size = memory->options.page_tokens;
  while (sequence->n_snapshots && sequence->snapshots[0].n_tokens <= sequence->n_nodes * size) {
    const memory_snapshot *first = &sequence->snapshots[0];
    prefix_node *node = node_of_page(sequence, first->n_tokens / size - 1);
    for (int32_t k = 0; k < memory->states.n; k++) {
      const int32_t kind = memory->states.at[k];
      if (node->unit[kind] == MEMORY_NO_UNIT) memory_give_unit(memory, kind, node, first->unit[kind]);
    }
    remove_snapshot(memory, sequence, 0);
  }
}

/* --- states of a sequence --- */

void memory_join_states(layer_memory *memory, sequence_memory *sequence, prefix_node *node) {
  for (int32_t k = 0; k < memory->states.n; k++) {
    const int32_t kind = memory->states.at[k];
    if (node->unit[kind] == MEMORY_NO_UNIT) memory_give_unit(memory, kind, node, sequence->state[kind]);
  }
  node->wanted = true;
}

void memory_load_states(layer_memory *memory, sequence_memory *sequence, const prefix_node *node) {
  for (int32_t k = 0; k < memory->states.n; k++) {
    const int32_t kind = memory->states.at[k], to = memory_take_unit(memory, kind);
    sequence->state[kind] = to;
    if (!node) continue;
    const bool is_here = node->unit[kind] != MEMORY_NO_UNIT;
    memory_add_copy(memory, (unit_copy){kind, is_here ? UNIT_WITHIN : UNIT_FROM_HOST,
                                        is_here ? node->unit[kind] : node->host[kind], to});
  }
  sequence->has_state = memory->states.n > 0;
}

void memory_drop_states(layer_memory *memory, sequence_memory *sequence) {
  memory_drop_snapshots(memory, sequence, 0);
  for (int32_t k = 0; k < memory->states.n && sequence->has_state; k++)
    memory_unpin_unit(memory, memory->states.at[k], sequence->state[memory->states.at[k]]);
  sequence->has_state = false;
}
