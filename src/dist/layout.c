/* Who holds which tokens. Cuts are made at n i / parts, so that no document and no rank count needs padding. */
#include "dist/layout.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/sized.h"

#define MOST_RANKS     4096
#define MOST_DOCUMENTS (1 << 20)
#define MOST_CHUNKS    1024
#define MOST_TOKENS    ((int64_t)1 << 40)
#define MOST_STRETCHES ((int64_t)1 << 26)

static const char *const order_names[] = {"none",   "contiguous", "striped", "zigzag",
                                          "chunks", "doc_zigzag", "pieces",  "documents"};

static ga_status check_layout(const ga_dist_layout_desc *d) {
  GA_REQUIRE(d->order >= GA_DIST_CONTIGUOUS && d->order <= GA_DIST_DOCUMENTS, GA_ERR_ARG,
             "dist layout: order is %d; must be %d to %d", d->order, GA_DIST_CONTIGUOUS, GA_DIST_DOCUMENTS);
  GA_REQUIRE(d->ranks >= 1 && d->ranks <= MOST_RANKS, GA_ERR_ARG, "dist layout: ranks is %d; must be 1 to %d", d->ranks,
             MOST_RANKS);
  const bool chunked = d->order == GA_DIST_CHUNKS || d->order == GA_DIST_PIECES;
  GA_REQUIRE(d->chunks >= (chunked ? 1 : 0) && d->chunks <= (chunked ? MOST_CHUNKS : 0), GA_ERR_ARG,
             "dist layout: chunks is %d; must be %s with order %s", d->chunks, chunked ? "1 to 1024" : "0",
             order_names[d->order]);
  GA_REQUIRE(d->documents >= 1 && d->documents <= MOST_DOCUMENTS, GA_ERR_ARG,
             "dist layout: documents is %d; must be 1 to %d", d->documents, MOST_DOCUMENTS);
  GA_REQUIRE(d->lengths, GA_ERR_ARG, "dist layout: lengths is null");
  int64_t sum = 0;
  for (int32_t i = 0; i < d->documents; i++) {
    GA_REQUIRE(d->lengths[i] >= 0 && d->lengths[i] <= MOST_TOKENS - sum, GA_ERR_SHAPE,
               "dist layout: lengths[%d] is %lld behind %lld tokens; must be 0 or more, 2^40 in all", i,
               (long long)d->lengths[i], (long long)sum);
    sum += d->lengths[i];
  }
  return GA_OK;
}

/* --- making stretches; the first pass counts, the second stores --- */

typedef struct maker {
  ga_dist_layout *l;
  int32_t rank;
  int64_t n; /* stretches so far */
} maker;

static void add_stretch(maker *m, int64_t first, int64_t count, int64_t doc) {
  if (count <= 0) return;
  if (m->l->stretches) {
    m->l->stretches[m->n] = (dist_stretch){.first = first, .count = count, .row = m->l->rows[m->rank], .doc = doc};
    m->l->rows[m->rank] += count;
  }
  m->n++;
}

/* Tokens [begin, end), cut where documents end. */
static void add_range(maker *m, int64_t begin, int64_t end) {
  const int64_t *start = m->l->doc_start;
  int64_t low = 0, high = m->l->documents - 1;
  while (low < high) { /* the first document that ends behind begin */
    const int64_t mid = (low + high) / 2;
    if (start[mid + 1] > begin)
      high = mid;
    else
      low = mid + 1;
  }
  for (int64_t doc = low; doc < m->l->documents && start[doc] < end; doc++) {
    const int64_t from = ga_max_i64(begin, start[doc]);
    add_stretch(m, from, ga_min_i64(end, start[doc + 1]) - from, doc);
  }
}

/* The chunks of a rank out of tokens [begin, begin + n): dealt out forth and back, or one behind the other. */
static void add_chunks(maker *m, int64_t begin, int64_t n, int64_t chunks) {
  const int64_t ranks = m->l->ranks, parts = chunks * ranks;
  for (int64_t row = 0; row < chunks; row++) {
    const int64_t dealt = row * ranks + (row % 2 ? ranks - 1 - m->rank : m->rank);
    const int64_t c = m->l->order == GA_DIST_PIECES ? m->rank * chunks + row : dealt;
    add_range(m, begin + dist_cut(n, c, parts), begin + dist_cut(n, c + 1, parts));
  }
}

static void add_stripes(maker *m) {
  const int64_t *start = m->l->doc_start, ranks = m->l->ranks;
  for (int64_t doc = 0; doc < m->l->documents; doc++) {
    const int64_t first = start[doc] + (m->rank - start[doc] % ranks + ranks) % ranks;
    if (first < start[doc + 1]) add_stretch(m, first, ga_div_up(start[doc + 1] - first, ranks), doc);
  }
}

/* Of a document that is cut over some ranks: this rank's chunks, early and late, if it is one of them. */
static void add_document_part(maker *m, int64_t doc, int32_t degree, const int32_t *ranks) {
  const int64_t *start = m->l->doc_start, n = start[doc + 1] - start[doc], parts = 2 * (int64_t)degree;
  int64_t part = 0;
  while (part < degree && ranks[part] != m->rank) part++;
  if (part == degree) return;
  for (int late = 0; late < 2; late++) {
    const int64_t c = late ? parts - 1 - part : part, begin = dist_cut(n, c, parts);
    add_stretch(m, start[doc] + begin, dist_cut(n, c + 1, parts) - begin, doc);
  }
}

static void add_documents(maker *m, const dist_dealt *dealt) {
  const int64_t *start = m->l->doc_start;
  for (int64_t doc = 0; doc < m->l->documents; doc++) {
    const int32_t owner = dealt->owner[doc], list = -2 - owner;
    if (owner == -1) add_chunks(m, start[doc], start[doc + 1] - start[doc], 2);
    if (owner == m->rank) add_stretch(m, start[doc], start[doc + 1] - start[doc], doc);
    if (list >= 0) add_document_part(m, doc, dealt->degree[list], dealt->rank + (int64_t)list * m->l->ranks);
  }
}

/* dealt: with GA_DIST_DOCUMENTS alone. */
static int64_t make_stretches(ga_dist_layout *l, int64_t chunks, const dist_dealt *dealt) {
  maker m = {.l = l};
  for (m.rank = 0; m.rank < l->ranks; m.rank++) {
    l->rank_start[m.rank] = m.n;
    if (l->order == GA_DIST_STRIPED) {
      add_stripes(&m);
    } else if (l->order == GA_DIST_DOCUMENTS) {
      add_documents(&m, dealt);
    } else if (l->order == GA_DIST_DOC_ZIGZAG) {
      for (int64_t doc = 0; doc < l->documents; doc++)
        add_chunks(&m, l->doc_start[doc], l->doc_start[doc + 1] - l->doc_start[doc], 2);
    } else {
      add_chunks(&m, 0, l->tokens, chunks);
    }
  }
  l->rank_start[l->ranks] = m.n;
  return m.n;
}

/* Of what the layout does, not of what it is called: chunks of 2 and zigzag have one id. */
static uint64_t id_of_layout(const ga_dist_layout *l) {
  const int64_t head[3] = {l->ranks, l->documents, l->step};
  uint64_t h = ga_fnv64(GA_FNV64_START, head, sizeof head);
  h = ga_fnv64(h, l->doc_start, (size_t)(l->documents + 1) * sizeof *l->doc_start);
  h = ga_fnv64(h, l->rank_start, (size_t)(l->ranks + 1) * sizeof *l->rank_start);
  h = ga_fnv64(h, l->stretches, (size_t)l->rank_start[l->ranks] * sizeof *l->stretches);
  return h ? h : 1;
}

static ga_status fill_layout(const ga_dist_layout_desc *d, ga_dist_layout *l) {
  void *p;
  GA_TRY(ga_mem_zalloc((size_t)d->documents + 1, sizeof(int64_t), "documents of a layout", &p));
  l->doc_start = p;
  GA_TRY(ga_mem_zalloc((size_t)d->ranks + 1, sizeof(int64_t), "ranks of a layout", &p));
  l->rank_start = p;
  GA_TRY(ga_mem_zalloc((size_t)d->ranks, sizeof(int64_t), "ranks of a layout", &p));
  l->rows = p;
  for (int32_t i = 0; i < d->documents; i++) l->doc_start[i + 1] = l->doc_start[i] + d->lengths[i];
  l->tokens = l->doc_start[d->documents];
  const int64_t chunks = d->chunks ? d->chunks : d->order == GA_DIST_ZIGZAG ? 2 : 1;
  GA_REQUIRE((int64_t)d->documents * d->ranks <= MOST_STRETCHES, GA_ERR_SHAPE,
             "dist layout: %d documents on %d ranks; their product must be at most 2^26", d->documents, d->ranks);
  const int64_t lists = d->order == GA_DIST_DOCUMENTS ? (int64_t)DIST_MOST_LISTS * d->ranks : 0;
  GA_TRY(ga_mem_zalloc((size_t)(d->documents + lists), sizeof(int32_t), "documents of a layout", &p));
  dist_dealt dealt = {.owner = p, .rank = (int32_t *)p + d->documents};
  ga_status status = lists ? dist_deal_documents(l, &dealt) : GA_OK;
  const int64_t n = status == GA_OK ? make_stretches(l, chunks, &dealt) : 0;
  if (status == GA_OK) status = ga_mem_zalloc((size_t)n + 1, sizeof *l->stretches, "stretches of a layout", &p);
  if (status == GA_OK) {
    l->stretches = p;
    (void)make_stretches(l, chunks, &dealt);
    l->id = id_of_layout(l);
  }
  ga_mem_free(dealt.owner);
  return status;
}

ga_status ga_dist_layout_create(const ga_dist_layout_desc *desc, ga_dist_layout **out) {
  GA_REQUIRE(out, GA_ERR_ARG, "dist layout: out is null");
  *out = NULL;
  ga_dist_layout_desc d;
  GA_TRY(GA_SIZED_TAKE("dist layout: desc", ga_dist_layout_desc, desc, &d));
  GA_TRY(check_layout(&d));
  void *p;
  GA_TRY(ga_mem_zalloc(1, sizeof(ga_dist_layout), "a layout", &p));
  ga_dist_layout *l = p;
  l->ranks = d.ranks;
  l->order = d.order;
  l->step = d.order == GA_DIST_STRIPED ? d.ranks : 1;
  l->documents = d.documents;
  const ga_status status = fill_layout(&d, l);
  if (status == GA_OK)
    *out = l;
  else
    ga_dist_layout_destroy(l);
  return status;
}

void ga_dist_layout_destroy(ga_dist_layout *layout) {
  if (!layout) return;
  ga_mem_free(layout->doc_start);
  ga_mem_free(layout->rank_start);
  ga_mem_free(layout->rows);
  ga_mem_free(layout->stretches);
  ga_mem_free(layout);
}

uint64_t ga_dist_layout_id(const ga_dist_layout *layout) { return layout ? layout->id : 0; }
int32_t ga_dist_layout_ranks(const ga_dist_layout *layout) { return layout ? layout->ranks : 0; }

int64_t ga_dist_layout_tokens(const ga_dist_layout *layout, int32_t rank) {
  if (!layout) return 0;
  if (rank == -1) return layout->tokens;
  return rank >= 0 && rank < layout->ranks ? layout->rows[rank] : 0;
}

static ga_status check_rank(const ga_dist_layout *l, int32_t rank) {
  GA_REQUIRE(l, GA_ERR_ARG, "dist layout: layout is null");
  GA_REQUIRE(rank >= 0 && rank < l->ranks, GA_ERR_ARG, "dist layout: rank is %d; must be 0 to %d", rank, l->ranks - 1);
  return GA_OK;
}

ga_status ga_dist_layout_rows(const ga_dist_layout *layout, int32_t rank, int64_t *token, int64_t *position) {
  GA_TRY(check_rank(layout, rank));
  for (int64_t s = 0; s < dist_stretches(layout, rank); s++) {
    const dist_stretch *x = dist_stretch_at(layout, rank, s);
    for (int64_t i = 0; i < x->count; i++) {
      const int64_t t = x->first + i * layout->step;
      if (token) token[x->row + i] = t;
      if (position) position[x->row + i] = t - layout->doc_start[x->doc];
    }
  }
  return GA_OK;
}

static ga_status check_permute(const ga_dist_layout *l, uint64_t id, int32_t rank, const void *from, const void *to) {
  GA_TRY(check_rank(l, rank));
  GA_REQUIRE(id == l->id, GA_ERR_ARG, "dist layout: id is %016llx; this layout's is %016llx", (unsigned long long)id,
             (unsigned long long)l->id);
  GA_REQUIRE((from && to) || l->rows[rank] == 0, GA_ERR_ARG, "dist layout: %s is null", from ? "to" : "from");
  return GA_OK;
}

ga_status ga_dist_permute(const ga_dist_layout *layout, uint64_t id, int32_t rank, const void *all, size_t row_bytes,
                          void *rows) {
  GA_TRY(check_permute(layout, id, rank, all, rows));
  for (int64_t s = 0; s < dist_stretches(layout, rank); s++) {
    const dist_stretch *x = dist_stretch_at(layout, rank, s);
    for (int64_t i = 0; i < x->count; i++)
      memcpy((char *)rows + (size_t)(x->row + i) * row_bytes,
             (const char *)all + (size_t)(x->first + i * layout->step) * row_bytes, row_bytes);
  }
  return GA_OK;
}

ga_status ga_dist_unpermute(const ga_dist_layout *layout, uint64_t id, int32_t rank, const void *rows, size_t row_bytes,
                            void *all) {
  GA_TRY(check_permute(layout, id, rank, rows, all));
  for (int64_t s = 0; s < dist_stretches(layout, rank); s++) {
    const dist_stretch *x = dist_stretch_at(layout, rank, s);
    for (int64_t i = 0; i < x->count; i++)
      memcpy((char *)all + (size_t)(x->first + i * layout->step) * row_bytes,
             (const char *)rows + (size_t)(x->row + i) * row_bytes, row_bytes);
  }
  return GA_OK;
}
