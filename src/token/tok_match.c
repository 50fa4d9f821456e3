#include "token/tok_match.h"

#include <string.h>

#include "base/abort.h"
#include "base/status.h"

#define POLL_BYTES ((size_t)1 << 16) /* between two looks at the abort callback */

ga_status tok_matcher_init(tok_matcher *m, ga_arena *arena, size_t n_bytes) {
  void *states;
  GA_REQUIRE(n_bytes < INT32_MAX, GA_ERR_FORMAT, "tokenizer: special tokens of %zu bytes; at most %d", n_bytes,
             INT32_MAX - 1);
  GA_TRY(ga_arena_alloc(arena, (n_bytes + 1) * sizeof(tok_state), &states));
  *m = (tok_matcher){.states = states, .n_states = 1};
  m->states[0] = (tok_state){.token = -1};
  return GA_OK;
}

static int32_t child_of(const tok_matcher *m, int32_t state, uint8_t byte) {
  if (!state) return m->first[byte];
  int32_t c = m->states[state].child;
  while (c && m->states[c].byte != byte) c = m->states[c].sibling;
  return c;
}

static int32_t add_child(tok_matcher *m, int32_t state, uint8_t byte) {
  const int32_t c = m->n_states++;
  tok_state *parent = &m->states[state];
  m->states[c] = (tok_state){.sibling = parent->child, .token = -1, .depth = parent->depth + 1, .byte = byte};
  parent->child = c;
  if (!state) m->first[byte] = c;
  return c;
}

void tok_matcher_add(tok_matcher *m, const char *text, uint32_t bytes, int32_t token) {
  int32_t state = 0;
  for (uint32_t i = bytes; i-- > 0;) {
    const int32_t c = child_of(m, state, (uint8_t)text[i]);
    state = c ? c : add_child(m, state, (uint8_t)text[i]);
  }
  m->states[state].token = token;
}

static int32_t step_state(const tok_matcher *m, int32_t state, uint8_t byte) {
  for (;;) {
    const int32_t c = child_of(m, state, byte);
    if (c || !state) return c;
    state = m->states[state].fail;
  }
}

/* Breadth first, so that a state's `fail`, which is shorter, is known before it. */
ga_status tok_matcher_finish(tok_matcher *m) {
  void *p;
  GA_TRY(ga_mem_alloc((size_t)m->n_states * sizeof(int32_t), "special tokens", &p));
  int32_t *queue = p, ahead = 1;
  queue[0] = 0;
  for (int32_t i = 0; i < ahead; i++) {
    for (int32_t c = m->states[queue[i]].child; c; c = m->states[c].sibling) {
      tok_state *s = &m->states[c];
      s->fail = queue[i] ? step_state(m, m->states[queue[i]].fail, s->byte) : 0;
      s->shorter = m->states[s->fail].token >= 0 ? s->fail : m->states[s->fail].shorter;
      queue[ahead++] = c;
    }
  }
  ga_mem_free(p);
  return GA_OK;
}

static ga_status append_match(tok_matches *out, size_t at, int32_t token) {
  if (out->count == out->capacity) {
    const size_t capacity = out->capacity ? 2 * out->capacity : 64;
    void *bigger;
    GA_TRY(ga_mem_alloc(capacity * sizeof(tok_match), "special tokens of a text", &bigger));
    if (out->count) memcpy(bigger, out->list, out->count * sizeof(tok_match));
    ga_mem_free(out->list);
    out->list = bigger;
    out->capacity = capacity;
  }
  out->list[out->count++] = (tok_match){(uint32_t)at, token};
  return GA_OK;
}

ga_status tok_matcher_run(const tok_matcher *m, const uint8_t *text, size_t bytes, tok_allows allows, void *arg,
                          tok_matches *out) {
  int32_t state = 0;
  *out = (tok_matches){0};
  for (size_t at = bytes; at-- > 0;) {
    ga_status status = at % POLL_BYTES ? GA_OK : ga_abort_poll("tokenize");
    state = step_state(m, state, text[at]);
    int32_t s = m->states[state].token >= 0 ? state : m->states[state].shorter;
    while (s && !allows(arg, m->states[s].token, at, m->states[s].depth)) s = m->states[s].shorter;
    if (s && status == GA_OK) status = append_match(out, at, m->states[s].token);
    if (status != GA_OK) {
      ga_mem_free(out->list);
      *out = (tok_matches){0};
      return status;
    }
  }
  return GA_OK;
}
