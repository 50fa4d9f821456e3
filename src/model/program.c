#include "model/program.h"

#include "base/mem.h"
#include "base/status.h"
#include "model/graph_op.h"

static void list_value(value_id *v, int32_t *n, value_id id) {
  if (id != NO_VALUE) v[(*n)++] = id;
}

int32_t launch_reads(const launch *l, value_id v[LAUNCH_READS]) {
  int32_t n = 0;
  switch (l->kind) {
  case LAUNCH_EMBED: break;
  case LAUNCH_ADD:
    list_value(v, &n, l->as.add.x);
    list_value(v, &n, l->as.add.b);
    list_value(v, &n, l->as.add.factors);
    break;
  case LAUNCH_NORM:
    list_value(v, &n, l->as.norm.node.x);
    list_value(v, &n, l->as.norm.residual);
    break;
  case LAUNCH_PRODUCT:
    list_value(v, &n, l->as.product.x);
    list_value(v, &n, l->as.product.gate);
    list_value(v, &n, l->as.product.residual);
    break;
  case LAUNCH_ACT:
    list_value(v, &n, l->as.act.x);
    list_value(v, &n, l->as.act.gate);
    break;
  case LAUNCH_ROPE: list_value(v, &n, l->as.rope.node.x); break;
  case LAUNCH_STORE:
    list_value(v, &n, l->as.store.k);
    list_value(v, &n, l->as.store.v);
    if (l->as.store.rotates) list_value(v, &n, l->as.store.q);
    break;
  case LAUNCH_ATTENTION:
    list_value(v, &n, l->as.attention.node.q);
    if (l->as.attention.node.has_memory) break;
    list_value(v, &n, l->as.attention.node.k);
    list_value(v, &n, l->as.attention.node.v);
    break;
  case LAUNCH_WANTED: list_value(v, &n, l->as.wanted.x); break;
  case LAUNCH_ALL_REDUCE: list_value(v, &n, l->as.all_reduce.x); break;
  case LAUNCH_ROUTE: list_value(v, &n, l->as.route.node.x); break;
  case LAUNCH_EXPERT_IN:
    list_value(v, &n, l->as.expert_in.node.x);
    list_value(v, &n, l->as.expert_in.node.route);
    break;
  case LAUNCH_EXPERT_OUT:
    list_value(v, &n, l->as.expert_out.node.x);
    list_value(v, &n, l->as.expert_out.node.route);
    list_value(v, &n, l->as.expert_out.residual);
    break;
  case LAUNCH_OP:
    while (n < l->as.op.node.op->n_inputs) list_value(v, &n, l->as.op.node.x[n]);
    break;
  }
  return n;
}

int32_t launch_writes(const launch *l, value_id v[LAUNCH_WRITES]) {
  int32_t n = 0;
  switch (l->kind) {
  case LAUNCH_EMBED: list_value(v, &n, l->as.embed.y); break;
  case LAUNCH_ADD: list_value(v, &n, l->as.add.y); break;
  case LAUNCH_NORM: list_value(v, &n, l->as.norm.y); break;
  case LAUNCH_PRODUCT:
    for (int32_t i = 0; i < (l->as.product.is_gated ? 1 : l->as.product.n_matrices); i++)
      list_value(v, &n, l->as.product.matrix[i].y);
    list_value(v, &n, l->as.product.sum);
    break;
  case LAUNCH_ACT: list_value(v, &n, l->as.act.y); break;
  case LAUNCH_ROPE: list_value(v, &n, l->as.rope.y); break;
  case LAUNCH_STORE:
    if (l->as.store.rotates) list_value(v, &n, l->as.store.q_rotated);
    break;
  case LAUNCH_ATTENTION: list_value(v, &n, l->as.attention.y); break;
  case LAUNCH_WANTED: list_value(v, &n, l->as.wanted.y); break;
  case LAUNCH_ALL_REDUCE: list_value(v, &n, l->as.all_reduce.y); break;
  case LAUNCH_ROUTE: list_value(v, &n, l->as.route.y); break;
  case LAUNCH_EXPERT_IN: list_value(v, &n, l->as.expert_in.y); break;
  case LAUNCH_EXPERT_OUT: list_value(v, &n, l->as.expert_out.y); break;
  case LAUNCH_OP: list_value(v, &n, l->as.op.y); break;
  }
  return n;
}

value_id launch_in_place(const launch *l, value_id y) {
  switch (l->kind) {
  case LAUNCH_ADD: return l->as.add.x;
  case LAUNCH_NORM: return l->as.norm.residual != NO_VALUE ? l->as.norm.residual : l->as.norm.node.x;
  case LAUNCH_PRODUCT:
    return l->as.product.n_matrices == 1 && y == l->as.product.matrix[0].y && l->as.product.add_norm.id == W_NONE
               ? l->as.product.residual
               : NO_VALUE;
  case LAUNCH_ACT: return l->as.act.x;
  case LAUNCH_ALL_REDUCE: return l->as.all_reduce.x;
  case LAUNCH_ROPE: return l->as.rope.node.x;
  case LAUNCH_STORE: return l->as.store.q;
  case LAUNCH_EXPERT_OUT: return l->as.expert_out.residual;
  case LAUNCH_EMBED:
  case LAUNCH_ATTENTION:
  case LAUNCH_WANTED:
  case LAUNCH_ROUTE:
  case LAUNCH_EXPERT_IN:
  case LAUNCH_OP: break;
  }
  return NO_VALUE;
}

void program_destroy(ga_program *program) {
  if (!program) return;
  ga_mem_free(program->launches);
  ga_mem_free(program->places);
  ga_mem_free(program);
}
