#include "model/expert_cache.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"
#include "ga/gemm.h"
#include "model/expert_lru.h"
#include "model/promote.h"

enum { MATRICES = 3, LOADS = 4, MOST_TYPES = 16 };
enum { STREAM_ROWS = 4 /* rows an expert, from which on experts are streamed where that is faster */ };
#define READ_PIECE ((uint64_t)256 << 10) /* bytes that a thread reads at once */

static const weight_id matrix_ids[MATRICES] = {W_GATE_EXPERTS, W_UP_EXPERTS, W_DOWN_EXPERTS};
static const weight_id bias_ids[MATRICES] = {W_GATE_EXPERTS_B, W_UP_EXPERTS_B, W_DOWN_EXPERTS_B};

/* Layers whose experts have the same types: one expert of them, and the slots that they share. */
typedef struct layer_type {
  ga_weight matrix[MATRICES]; /* one expert's; data: the slots */
  uint64_t native[MATRICES];  /* bytes of a matrix in the file */
  uint64_t held[MATRICES];    /* bytes of a matrix in a slot */
  int32_t n_layers, n_slots;
  expert_lru *lru; /* keys: number of the layer among those of the type, times n_experts, plus the expert */
} layer_type;

typedef enum load_state { LOAD_FREE, LOAD_WANTED, LOAD_READ, LOAD_COPIED } load_state;

/* The load of an expert into a slot. The reading thread takes it from WANTED to READ; all else is the context's
 * thread's. */
typedef struct expert_load {
  load_state state;
  int32_t layer, expert, slot;
  ga_status status; /* of reading */
  char *host;       /* page-locked */
  char *staged;     /* on the device, in the file's layout */
  ga_event *done;
} expert_load;

struct expert_cache {
  const ga_model *model;
  ga_ctx *ctx;
  ga_stream *stream;
  ga_event *used;   /* products enqueued so far may use slots that are loaded next */
  ga_event *copied; /* the last copy of slots_host */
  bool copies;      /* `copied` has been recorded by this layer's expert_cache_begin */
  int32_t first, end, n_types;
  layer_type types[MOST_TYPES];
  int8_t *type_of;    /* [end - first] -1: the layer has no experts */
  int32_t *first_key; /* [end - first] key of the layer's expert 0 */
  int32_t n_experts;
  int32_t *slots_host, *slots; /* [end - first, n_experts] page-locked, and on the device */
  int32_t *on_host;            /* [end - first, n_experts] */
  bool *is_stale;              /* [end - first] slots_host has changed since its copy */
  float **bias;                /* [end - first, MATRICES] on the device */
  uint64_t bytes, load_bytes;
  expert_load loads[LOADS];
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t wanted;
  bool has_lock, has_thread, stops;
  atomic_ullong lookups, hits, n_loads, used_slots;
  expert_streaming streaming;
  double cpu_row, stream_byte; /* seconds of the CPU for a row, and of a load for a byte; 0: not measured yet */
};

/* --- types of layers --- */

/* Describes one expert's matrix on ctx: as it is in a slot. bytes_of: of a matrix in the file, and in a slot. */
static ga_status describe_matrix(const ga_model *model, ga_ctx *ctx, weight_id id, int32_t layer, ga_weight *out,
                                 uint64_t *native, uint64_t *held) {
  char name[GA_WEIGHT_NAME_BYTES];
  const ga_model_tensor *t = ga_model_file_find(model->file, ga_weight_name(id, layer, name));
  GA_REQUIRE(t, GA_ERR_FORMAT, "tensor %s is missing", name);
  GA_REQUIRE(ga_table_dtype(t) == t->view.dtype, GA_ERR_UNSUPPORTED,
             "expert_cache: %s is %s, which becomes %s when it is loaded; the cache takes experts as the file has them",
             name, ga_dtype_name(t->view.dtype), ga_dtype_name(ga_table_dtype(t)));
  *out = ga_weight_of(&model->hparams, id, layer, t->view.dtype);
  const int64_t rows = ga_weight_rows(out), cols = ga_weight_cols(out);
  const bool packs = ga_weight_pack_rows(out) > 0;
  out->dims[0] = rows, out->dims[1] = cols, out->dims[2] = 0, out->n_dims = 2;
  GA_TRY(ga_dtype_bytes(out->dtype, rows * cols, native));
  *held = *native;
  return packs ? ga_pack_choose(ctx, out->dtype, rows, cols, &out->layout, held) : GA_OK;
}

static bool same_matrix(const ga_weight *a, const ga_weight *b) {
  return a->dtype == b->dtype && a->layout == b->layout && !memcmp(a->dims, b->dims, sizeof a->dims);
}

static bool same_type(const layer_type *a, const layer_type *b) {
  for (int i = 0; i < MATRICES; i++)
    if (!same_matrix(&a->matrix[i], &b->matrix[i])) return false;
  return true;
}

static bool has_stacks(const ga_model *model, int32_t layer) {
  char name[GA_WEIGHT_NAME_BYTES];
  return ga_model_file_find(model->file, ga_weight_name(W_DOWN_EXPERTS, layer, name)) != NULL;
}

/* Finds the types of layers [first, end). type_of may be NULL. */
static ga_status list_types(const ga_model *model, ga_ctx *ctx, int32_t first, int32_t end, layer_type *types,
                            int32_t *n_types, int8_t *type_of) {
  *n_types = 0;
  for (int32_t il = first; il < end; il++) {
    layer_type type = {.n_layers = 1};
    int32_t i = 0;
    if (type_of) type_of[il - first] = -1;
    if (!has_stacks(model, il)) continue;
    for (int m = 0; m < MATRICES; m++)
      GA_TRY(describe_matrix(model, ctx, matrix_ids[m], il, &type.matrix[m], &type.native[m], &type.held[m]));
    while (i < *n_types && !same_type(&types[i], &type)) i++;
    GA_REQUIRE(i < MOST_TYPES, GA_ERR_UNSUPPORTED, "expert_cache: experts of more than %d mixtures of types",
               MOST_TYPES);
    if (i == *n_types)
      types[(*n_types)++] = type;
    else
      types[i].n_layers++;
    if (type_of) type_of[il - first] = (int8_t)i;
  }
  return GA_OK;
}

static uint64_t matrices_bytes(const uint64_t bytes[MATRICES]) { return bytes[0] + bytes[1] + bytes[2]; }

/* Bytes of the device's buffers of loads, and of the table of slots. */
static uint64_t fixed_bytes(const ga_model *model, const layer_type *types, int32_t n_types, int32_t layers,
                            uint64_t *load) {
  *load = 0;
  for (int32_t i = 0; i < n_types; i++)
    if (matrices_bytes(types[i].native) > *load) *load = matrices_bytes(types[i].native);
  *load = ga_round_up(*load, 256);
  return LOADS * *load + (uint64_t)layers * (uint64_t)model->hparams.n_experts * sizeof(int32_t);
}

ga_status expert_cache_bounds(const ga_model *model, ga_ctx *ctx, int32_t first, int32_t end, uint64_t *least,
                              uint64_t *most) {
  layer_type types[MOST_TYPES];
  int32_t n;
  uint64_t load;
  GA_TRY(list_types(model, ctx, first, end, types, &n, NULL));
  *least = *most = fixed_bytes(model, types, n, end - first, &load);
  for (int32_t i = 0; i < n; i++) {
    const uint64_t slot = matrices_bytes(types[i].held);
    *least += slot;
    *most += slot * (uint64_t)types[i].n_layers * (uint64_t)model->hparams.n_experts;
  }
  return GA_OK;
}

/* Divides the bytes among the types, in proportion to what all their experts would take. */
static void share_slots(expert_cache *c, uint64_t bytes) {
  const uint64_t n_experts = (uint64_t)c->n_experts;
  uint64_t all = 0, least = 0;
  for (int32_t i = 0; i < c->n_types; i++) {
    all += matrices_bytes(c->types[i].held) * (uint64_t)c->types[i].n_layers;
    least += matrices_bytes(c->types[i].held);
  }
  const uint64_t spare = bytes > least ? bytes - least : 0; /* each type has one slot already */
  for (int32_t i = 0; i < c->n_types; i++) {
    layer_type *t = &c->types[i];
    const uint64_t slot = matrices_bytes(t->held);
    const double share = (double)spare * (double)(slot * (uint64_t)t->n_layers) / (double)all;
    t->n_slots = (int32_t)ga_min_u64(1 + (uint64_t)(share / (double)slot), (uint64_t)t->n_layers * n_experts);
  }
}

/* --- the thread that reads --- */

static ga_status read_expert(const expert_cache *c, const expert_load *load) {
  const layer_type *t = &c->types[c->type_of[load->layer - c->first]];
  char name[GA_WEIGHT_NAME_BYTES];
  char *to = load->host;
  for (int m = 0; m < MATRICES; m++) {
    const ga_model_tensor *tensor =
        ga_model_file_find(c->model->file, ga_weight_name(matrix_ids[m], load->layer, name));
    GA_TRY(ga_model_file_read(c->model->file, tensor, (uint64_t)load->expert * t->native[m], to, t->native[m]));
    to += t->native[m];
  }
  return GA_OK;
}

static expert_load *load_in(expert_cache *c, load_state state) {
  for (int i = 0; i < LOADS; i++)
    if (c->loads[i].state == state) return &c->loads[i];
  return NULL;
}

static void *serve_loads(void *user) {
  expert_cache *c = user;
  (void)pthread_mutex_lock(&c->lock);
  for (;;) {
    expert_load *load = load_in(c, LOAD_WANTED);
    if (c->stops) break;
    if (!load) {
      (void)pthread_cond_wait(&c->wanted, &c->lock);
      continue;
    }
    (void)pthread_mutex_unlock(&c->lock);
    const ga_status status = read_expert(c, load);
    (void)pthread_mutex_lock(&c->lock);
    if (status != GA_OK) ga_log(GA_LOG_WARN, "expert cache: %s", ga_error_text());
    load->status = status;
    load->state = LOAD_READ;
  }
  (void)pthread_mutex_unlock(&c->lock);
  return NULL;
}

/* --- creation --- */

/* Checks that packed matrices lie one after the other in a packed stack. */
static ga_status check_packed_slots(const expert_cache *c, const layer_type *t, int m) {
  const ga_weight *w = &t->matrix[m];
  uint64_t bytes;
  ga_pack_desc d = GA_PACK_DESC_INIT;
  if (w->layout == GA_LAYOUT_NATIVE) return GA_OK;
  d.n = t->n_slots * ga_weight_rows(w);
  d.k = ga_weight_cols(w);
  d.w_dtype = (int32_t)w->dtype;
  d.w_layout = (int32_t)w->layout;
  GA_TRY(ga_pack_bytes(c->ctx, &d, &bytes));
  GA_REQUIRE(bytes == (uint64_t)t->n_slots * t->held[m], GA_ERR_INTERNAL, "expert cache: %d matrices take %llu bytes",
             t->n_slots, (unsigned long long)bytes);
  return GA_OK;
}

static ga_status alloc_slots(expert_cache *c, layer_type *t) {
  for (int m = 0; m < MATRICES; m++) {
    void *p;
    GA_TRY(check_packed_slots(c, t, m));
    GA_TRY(ga_buffer_alloc_for(c->ctx, (uint64_t)t->n_slots * t->held[m], "expert cache", &p));
    t->matrix[m].data = p;
    c->bytes += (uint64_t)t->n_slots * t->held[m];
  }
  return expert_lru_create(t->n_layers * c->n_experts, t->n_slots, EXPERT_LOAD_USES, &t->lru);
}

static ga_status alloc_loads(expert_cache *c) {
  for (int i = 0; i < LOADS; i++) {
    expert_load *load = &c->loads[i];
    void *p;
    GA_TRY(ga_host_alloc(c->ctx, c->load_bytes, &p));
    load->host = p;
    GA_TRY(ga_buffer_alloc_for(c->ctx, c->load_bytes, "expert cache", &p));
    load->staged = p;
    GA_TRY(ga_event_create(c->ctx, &load->done));
  }
  return GA_OK;
}

/* Copies the experts' biases, which the CPU has, to the device. */
static ga_status copy_biases(expert_cache *c) {
  for (int32_t i = 0; i < c->end - c->first; i++)
    for (int m = 0; m < MATRICES && c->type_of[i] >= 0; m++) {
      const weight_ref ref = {.id = bias_ids[m], .layer = c->first + i};
      const ga_weight *bias = ga_weight_at(c->model, ref);
      const uint64_t bytes = (uint64_t)ga_weight_cols(bias) * sizeof(float);
      void *p;
      if (!bias->data) continue;
      GA_TRY(ga_buffer_alloc_for(c->ctx, bytes, "expert cache", &p));
      c->bias[i * MATRICES + m] = p;
      GA_TRY(ga_copy_to_device(c->ctx, p, bias->data, bytes, NULL));
    }
  return GA_OK;
}

static ga_status alloc_tables(expert_cache *c) {
  const size_t layers = (size_t)(c->end - c->first), n = layers * (size_t)c->n_experts;
  int32_t keys[MOST_TYPES] = {0};
  void *p;
  GA_TRY(ga_mem_zalloc(layers, sizeof *c->first_key, "expert cache", &p));
  c->first_key = p;
  GA_TRY(ga_mem_zalloc(layers, sizeof *c->is_stale, "expert cache", &p));
  c->is_stale = p;
  GA_TRY(ga_mem_zalloc(layers * MATRICES, sizeof *c->bias, "expert cache", &p));
  c->bias = p;
  GA_TRY(ga_mem_zalloc(n, sizeof *c->on_host, "expert cache", &p));
  c->on_host = p;
  GA_TRY(ga_host_alloc(c->ctx, n * sizeof(int32_t), &p));
  c->slots_host = p;
  GA_TRY(ga_buffer_alloc_for(c->ctx, n * sizeof(int32_t), "expert cache", &p));
  c->slots = p;
  for (size_t i = 0; i < n; i++) {
    c->on_host[i] = (int32_t)(i % (size_t)c->n_experts);
    c->slots_host[i] = -1;
  }
  for (size_t i = 0; i < layers; i++) {
    c->is_stale[i] = true;
    if (c->type_of[i] < 0) continue;
    c->first_key[i] = keys[c->type_of[i]];
    keys[c->type_of[i]] += c->n_experts;
  }
  return GA_OK;
}

static ga_status start_reading(expert_cache *c) {
  GA_REQUIRE(!pthread_mutex_init(&c->lock, NULL), GA_ERR_NOMEM, "expert cache: no mutex");
  (void)pthread_cond_init(&c->wanted, NULL);
  c->has_lock = true;
  GA_REQUIRE(!pthread_create(&c->thread, NULL, serve_loads, c), GA_ERR_DEVICE, "expert cache: no thread");
  c->has_thread = true;
  return GA_OK;
}

static ga_status build_expert_cache(expert_cache *c, uint64_t bytes) {
  void *p;
  GA_TRY(ga_mem_zalloc((size_t)(c->end - c->first), sizeof *c->type_of, "expert cache", &p));
  c->type_of = p;
  GA_TRY(list_types(c->model, c->ctx, c->first, c->end, c->types, &c->n_types, c->type_of));
  const uint64_t fixed = fixed_bytes(c->model, c->types, c->n_types, c->end - c->first, &c->load_bytes);
  c->bytes = fixed;
  share_slots(c, bytes > fixed ? bytes - fixed : 0);
  for (int32_t i = 0; i < c->n_types; i++) GA_TRY(alloc_slots(c, &c->types[i]));
  GA_TRY(alloc_tables(c));
  GA_TRY(alloc_loads(c));
  GA_TRY(copy_biases(c));
  GA_TRY(ga_stream_create(c->ctx, &c->stream));
  GA_TRY(ga_event_create(c->ctx, &c->used));
  GA_TRY(ga_event_create(c->ctx, &c->copied));
  return start_reading(c);
}

ga_status expert_cache_create(const ga_model *model, ga_ctx *ctx, int32_t first, int32_t end, uint64_t bytes,
                              expert_cache **out) {
  void *p;
  *out = NULL;
  GA_TRY(ga_mem_zalloc(1, sizeof **out, "expert cache", &p));
  expert_cache *c = p;
  c->model = model;
  c->ctx = ctx;
  c->first = first;
  c->end = end;
  c->n_experts = model->hparams.n_experts;
  const ga_status status = build_expert_cache(c, bytes);
  if (status != GA_OK) {
    expert_cache_destroy(c);
    return status;
  }
  *out = c;
  return GA_OK;
}

static void stop_reading(expert_cache *c) {
  if (!c->has_lock) return;
  (void)pthread_mutex_lock(&c->lock);
  c->stops = true;
  (void)pthread_cond_signal(&c->wanted);
  (void)pthread_mutex_unlock(&c->lock);
  if (c->has_thread) (void)pthread_join(c->thread, NULL);
  (void)pthread_cond_destroy(&c->wanted);
  (void)pthread_mutex_destroy(&c->lock);
}

/* Waits for copies that are under way: they read page-locked memory, and write slots. */
static void await_copies(expert_cache *c) {
  if (!load_in(c, LOAD_COPIED)) return;
  const ga_status status = ga_stream_sync(c->ctx, c->stream);
  (void)status; /* a device that is lost copies no more */
}

void expert_cache_destroy(expert_cache *c) {
  if (!c) return;
  stop_reading(c);
  await_copies(c);
  ga_stream_destroy(c->stream);
  ga_event_destroy(c->used);
  ga_event_destroy(c->copied);
  for (int i = 0; i < LOADS; i++) {
    ga_event_destroy(c->loads[i].done);
    ga_buffer_free(c->ctx, c->loads[i].staged);
    ga_host_free(c->ctx, c->loads[i].host);
  }
  for (int32_t i = 0; i < c->n_types; i++) {
    for (int m = 0; m < MATRICES; m++) ga_buffer_free(c->ctx, (void *)(uintptr_t)c->types[i].matrix[m].data);
    expert_lru_destroy(c->types[i].lru);
  }
  for (int32_t i = 0; c->bias && i < (c->end - c->first) * MATRICES; i++) ga_buffer_free(c->ctx, c->bias[i]);
  ga_buffer_free(c->ctx, c->slots);
  ga_host_free(c->ctx, c->slots_host);
  ga_mem_free(c->bias);
  ga_mem_free(c->is_stale);
  ga_mem_free(c->on_host);
  ga_mem_free(c->first_key);
  ga_mem_free(c->type_of);
  ga_mem_free(c);
}

/* --- loads --- */

static layer_type *type_at(expert_cache *c, int32_t layer) { return &c->types[c->type_of[layer - c->first]]; }

/* Notes that expert `expert` of a layer is in a slot, or in none (-1). */
static void note_slot(expert_cache *c, int32_t layer, int32_t expert, int32_t slot) {
  const int64_t at = (int64_t)(layer - c->first) * c->n_experts + expert;
  c->slots_host[at] = slot;
  c->on_host[at] = slot < 0 ? expert : -1;
  c->is_stale[layer - c->first] = true;
}

/* Enqueues the copy of what has been read, and its packing into the slot. */
static ga_status copy_into_slot(expert_cache *c, expert_load *load) {
  const layer_type *t = type_at(c, load->layer);
  uint64_t at = 0;
  load->state = LOAD_COPIED;
  GA_TRY(ga_event_record(c->ctx, c->used, NULL));
  GA_TRY(ga_stream_wait_event(c->ctx, c->stream, c->used));
  for (int m = 0; m < MATRICES; at += t->native[m++]) {
    const ga_weight *w = &t->matrix[m];
    char *slot = (char *)(uintptr_t)w->data + (uint64_t)load->slot * t->held[m];
    const bool is_native = w->layout == GA_LAYOUT_NATIVE;
    char *to = is_native ? slot : load->staged + at;
    GA_TRY(ga_copy_to_device_later(c->ctx, to, load->host + at, t->native[m], c->stream));
    if (is_native) continue;
    ga_pack_desc d = GA_PACK_DESC_INIT;
    d.n = ga_weight_rows(w);
    d.k = ga_weight_cols(w);
    d.w_dtype = (int32_t)w->dtype;
    d.w_layout = (int32_t)w->layout;
    GA_TRY(ga_pack(c->ctx, &d, to, slot, c->stream));
  }
  return ga_event_record(c->ctx, load->done, c->stream);
}

static ga_status advance_load(expert_cache *c, expert_load *load) {
  layer_type *t = type_at(c, load->layer);
  bool done;
  if (load->state == LOAD_READ && load->status != GA_OK) { /* the CPU goes on without the slot */
    expert_lru_drop(t->lru, load->slot);
    load->state = LOAD_FREE;
    return GA_OK;
  }
  if (load->state == LOAD_READ) return copy_into_slot(c, load);
  GA_TRY(load->done->device->ops->event_query(load->done, &done));
  if (!done) return GA_OK;
  expert_lru_arrive(t->lru, load->slot);
  note_slot(c, load->layer, load->expert, load->slot);
  load->state = LOAD_FREE;
  (void)atomic_fetch_add(&c->n_loads, 1);
  (void)atomic_fetch_add(&c->used_slots, 1);
  return GA_OK;
}

/* Takes in what the reading thread and the copies have done. */
static ga_status advance_loads(expert_cache *c) {
  ga_status status = GA_OK;
  (void)pthread_mutex_lock(&c->lock);
  for (int i = 0; i < LOADS && status == GA_OK; i++)
    if (c->loads[i].state == LOAD_READ || c->loads[i].state == LOAD_COPIED) status = advance_load(c, &c->loads[i]);
  (void)pthread_mutex_unlock(&c->lock);
  return status;
}

/* The layer and expert of a key of a type. */
static int32_t layer_of_key(const expert_cache *c, const layer_type *t, int32_t key) {
  for (int32_t i = 0; i < c->end - c->first; i++)
    if (c->type_of[i] >= 0 && &c->types[c->type_of[i]] == t && key >= c->first_key[i] &&
        key < c->first_key[i] + c->n_experts)
      return c->first + i;
  return -1;
}

/* Has the expert loaded, if there is a buffer and a slot for it. Returns whether there is a buffer. */
static bool want_expert(expert_cache *c, int32_t layer, int32_t expert) {
  layer_type *t = type_at(c, layer);
  int32_t evicted;
  expert_load *load = load_in(c, LOAD_FREE);
  if (!load) return false;
  const int32_t slot = expert_lru_admit(t->lru, c->first_key[layer - c->first] + expert, &evicted);
  if (slot < 0) return true;
  if (evicted >= 0) {
    note_slot(c, layer_of_key(c, t, evicted), evicted % c->n_experts, -1);
    (void)atomic_fetch_sub(&c->used_slots, 1);
  }
  load->layer = layer;
  load->expert = expert;
  load->slot = slot;
  load->state = LOAD_WANTED;
  (void)pthread_cond_signal(&c->wanted);
  return true;
}

/* --- streaming: a step waits for all experts of a layer --- */

typedef struct read_job {
  const expert_cache *c;
  const expert_load *load;
  atomic_bool failed;
} read_job;

/* Reads a piece of an expert's three matrices, which follow each other. */
static void read_piece(void *arg, int64_t piece, int thread) {
  (void)thread;
  read_job *job = arg;
  const expert_load *load = job->load;
  const layer_type *t = &job->c->types[job->c->type_of[load->layer - job->c->first]];
  uint64_t at = (uint64_t)piece * READ_PIECE, begin = 0;
  const uint64_t end = ga_min_u64(at + READ_PIECE, matrices_bytes(t->native));
  char name[GA_WEIGHT_NAME_BYTES];
  for (int m = 0; m < MATRICES && at < end; begin += t->native[m++]) {
    if (at >= begin + t->native[m]) continue;
    const ga_model_tensor *tensor =
        ga_model_file_find(job->c->model->file, ga_weight_name(matrix_ids[m], load->layer, name));
    const uint64_t n = ga_min_u64(end, begin + t->native[m]) - at;
    if (ga_model_file_read(job->c->model->file, tensor, (uint64_t)load->expert * t->native[m] + at - begin,
                           load->host + at, n) != GA_OK)
      atomic_store(&job->failed, true);
    at += n;
  }
}

/* Waits for all loads that have begun, so that no slot and no buffer waits for one. */
static ga_status settle_loads(expert_cache *c) {
  for (bool busy = true; busy;) {
    GA_TRY(advance_loads(c));
    (void)pthread_mutex_lock(&c->lock);
    busy = load_in(c, LOAD_WANTED) || load_in(c, LOAD_READ) || load_in(c, LOAD_COPIED);
    const bool reads = load_in(c, LOAD_WANTED) != NULL;
    (void)pthread_mutex_unlock(&c->lock);
    if (reads)
      (void)sched_yield();
    else if (busy)
      GA_TRY(ga_stream_sync(c->ctx, c->stream));
  }
  return GA_OK;
}

/* Loads an expert into a slot through the buffer `load`. Returns once the copies are enqueued. reused: the buffer's
 * copies may be under way. */
static ga_status stream_expert(expert_cache *c, expert_load *load, int32_t layer, int32_t expert, bool reused) {
  layer_type *t = type_at(c, layer);
  int32_t evicted;
  if (reused) GA_TRY(ga_event_sync(load->done));
  load->layer = layer;
  load->expert = expert;
  load->slot = expert_lru_take(t->lru, c->first_key[layer - c->first] + expert, &evicted);
  GA_REQUIRE(load->slot >= 0, GA_ERR_INTERNAL, "expert cache: no slot of %d for expert %d", t->n_slots, expert);
  if (evicted >= 0) note_slot(c, layer_of_key(c, t, evicted), evicted % c->n_experts, -1);
  if (evicted < 0) (void)atomic_fetch_add(&c->used_slots, 1);
  read_job job = {.c = c, .load = load};
  const uint64_t bytes = matrices_bytes(t->native);
  ga_pool_run(c->model->cpu->device->pool, (int64_t)((bytes + READ_PIECE - 1) / READ_PIECE), read_piece, &job);
  GA_REQUIRE(!atomic_load(&job.failed), GA_ERR_IO, "expert cache: layer %d, expert %d cannot be read", layer, expert);
  (void)pthread_mutex_lock(&c->lock);
  const ga_status status = copy_into_slot(c, load);
  if (status == GA_OK) load->state = LOAD_FREE; /* which no other load takes before the layer is complete */
  (void)pthread_mutex_unlock(&c->lock);
  GA_TRY(status);
  expert_lru_arrive(t->lru, load->slot);
  note_slot(c, layer, expert, load->slot);
  (void)atomic_fetch_add(&c->n_loads, 1);
  return GA_OK;
}

/* Loads all experts of the step that have no slots, and waits for them. */
static ga_status stream_layer(expert_cache *c, int32_t layer, const int32_t *offsets, cached_stacks *s) {
  const layer_type *t = type_at(c, layer);
  const int64_t at = (int64_t)(layer - c->first) * c->n_experts;
  const double began = ga_seconds();
  int32_t n = 0;
  expert_load *last = NULL;
  GA_TRY(settle_loads(c));
  for (int32_t e = 0; e < c->n_experts; e++) {
    if (offsets[e + 1] == offsets[e] || c->on_host[at + e] < 0) continue;
    last = &c->loads[n % LOADS];
    GA_TRY(stream_expert(c, last, layer, e, n >= LOADS));
    n++;
  }
  if (last) GA_TRY(ga_event_sync(last->done));
  if (n) c->stream_byte = (ga_seconds() - began) / (double)n / (double)matrices_bytes(t->native);
  s->n_hits += n;
  s->n_misses = 0;
  s->miss_rows = 0;
  return GA_OK;
}

/* Returns whether a layer's missed experts are loaded before its products. The first layer of many tokens is the CPU's,
 * the second one is streamed; from then on the faster way is taken. */
static bool streams_layer(const expert_cache *c, const layer_type *t, const cached_stacks *s) {
  const double bytes = (double)matrices_bytes(t->native) * s->n_misses;
  if (!s->n_misses || c->streaming == STREAM_NEVER || t->n_slots < s->n_hits + s->n_misses) return false;
  if (c->streaming == STREAM_ALWAYS) return true;
  if (s->miss_rows < (int64_t)STREAM_ROWS * s->n_misses || !(c->cpu_row > 0)) return false;
  return !(c->stream_byte > 0) || bytes * c->stream_byte < (double)s->miss_rows * c->cpu_row;
}

void expert_cache_set_streaming(expert_cache *c, expert_streaming streaming) { c->streaming = streaming; }

void expert_cache_note_cpu(expert_cache *c, const cached_stacks *s, double seconds) {
  if (s->miss_rows >= (int64_t)STREAM_ROWS * s->n_misses) c->cpu_row = seconds / (double)s->miss_rows;
}

/* --- use --- */

static void describe_stacks(const expert_cache *c, int32_t layer, cached_stacks *out) {
  const layer_type *t = &c->types[c->type_of[layer - c->first]];
  float *const *bias = &c->bias[(layer - c->first) * MATRICES];
  const int64_t at = (int64_t)(layer - c->first) * c->n_experts;
  *out = (cached_stacks){.gate = t->matrix[0],
                         .up = t->matrix[1],
                         .down = t->matrix[2],
                         .gate_bias = bias[0],
                         .up_bias = bias[1],
                         .down_bias = bias[2],
                         .n_slots = t->n_slots,
                         .slots = c->slots + at,
                         .on_host = c->on_host + at};
}

static ga_status copy_slots(expert_cache *c, int32_t layer) {
  const int32_t i = layer - c->first;
  const int64_t at = (int64_t)i * c->n_experts;
  if (!c->is_stale[i]) return GA_OK;
  c->is_stale[i] = false;
  c->copies = true;
  GA_TRY(
      ga_copy_to_device_later(c->ctx, c->slots + at, c->slots_host + at, (size_t)c->n_experts * sizeof(int32_t), NULL));
  return ga_event_record(c->ctx, c->copied, NULL);
}

ga_status expert_cache_begin(expert_cache *c, int32_t layer, const int32_t *offsets, cached_stacks *out) {
  layer_type *t = type_at(c, layer);
  const int32_t first = c->first_key[layer - c->first];
  c->copies = false;
  GA_TRY(advance_loads(c));
  describe_stacks(c, layer, out);
  for (int32_t e = 0; e < c->n_experts; e++) {
    if (offsets[e + 1] == offsets[e]) continue;
    const bool hits = expert_lru_use(t->lru, first + e) >= 0;
    out->n_hits += hits;
    out->n_misses += !hits;
    if (!hits) out->miss_rows += offsets[e + 1] - offsets[e];
  }
  (void)atomic_fetch_add(&c->hits, (unsigned long long)out->n_hits);
  (void)atomic_fetch_add(&c->lookups, (unsigned long long)(out->n_hits + out->n_misses));
  if (streams_layer(c, t, out)) GA_TRY(stream_layer(c, layer, offsets, out));
  return out->n_hits ? copy_slots(c, layer) : GA_OK;
}

ga_status expert_cache_want(expert_cache *c, int32_t layer, const int32_t *offsets) {
  if (c->copies) GA_TRY(ga_event_sync(c->copied)); /* which reads what changes now */
  (void)pthread_mutex_lock(&c->lock);
  const int64_t at = (int64_t)(layer - c->first) * c->n_experts;
  bool has_buffer = true;
  for (int32_t e = 0; e < c->n_experts && has_buffer; e++)
    if (offsets[e + 1] > offsets[e] && c->on_host[at + e] >= 0) has_buffer = want_expert(c, layer, e);
  (void)pthread_mutex_unlock(&c->lock);
  return GA_OK;
}

void expert_cache_count(const expert_cache *c, ga_expert_cache_stats *stats) {
  stats->lookups += atomic_load(&c->lookups);
  stats->hits += atomic_load(&c->hits);
  stats->loads += atomic_load(&c->n_loads);
  stats->slots_used += (int64_t)atomic_load(&c->used_slots);
  for (int32_t i = 0; i < c->n_types; i++) stats->slots += c->types[i].n_slots;
  stats->bytes += c->bytes;
}
