/* Clusters: the barrier (PTX ISA 9.7.13.4), shared memory of other blocks, and the rule that a block outlives all
 * accesses to its own. */
#include <stdlib.h>
#include <string.h>

#include "emu/shadow.h"

struct emu_remote {
  uint32_t clock;
  uint16_t site;
};

void emu_remote_access(emu_block *b, emu_thread *t) {
  if (b == t->block) return;
  if (b->n_done == b->n_threads)
    emu_report(EMU_RULE_EXIT, t->at, "block %d, whose shared memory this is, has ended", b->index);
  if (!emu_opt.checks) return;
  if (!b->remote) b->remote = calloc((size_t)(emu_now.n_blocks * b->n_threads), sizeof *b->remote);
  if (!b->remote) abort();
  b->remote[t->agent] = (struct emu_remote){t->own, emu_site_id(t->at)};
}

/* It does not matter whether the access came first this time: something must order it before the end. */
void emu_remote_exit(emu_block *b) {
  emu_clocks *seen = emu_gather_take(&b->at_end);
  for (int i = 0; b->remote && i < emu_now.n_blocks * b->n_threads; i++)
    if (b->remote[i].clock > seen->at[i])
      emu_report(EMU_RULE_EXIT, emu_site_of(b->remote[i].site),
                 "block %d has ended and nothing orders its end behind this access to its shared memory by %s",
                 b->index, emu_agent_text((uint16_t)i));
  emu_clocks_drop(seen);
  free(b->remote);
  b->remote = NULL;
}

void emu_cluster_arrive(EMU_SITE) {
  emu_thread *t = emu_begin("barrier.cluster.arrive", file, line);
  emu_named *b = &emu_now.cluster;
  if (t->cluster_arrived) {
    emu_report(EMU_RULE_OVER_ARRIVAL, t->at,
               "thread %d arrives twice at the cluster's barrier; it has not waited in between", t->tid);
    emu_stop();
  }
  t->cluster_arrived = true;
  if (!b->count) b->at = t->at;
  b->n = emu_now.n_blocks * t->block->n_threads;
  t->cluster_round = emu_now.cluster_round;
  emu_release_to(&b->gather, t);
  if (++b->count < b->n) return;
  b->count = 0;
  emu_clocks_drop(b->out);
  b->out = emu_gather_take(&b->gather);
  emu_now.cluster_round++;
  emu_wake_all(&b->waiters);
}

void emu_cluster_wait(EMU_SITE) {
  emu_thread *t = emu_begin("barrier.cluster.wait", file, line);
  emu_named *b = &emu_now.cluster;
  if (!t->cluster_arrived) {
    emu_report(EMU_RULE_BARRIER_ARGS, t->at, "thread %d waits at the cluster's barrier and has not arrived", t->tid);
    emu_stop();
  }
  /* Nobody can finish another round before this thread has waited for this one. */
  while (emu_now.cluster_round == t->cluster_round) emu_wait_in(&b->waiters, EMU_AT_CLUSTER);
  t->cluster_arrived = false;
  emu_acquire(t, b->out);
}

int emu_cluster_rank(void) { return emu_me->block->rank; }

/* --- shared memory of the cluster: addresses carry the block's rank + 1 above bit 24 --- */

uint32_t emu_cluster_address(uint32_t a, uint32_t rank) { return (a & 0xffffff) | (rank + 1) << 24; }

emu_block *emu_cluster_block(uint32_t address, uint32_t *local, emu_site at) {
  uint32_t rank = (address >> 24) - 1;
  *local = address & 0xffffff;
  if (address >> 24 == 0) return emu_me->block; /* the window of the own block lies in that of the cluster */
  if (rank >= (uint32_t)emu_now.n_blocks) {
    emu_report(EMU_RULE_BOUNDS, at, "shared memory of block %u of a cluster of %d", rank, emu_now.n_blocks);
    emu_stop();
  }
  emu_block *b = &emu_now.blocks[rank];
  emu_remote_access(b, emu_me);
  return b;
}

void emu_lds_cluster(void *r, uint32_t address, int bytes, EMU_SITE) {
  emu_thread *t = emu_begin("ld.shared::cluster", file, line);
  uint32_t a;
  emu_block *b = emu_cluster_block(address, &a, t->at);
  emu_actor actor = emu_actor_of(t);
  if (emu_touch_shared(b, &actor, a, (uint32_t)bytes, EMU_READ))
    memcpy(r, b->smem + a, (size_t)bytes);
  else
    memset(r, 0, (size_t)bytes);
  emu_maybe_yield();
}

void emu_sts_cluster(uint32_t address, const void *x, int bytes, EMU_SITE) {
  emu_thread *t = emu_begin("st.shared::cluster", file, line);
  uint32_t a;
  emu_block *b = emu_cluster_block(address, &a, t->at);
  emu_actor actor = emu_actor_of(t);
  if (emu_touch_shared(b, &actor, a, (uint32_t)bytes, EMU_WRITE)) memcpy(b->smem + a, x, (size_t)bytes);
  emu_maybe_yield();
}
