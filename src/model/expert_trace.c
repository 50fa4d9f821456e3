#include "model/expert_trace.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"

enum { VERSION = 1, HEAD_WORDS = 4, MOST_LAYERS = 512, MOST_EXPERTS = 1024, MOST_CHOSEN = 64 };
static const char magic[] = "GAEXPERT"; /* without its NUL */

struct expert_trace {
  FILE *f;
  char *path;
  int32_t top_k;
  pthread_mutex_t lock;
  int32_t *host; /* [room] experts of a record */
  int64_t room;
};

/* --- writing --- */

static void put_word(unsigned char *to, uint32_t x) {
  for (int i = 0; i < 4; i++) to[i] = (unsigned char)(x >> 8 * i);
}

static bool write_words(FILE *f, const uint32_t *words, int n) {
  unsigned char bytes[4 * HEAD_WORDS];
  for (int i = 0; i < n; i++) put_word(bytes + 4 * i, words[i]);
  return fwrite(bytes, 4, (size_t)n, f) == (size_t)n;
}

static ga_status trace_failed(const expert_trace *t) {
  return ga_fail(GA_ERR_IO, "%s: writing the trace of experts: %s", t->path, strerror(errno));
}

ga_status expert_trace_create(const char *path, int32_t n_layers, int32_t n_experts, int32_t top_k,
                              expert_trace **out) {
  const uint32_t head[HEAD_WORDS] = {VERSION, (uint32_t)n_layers, (uint32_t)n_experts, (uint32_t)top_k};
  void *p;
  *out = NULL;
  GA_TRY(ga_mem_zalloc(1, sizeof **out + strlen(path) + 1, "trace of experts", &p));
  expert_trace *t = p;
  t->path = strcpy((char *)(t + 1), path);
  t->top_k = top_k;
  t->f = fopen(path, "wb");
  if (!t->f) {
    const ga_status status = ga_fail(GA_ERR_IO, "%s: %s", path, strerror(errno));
    ga_mem_free(t);
    return status;
  }
  (void)pthread_mutex_init(&t->lock, NULL);
  if (fwrite(magic, 1, sizeof magic - 1, t->f) != sizeof magic - 1 || !write_words(t->f, head, HEAD_WORDS)) {
    const ga_status status = trace_failed(t);
    expert_trace_close(t);
    return status;
  }
  *out = t;
  return GA_OK;
}

static ga_status need_trace_room(expert_trace *t, int64_t n) {
  void *p;
  if (n <= t->room) return GA_OK;
  GA_TRY(ga_mem_alloc((size_t)n * sizeof *t->host, "trace of experts", &p));
  ga_mem_free(t->host);
  t->host = p;
  t->room = n;
  return GA_OK;
}

static ga_status write_record(expert_trace *t, ga_ctx *ctx, int32_t layer, int32_t tokens, const int32_t *experts) {
  const uint32_t head[2] = {(uint32_t)layer, (uint32_t)tokens};
  const int64_t n = (int64_t)tokens * t->top_k;
  GA_TRY(need_trace_room(t, n));
  GA_TRY(ga_copy_to_host(ctx, t->host, experts, (size_t)n * sizeof *experts, NULL));
  unsigned char *bytes =
      (unsigned char *)t->host; /* each number is written at or before the place that it is read from */
  for (int64_t i = 0; i < n; i++) {
    const uint32_t x = (uint32_t)t->host[i];
    bytes[2 * i] = (unsigned char)x;
    bytes[2 * i + 1] = (unsigned char)(x >> 8);
  }
  if (!write_words(t->f, head, 2) || fwrite(bytes, 2, (size_t)n, t->f) != (size_t)n) return trace_failed(t);
  return GA_OK;
}

ga_status expert_trace_put(expert_trace *t, ga_ctx *ctx, int32_t layer, int32_t tokens, const int32_t *experts) {
  (void)pthread_mutex_lock(&t->lock);
  const ga_status status = write_record(t, ctx, layer, tokens, experts);
  (void)pthread_mutex_unlock(&t->lock);
  return status;
}

void expert_trace_close(expert_trace *t) {
  if (!t) return;
  if (fclose(t->f)) ga_log(GA_LOG_WARN, "%s: writing the trace of experts: %s", t->path, strerror(errno));
  (void)pthread_mutex_destroy(&t->lock);
  ga_mem_free(t->host);
  ga_mem_free(t);
}

/* --- reading --- */

/* Reads n words; false at the end of the file. */
static bool read_words(FILE *f, uint32_t *words, int n) {
  unsigned char b[4 * HEAD_WORDS];
  if (fread(b, 4, (size_t)n, f) != (size_t)n) return false;
  for (int i = 0; i < n; i++)
    words[i] = b[4 * i] | (uint32_t)b[4 * i + 1] << 8 | (uint32_t)b[4 * i + 2] << 16 | (uint32_t)b[4 * i + 3] << 24;
  return true;
}

typedef struct choices_reader {
  FILE *f;
  const char *path;
  expert_choices *out;
  int64_t n[MOST_LAYERS], room[MOST_LAYERS]; /* tokens of each layer, and allocated */
} choices_reader;

static ga_status read_choices_head(choices_reader *r) {
  char text[sizeof magic] = "";
  uint32_t head[HEAD_WORDS] = {0};
  const bool is_trace = fread(text, 1, sizeof magic - 1, r->f) == sizeof magic - 1 && !strcmp(text, magic) &&
                        read_words(r->f, head, HEAD_WORDS);
  GA_REQUIRE(is_trace && head[0] == VERSION, GA_ERR_FORMAT, "%s: no trace of experts of version %d", r->path, VERSION);
  GA_REQUIRE(head[1] >= 1 && head[1] <= MOST_LAYERS && head[2] >= 1 && head[2] <= MOST_EXPERTS && head[3] >= 1 &&
                 head[3] <= MOST_CHOSEN && head[3] <= head[2],
             GA_ERR_FORMAT, "%s: %u layers with %u of %u experts; allowed are 1 to %d layers, 1 to %d of 1 to %d",
             r->path, head[1], head[3], head[2], MOST_LAYERS, MOST_CHOSEN, MOST_EXPERTS);
  r->out->n_layers = (int32_t)head[1];
  r->out->n_experts = (int32_t)head[2];
  r->out->top_k = (int32_t)head[3];
  return GA_OK;
}

static ga_status need_layer_room(choices_reader *r, uint32_t layer, int64_t tokens) {
  const size_t each = (size_t)r->out->top_k * sizeof(uint16_t);
  void *p;
  if (tokens <= r->room[layer]) return GA_OK;
  const int64_t room = ga_max_i64(tokens, 2 * r->room[layer]);
  GA_TRY(ga_mem_alloc((size_t)room * each, "trace of experts", &p));
  if (r->n[layer]) memcpy(p, r->out->layers[layer], (size_t)r->n[layer] * each);
  ga_mem_free(r->out->layers[layer]);
  r->out->layers[layer] = p;
  r->room[layer] = room;
  return GA_OK;
}

static ga_status read_record(choices_reader *r, uint32_t layer, uint32_t tokens) {
  expert_choices *c = r->out;
  enum { MOST_TOKENS = 1 << 20 };
  GA_REQUIRE(layer < (uint32_t)c->n_layers && tokens >= 1 && tokens <= MOST_TOKENS, GA_ERR_FORMAT,
             "%s: a record of layer %u of %d with %u tokens; allowed are 1 to %d", r->path, layer, c->n_layers, tokens,
             MOST_TOKENS);
  GA_TRY(need_layer_room(r, layer, r->n[layer] + tokens));
  for (int64_t i = 0; i < (int64_t)tokens * c->top_k; i++) {
    unsigned char b[2];
    GA_REQUIRE(fread(b, 1, 2, r->f) == 2, GA_ERR_FORMAT, "%s: it ends within a record", r->path);
    const uint16_t e = (uint16_t)(b[0] | b[1] << 8);
    GA_REQUIRE(e < c->n_experts, GA_ERR_FORMAT, "%s: expert %u; must be less than %d", r->path, e, c->n_experts);
    c->layers[layer][r->n[layer] * c->top_k + i] = e;
  }
  r->n[layer] += tokens;
  return GA_OK;
}

static ga_status read_choices(choices_reader *r) {
  expert_choices *c = r->out;
  uint32_t head[2];
  void *p;
  GA_TRY(read_choices_head(r));
  GA_TRY(ga_mem_zalloc((size_t)c->n_layers, sizeof *c->layers, "trace of experts", &p));
  c->layers = p;
  while (read_words(r->f, head, 2)) GA_TRY(read_record(r, head[0], head[1]));
  for (int32_t l = 0; l < c->n_layers; l++)
    if (r->n[l] && (!c->n_tokens || r->n[l] < c->n_tokens)) c->n_tokens = r->n[l];
  GA_REQUIRE(c->n_tokens, GA_ERR_FORMAT, "%s: it has no tokens", r->path);
  return GA_OK;
}

ga_status expert_choices_read(const char *path, expert_choices *out) {
  void *p;
  *out = (expert_choices){0};
  GA_TRY(ga_mem_zalloc(1, sizeof(choices_reader), "trace of experts", &p));
  choices_reader *r = p;
  *r = (choices_reader){.f = fopen(path, "rb"), .path = path, .out = out};
  ga_status status = r->f ? read_choices(r) : ga_fail(GA_ERR_IO, "%s: %s", path, strerror(errno));
  if (r->f) (void)fclose(r->f);
  ga_mem_free(r);
  if (status != GA_OK) expert_choices_free(out);
  return status;
}

void expert_choices_free(expert_choices *c) {
  for (int32_t l = 0; c->layers && l < c->n_layers; l++) ga_mem_free(c->layers[l]);
  ga_mem_free(c->layers);
  *c = (expert_choices){0};
}
