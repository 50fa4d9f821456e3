/* Recorded steps: those in which every sequence generates come in few sizes, and their inputs lie at the places of
 * the size. */
#include "base/status.h"
#include "engine/runner_impl.h"

/* 1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128 ... */
int32_t step_class(int32_t n, int32_t most) {
  int32_t c = 1;
  while (c < n) {
    if (c >= 16 && c + c / 2 >= n) {
      c += c / 2;
      break;
    }
    c *= 2;
  }
  return c < most ? c : most;
}

void step_graphs_drop(runner_stage *stage) {
  step_graphs *g = &stage->graphs;
  for (int i = 0; i < STEP_GRAPHS; i++) {
    ga_graph_destroy(g->entries[i].graph);
    g->entries[i] = (step_graph){0};
  }
}

static bool is_of_size(const step_graph *entry, step_size size) {
  const step_size *s = &entry->size;
  return s->n_seqs == size.n_seqs && s->max_kv == size.max_kv && s->n_samples == size.n_samples &&
         s->draws == size.draws;
}

/* The entry of that size, or the one unused for longest, or an empty one. */
static step_graph *entry_for(step_graphs *g, step_size size) {
  step_graph *oldest = &g->entries[0];
  for (int i = 0; i < STEP_GRAPHS; i++) {
    step_graph *entry = &g->entries[i];
    if (is_of_size(entry, size)) return entry;
    if (entry->last_used < oldest->last_used) oldest = entry;
  }
  return oldest;
}

/* Recordings use the stream's workspace; step_graphs_run watches where that is. */
static ga_status record_into(runner_stage *stage, step_graph *entry, step_run_fn run, void *user) {
  GA_TRY(ga_stream_sync(stage->ctx, NULL)); /* the step before may have the workspace that grows now */
  GA_TRY(ga_graph_begin(stage->ctx, NULL));
  stage->ctx->stream->shares_workspace = true;
  const ga_status status = run(user), ended = ga_graph_end(stage->ctx, NULL, &entry->graph);
  stage->ctx->stream->shares_workspace = false;
  if (status == GA_OK) return ended;
  ga_graph_destroy(entry->graph);
  entry->graph = NULL;
  return status;
}

/* The first step of a size runs op by op, which makes its plans, loads its kernels and lets the workspace grow. */
ga_status step_graphs_run(runner_stage *stage, step_size size, step_run_fn run, void *user) {
  step_graphs *g = &stage->graphs;
  (void)atomic_fetch_add(&g->n_steps, 1);
  if (g->off) return run(user);
  if (g->workspace != ga_workspace_of(stage->ctx->stream)) step_graphs_drop(stage);
  g->workspace = ga_workspace_of(stage->ctx->stream);
  step_graph *entry = entry_for(g, size);
  if (!is_of_size(entry, size)) {
    ga_graph_destroy(entry->graph);
    *entry = (step_graph){0};
    GA_TRY(run(user));
    *entry = (step_graph){.size = size, .last_used = ++g->clock};
    return GA_OK;
  }
  entry->last_used = ++g->clock;
  if (!entry->graph) {
    const ga_status status = record_into(stage, entry, run, user);
    g->off = status == GA_ERR_UNSUPPORTED;
    if (g->off) return run(user);
    GA_TRY(status);
    if (g->workspace !=
        ga_workspace_of(stage->ctx->stream)) { /* it has grown: launches before that have the former one */
      step_graphs_drop(stage);
      return run(user);
    }
  } else {
    (void)atomic_fetch_add(&g->n_replayed, 1);
  }
  return ga_graph_launch(stage->ctx, entry->graph, NULL);
}
