/* Stretches (ga/attn.h) on the host: functions that wait until a stretch of keys is ready, and find the keys that a
 * query sees. */
#ifndef GA_OPDEF_ATTN_STRETCH_H
#define GA_OPDEF_ATTN_STRETCH_H

#include <sched.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "ga/attn.h"

/* number of reads of a ready word before a wait fails, if io.ready_polls is 0 */
#define GA_ATTN_READY_POLLS ((int64_t)1 << 22)

/* Waits until the ready word of stretch i of the keys has the stretch's value. If the wait fails, *io->ready_error
 * becomes i + 1. */
static inline void ga_attn_wait_ready(const ga_attn_io *io, int i) {
  const ga_attn_stretch *s = &io->kv_stretches[i];
  if (!s->ready || !s->rows) return;
  const _Atomic uint32_t *word = (const _Atomic uint32_t *)(io->ready + s->ready_word);
  for (int64_t left = io->ready_polls ? io->ready_polls : GA_ATTN_READY_POLLS; left > 0; left--) {
    if (atomic_load_explicit(word, memory_order_acquire) >= s->ready) return;
    (void)sched_yield();
  }
  *io->ready_error = i + 1;
}

/* Writes the range [*begin, *end) of keys that a query at `position` of `document` sees. Keys are numbered through all
 * stretches. For later positions neither bound is smaller, even if a query sees no key. */
static inline void ga_attn_stretch_keys(const ga_attn_desc *d, const ga_attn_stretch *kv, int32_t document,
                                        int64_t position, int64_t *begin, int64_t *end) {
  const int64_t from = d->window ? position - d->window + 1 : 0;
  *begin = *end = 0;
  for (int i = 0; i < d->kv_stretches && kv[i].document <= document; i++) {
    const bool own = kv[i].document == document, all = !own || !(d->flags & GA_ATTN_CAUSAL);
    *begin += own ? ga_max_i64(0, ga_min_i64(from - kv[i].position, kv[i].rows)) : kv[i].rows;
    *end += all ? kv[i].rows : ga_max_i64(0, ga_min_i64(position + 1 - kv[i].position, kv[i].rows));
  }
}

#endif
