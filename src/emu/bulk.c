/* The copy engine (PTX ISA 9.7.9.25): every operation is an agent of its own, queued when issued and performed as late
 * as is legal: when no thread can go on without it. A store has two steps: it reads shared memory, and later writes
 * global memory. */
#include <stdlib.h>
#include <string.h>

#include "emu/shadow.h"
#include "emu/tensor_map.h"

/* LOAD: global to shared memory of the blocks in `mask`. STORE: shared to global memory. SEND: shared memory to that of
 * one block. */
typedef enum kind { LOAD, STORE, SEND } kind;

typedef struct copy {
  kind kind;
  bool tensor;
  int op; /* STORE: EMU_STORE, EMU_ADD_F32, ... */
  emu_tmap map;
  int32_t c[5];
  uint8_t *global;  /* not tensor */
  emu_block *block; /* whose shared memory is read */
  emu_thread *issuer;
  uint32_t smem, mask, bytes, to; /* to: SEND's destination */
  emu_mbar *bars[EMU_MAX_CLUSTER];
  emu_actor actor;
  emu_clocks *clocks;
  uint8_t *data; /* STORE, SEND: what was read; NULL: not yet */
} copy;

static copy *queue; /* [emu_now.n_bulk] */
static size_t capacity;

/* --- boxes: f(offset in the box, global address or NULL when outside, bytes) for runs of 16 bytes at most --- */

static uint32_t box_bytes(const emu_tmap *m) {
  uint32_t n = m->element;
  for (int i = 0; i < m->rank; i++) n *= m->box[i];
  return n;
}

/* The swizzle exchanges 16-byte chunks by address bits: 128 B: 4-6 with 7-9, 64 B: 4-5 with 7-8, 32 B: 4 with 7. */
static uint32_t swizzled(const emu_tmap *m, uint32_t a) {
  uint32_t mask = m->swizzle == 128 ? 7 : m->swizzle == 64 ? 3 : m->swizzle == 32 ? 1 : 0;
  return a ^ ((a >> 7 & mask) << 4);
}

/* Elements of a chunk inside of dimension 0, as a byte range of the chunk; NULL when the row is outside. */
static uint8_t *chunk_at(const copy *o, const uint32_t *i, uint32_t byte, uint32_t *first, uint32_t *end) {
  const emu_tmap *m = &o->map;
  uint8_t *p = m->base;
  for (int d = 1; d < m->rank; d++) {
    int64_t at = (int64_t)o->c[d] + i[d];
    if (at < 0 || at > m->last[d]) return NULL;
    p += (uint64_t)at * m->stride[d - 1];
  }
  int64_t x = (int64_t)o->c[0] * m->element + byte, width = ((int64_t)m->last[0] + 1) * m->element;
  int64_t lo = x < 0 ? -x : 0, hi = x + 16 > width ? width - x : 16;
  if (lo >= hi) return NULL;
  *first = (uint32_t)lo;
  *end = (uint32_t)hi;
  return p + x;
}

typedef void (*chunk_fn)(copy *o, uint32_t offset, uint8_t *global, uint32_t first, uint32_t end);

static void for_chunks(copy *o, chunk_fn f) {
  const emu_tmap *m = &o->map;
  if (!o->tensor) {
    for (uint32_t b = 0; b < o->bytes; b += 16) f(o, b, o->global + b, 0, 16);
    return;
  }
  uint32_t inner = (uint32_t)m->box[0] * m->element, i[5], offset = 0, first = 0, end = 0;
  for (i[4] = 0; i[4] < m->box[4]; i[4]++)
    for (i[3] = 0; i[3] < m->box[3]; i[3]++)
      for (i[2] = 0; i[2] < m->box[2]; i[2]++)
        for (i[1] = 0; i[1] < m->box[1]; i[1]++)
          for (uint32_t b = 0; b < inner; b += 16, offset += 16) {
            uint8_t *p = chunk_at(o, i, b, &first, &end);
            f(o, offset, p, first, end);
          }
}

/* --- the steps --- */

static void load_chunk(copy *o, uint32_t offset, uint8_t *global, uint32_t first, uint32_t end) {
  uint8_t chunk[16];
  uint16_t nan[8];
  for (int i = 0; i < 8; i++) nan[i] = 0x7ff7; /* as an H200 does, for every type */
  memset(chunk, 0, 16);
  if (o->tensor && o->map.nan_fill) memcpy(chunk, nan, 16);
  if (global && emu_touch_global(&o->actor, global + first, end - first, EMU_READ))
    memcpy(chunk + first, global + first, end - first);
  for (int r = 0; r < emu_now.n_blocks; r++) {
    if (!(o->mask >> r & 1)) continue;
    emu_block *b = &emu_now.blocks[r];
    uint32_t a = swizzled(&o->map, o->smem + offset);
    if (emu_touch_shared(b, &o->actor, a, 16, EMU_WRITE)) memcpy(b->smem + a, chunk, 16);
  }
}

static void gather_chunk(copy *o, uint32_t offset, uint8_t *global, uint32_t first, uint32_t end) {
  uint32_t a = swizzled(&o->map, o->smem + offset);
  (void)first, (void)end;
  if (global && emu_touch_shared(o->block, &o->actor, a, 16, EMU_READ))
    memcpy(o->data + offset, o->block->smem + a, 16);
}

/* Whole chunks are stored: what lies behind the tensor's last column in its chunk of 16 bytes is written too, as an
 * H200 does. */
static void store_chunk(copy *o, uint32_t offset, uint8_t *global, uint32_t first, uint32_t end) {
  end = 16;
  if (global && emu_touch_global(&o->actor, global + first, end - first, o->op ? EMU_ATOMIC : EMU_WRITE))
    emu_combine(o->op, global + first, o->data + offset + first, end - first);
}

static void send_chunk(copy *o, uint32_t offset, uint8_t *unused, uint32_t first, uint32_t end) {
  (void)unused, (void)first, (void)end;
  for (int r = 0; r < emu_now.n_blocks; r++) {
    emu_block *b = &emu_now.blocks[r];
    if ((o->mask >> r & 1) && emu_touch_shared(b, &o->actor, o->to + offset, 16, EMU_WRITE))
      memcpy(b->smem + o->to + offset, o->data + offset, 16);
  }
}

static void read_step(copy *o) {
  o->data = malloc(o->bytes);
  if (!o->data) abort();
  if (o->tensor)
    for_chunks(o, gather_chunk);
  else if (emu_touch_shared(o->block, &o->actor, o->smem, o->bytes, EMU_READ))
    memcpy(o->data, o->block->smem + o->smem, o->bytes);
}

/* A waiting issuer looks again; its clocks know of the step that is done. */
static void tell_issuer(copy *o) {
  emu_thread *t = o->issuer;
  if (t->state == EMU_DONE) return;
  emu_acquire(t, o->clocks);
  if (t->state == EMU_AT_BULK) emu_wake(t);
}

static void remove_copy(size_t i) {
  emu_clocks_drop(queue[i].clocks);
  free(queue[i].data);
  queue[i] = queue[--emu_now.n_bulk];
}

/* Shared memory is gone when its block ends. */
static void check_alive(const copy *o) {
  for (int r = 0; r < emu_now.n_blocks; r++)
    if ((o->mask >> r & 1) && emu_now.blocks[r].n_done == emu_now.blocks[r].n_threads)
      emu_report(EMU_RULE_EXIT, o->actor.at, "block %d has ended; this copy still writes its shared memory",
                 emu_now.blocks[r].index);
}

static void complete_copy(copy *o) {
  for (int r = 0; r < emu_now.n_blocks; r++)
    if (o->mask >> r & 1) emu_mbar_complete(o->bars[r], o->bytes, o->clocks);
}

static void carry_out_copy(size_t i) {
  copy *o = &queue[i];
  if (o->kind != STORE) check_alive(o);
  if (o->kind == LOAD) {
    for_chunks(o, load_chunk);
    complete_copy(o);
  } else if (!o->data) {
    read_step(o);
    if (o->kind == SEND) return;
    o->issuer->bulk_reads--;
    tell_issuer(o);
    return;
  } else if (o->kind == SEND) {
    for_chunks(o, send_chunk);
    complete_copy(o);
  } else {
    for_chunks(o, store_chunk);
    o->issuer->bulk_writes--;
    tell_issuer(o);
  }
  remove_copy(i);
}

void emu_bulk_step(void) { carry_out_copy(emu_random((uint32_t)emu_now.n_bulk)); }

void emu_bulk_forget(void) {
  while (emu_now.n_bulk) remove_copy(0);
}

/* Shared memory is gone when the block ends: loads, and reads of stores, must be over. Writes may still be on their
 * way. */
void emu_bulk_exit(void) {
  for (size_t i = 0; i < emu_now.n_bulk; i++)
    if (!queue[i].data)
      emu_report(EMU_RULE_EXIT, queue[i].actor.at, "block %d has ended; this copy still %s its shared memory",
                 queue[i].block->index, queue[i].kind == LOAD ? "writes" : "reads");
    else if (queue[i].kind == SEND)
      emu_report(EMU_RULE_EXIT, queue[i].actor.at, "the blocks have ended; this copy still writes shared memory");
  while (emu_now.n_bulk) carry_out_copy(0);
}

/* --- issuing --- */

static const emu_tmap *checked_map(const void *map, emu_thread *t) {
  const emu_tmap *m = map;
  if ((uintptr_t)map % 64) emu_report(EMU_RULE_TENSOR_MAP, t->at, "the map at %p is not aligned to 64 bytes", map);
  if (m->magic != EMU_TMAP_MAGIC) {
    emu_report(EMU_RULE_TENSOR_MAP, t->at, "the argument is not an encoded tensor map");
    emu_stop();
  }
  emu_tmap_use(map, t);
  return m;
}

void emu_tmap_check(const void *map, EMU_SITE) { (void)checked_map(map, emu_begin("prefetch.tensormap", file, line)); }

/* A new agent that knows what its issuer knows, and its issuer's own steps. */
static copy *enqueue(emu_thread *t, kind k) {
  if (emu_now.n_bulk == capacity) {
    capacity = capacity ? 2 * capacity : 64;
    copy *p = realloc(queue, capacity * sizeof *p);
    if (!p) abort();
    queue = p;
  }
  copy *o = &queue[emu_now.n_bulk++];
  memset(o, 0, sizeof *o);
  int slot = emu_now.next_copy++ % EMU_COPIES;
  uint32_t clock = ++emu_now.copy_clock[slot];
  emu_gather g = {0};
  emu_release_to(&g, t);
  emu_gather_step(&g, (uint32_t)(emu_now.copy0 + slot), clock);
  o->kind = k;
  o->block = t->block;
  o->issuer = t;
  o->clocks = emu_gather_take(&g);
  o->actor = (emu_actor){
      .agent = (uint16_t)(emu_now.copy0 + slot), .async = true, .clock = clock, .seen = o->clocks, .at = t->at};
  return o;
}

static void check_smem(const emu_thread *t, const emu_tmap *m, uint32_t a) {
  uint32_t align = m->swizzle == 128 ? 1024 : m->swizzle == 64 ? 512 : m->swizzle == 32 ? 256 : 128;
  if (a % align)
    emu_report(EMU_RULE_MISALIGNED, t->at, "shared %#x; a box with this swizzle starts at a multiple of %u", a, align);
}

static void set_map(copy *o, emu_thread *t, const void *map, int rank, const int32_t *c) {
  const emu_tmap *m = checked_map(map, t);
  if (m->rank != rank) emu_report(EMU_RULE_TENSOR_MAP, t->at, "%d coordinates for a map of rank %d", rank, m->rank);
  o->map = *m;
  o->tensor = true;
  o->bytes = box_bytes(m);
  memcpy(o->c, c, sizeof o->c);
  if ((int64_t)c[0] * m->element % 16) /* an illegal instruction on an H200 */
    emu_report(EMU_RULE_MISALIGNED, t->at,
               "coordinate 0 is %d elements of %d bytes: a box begins at a multiple of 16 bytes", c[0], m->element);
  for (int i = 0; i < rank && o->kind == STORE; i++)
    if (c[i] < 0)
      emu_report(EMU_RULE_BOUNDS, t->at, "coordinate %d is %d: a store begins inside of the tensor", i,
                 c[i]); /* likewise */
}

static void bind_bars(copy *o, emu_thread *t, uint32_t bar) {
  for (int r = 0; r < EMU_MAX_CLUSTER; r++) {
    if (!(o->mask >> r & 1)) continue;
    if (r >= emu_now.n_blocks) {
      emu_report(EMU_RULE_BOUNDS, t->at, "block %d of a cluster of %d", r, emu_now.n_blocks);
      emu_stop();
    }
    o->bars[r] = emu_mbar_of(&emu_now.blocks[r], bar, t->at);
    emu_mbar_check(o->bars[r], t);
    if (!o->bars[r]->init_fenced)
      emu_report(EMU_RULE_BARRIER_INIT, t->at,
                 "mbarrier %#x: no fence.mbarrier_init after its initialisation: the copy engine need not see it", bar);
  }
}

static void maybe_now(void) {
  if (emu_opt.when == EMU_EARLY) carry_out_copy(emu_now.n_bulk - 1);
}

void emu_bulk_load_tensor(uint32_t dst, const void *map, uint32_t bar, int rank, const int32_t *c, uint32_t mask,
                          EMU_SITE) {
  emu_thread *t = emu_begin("bulk load", file, line);
  (void)checked_map(map, t);
  copy *o = enqueue(t, LOAD);
  set_map(o, t, map, rank, c);
  check_smem(t, &o->map, dst);
  o->smem = emu_own_address(t->block, dst);
  o->mask = mask ? mask : 1u << t->block->rank;
  bind_bars(o, t, bar);
  maybe_now();
}

static void maybe_read_and_write_now(void) {
  if (emu_opt.when != EMU_EARLY) return;
  carry_out_copy(emu_now.n_bulk - 1);
  carry_out_copy(emu_now.n_bulk - 1);
}

static void count_store(emu_thread *t) {
  t->bulk_open++;
  t->bulk_reads++;
  t->bulk_writes++;
  maybe_read_and_write_now();
}

/* What a reduction does with elements of the map's type. */
static int reduction_of(const emu_tmap *m, emu_site at) {
  enum { UINT32 = 2, INT32 = 3, FLOAT16 = 6, FLOAT32 = 7, BFLOAT16 = 9 };
  switch (m->type) {
  case UINT32:
  case INT32: return EMU_ADD_I32;
  case FLOAT16: return EMU_ADD_F16;
  case FLOAT32: return EMU_ADD_F32;
  case BFLOAT16: return EMU_ADD_BF16;
  default: emu_report(EMU_RULE_TENSOR_MAP, at, "no sums of the map's type %d", m->type); return EMU_STORE;
  }
}

void emu_bulk_store_tensor(int add, const void *map, uint32_t src, int rank, const int32_t *c, EMU_SITE) {
  emu_thread *t = emu_begin(add ? "bulk add" : "bulk store", file, line);
  (void)checked_map(map, t);
  copy *o = enqueue(t, STORE);
  set_map(o, t, map, rank, c);
  check_smem(t, &o->map, src);
  o->op = add ? reduction_of(&o->map, t->at) : EMU_STORE;
  o->smem = emu_own_address(t->block, src);
  count_store(t);
}

static void check_copy_bytes(const emu_thread *t, uint32_t shared, uintptr_t other, uint32_t bytes) {
  if (shared % 16 || other % 16 || bytes % 16)
    emu_report(EMU_RULE_MISALIGNED, t->at, "shared %#x, the other side %#llx, %u bytes: all multiples of 16", shared,
               (unsigned long long)other, bytes);
}

void emu_bulk_load(uint32_t dst, const void *src, uint32_t bytes, uint32_t bar, EMU_SITE) {
  emu_thread *t = emu_begin("bulk load", file, line);
  check_copy_bytes(t, dst, (uintptr_t)src, bytes);
  copy *o = enqueue(t, LOAD);
  o->global = (uint8_t *)(uintptr_t)src;
  o->bytes = bytes;
  o->smem = emu_own_address(t->block, dst);
  o->mask = 1u << t->block->rank;
  bind_bars(o, t, bar);
  maybe_now();
}

void emu_bulk_store(int op, void *dst, uint32_t src, uint32_t bytes, EMU_SITE) {
  emu_thread *t = emu_begin(op ? "bulk reduction" : "bulk store", file, line);
  check_copy_bytes(t, src, (uintptr_t)dst, bytes);
  copy *o = enqueue(t, STORE);
  o->op = op;
  o->smem = emu_own_address(t->block, src);
  o->global = dst;
  o->bytes = bytes;
  count_store(t);
}

/* Destination and mbarrier of a copy to another block. Known before the copy is enqueued, so that whoever sees its end
 * sees this access, too. */
typedef struct target {
  uint32_t to, bar, mask;
} target;

static target copy_target(emu_thread *t, uint32_t dst, uint32_t bar) {
  target g;
  emu_block *b = emu_cluster_block(dst, &g.to, t->at);
  if (emu_cluster_block(bar, &g.bar, t->at) != b) {
    emu_report(EMU_RULE_BARRIER_ARGS, t->at, "the mbarrier is not in the block that is written");
    emu_stop();
  }
  g.mask = 1u << b->rank;
  return g;
}
static void set_target(copy *o, emu_thread *t, const target *g) {
  o->to = g->to;
  o->mask = g->mask;
  bind_bars(o, t, g->bar);
}

void emu_bulk_send(uint32_t dst, uint32_t src, uint32_t bytes, uint32_t bar, EMU_SITE) {
  emu_thread *t = emu_begin("bulk copy to the cluster", file, line);
  check_copy_bytes(t, src, dst, bytes);
  const target g = copy_target(t, dst, bar);
  copy *o = enqueue(t, SEND);
  o->smem = emu_own_address(t->block, src);
  o->bytes = bytes;
  set_target(o, t, &g);
  maybe_now();
  if (emu_opt.when == EMU_EARLY) carry_out_copy(emu_now.n_bulk - 1);
}

/* A store that comes later, like a copy of what is in registers; an ordinary access. */
void emu_sts_async(uint32_t dst, const void *x, int bytes, uint32_t bar, EMU_SITE) {
  emu_thread *t = emu_begin("st.async", file, line);
  const target g = copy_target(t, dst, bar);
  copy *o = enqueue(t, SEND);
  o->bytes = (uint32_t)bytes;
  o->actor.async = false;
  o->data = malloc((size_t)bytes);
  if (!o->data) abort();
  memcpy(o->data, x, (size_t)bytes);
  set_target(o, t, &g);
  maybe_now();
}

void emu_bulk_commit(EMU_SITE) { emu_begin("bulk commit", file, line)->bulk_open = 0; }

void emu_bulk_wait(int reads_only, EMU_SITE) {
  emu_thread *t = emu_begin(reads_only ? "bulk wait read" : "bulk wait", file, line);
  if (t->bulk_open)
    emu_report(EMU_RULE_EXIT, t->at, "%d bulk stores are in no committed group: this does not wait for them",
               t->bulk_open);
  while (reads_only ? t->bulk_reads : t->bulk_writes) emu_block_here(EMU_AT_BULK);
}

void emu_fence_async(EMU_SITE) {
  emu_thread *t = emu_begin("fence.proxy.async", file, line);
  t->mark[EMU_LOADED] = t->mark[EMU_FENCED_SHARED] = t->own++; /* a MEMBAR goes before it */
}

void emu_fence_async_global(EMU_SITE) {
  emu_thread *t = emu_begin("fence.proxy.async.global", file, line);
  t->mark[EMU_FENCED_GLOBAL] = t->own++;
}
