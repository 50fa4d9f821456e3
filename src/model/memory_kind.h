/* Kinds of layer memory: what layers remember of a sequence between its steps.
 *
 * A kind allocates units: a unit is a page of tokens, which sequences with equal tokens share, or the state of one
 * sequence, of which others get copies. A layer has at most one kind of each of these two forms, so that a node of the
 * graph names its layer's memory by the form. Only the files in memory/ know which kinds exist; all other code reads
 * the properties below.
 */
#ifndef GA_MODEL_MEMORY_KIND_H
#define GA_MODEL_MEMORY_KIND_H

#include "model/model.h"

#define GA_KV_PAGE         64 /* tokens of a page; states have snapshots at multiples of it */
#define MEMORY_KINDS_MAX   4
#define MEMORY_TENSORS_MAX 4 /* of a layer */
#define MEMORY_SPANS_MAX   2 /* of a tensor */
#define MEMORY_NONE        (-1)

typedef enum memory_form { MEMORY_PAGES, MEMORY_STATE, MEMORY_FORMS } memory_form;

/* Properties of a kind in one model. */
typedef struct memory_kind {
  const char *name;
  uint64_t unit_bytes;  /* of one unit, summed over all layers of the kind */
  int32_t unit_tokens;  /* tokens of a page; 0: a unit is a sequence's state. A state starts from zero at position 0 */
  int32_t window;       /* pages: a token at position p reads tokens above p - window; 0: all */
  bool is_shared;       /* sequences with equal tokens read the same unit; else each has a copy */
  int32_t exact_rewind; /* tokens that a sequence can go back without a snapshot */
} memory_kind;

/* Where a unit lies in a tensor: `runs` pieces of `bytes` each. Run r of unit u begins at byte
 * offset + u * unit_stride + r * run_stride of the tensor. */
typedef struct memory_span {
  uint64_t offset, bytes, unit_stride, run_stride;
  int64_t runs;
} memory_span;

typedef struct memory_tensor {
  uint64_t bytes; /* of all units */
  int32_t n_spans;
  memory_span spans[MEMORY_SPANS_MAX];
} memory_tensor;

/* Device memory of a layer, in the order in which the layer's ops take the tensors. */
typedef struct memory_layout {
  int32_t n_tensors;
  memory_tensor tensors[MEMORY_TENSORS_MAX];
} memory_layout;

/* Tensors of pages of keys and values. */
enum { MEMORY_KEYS, MEMORY_VALUES };

/* Declaration of a kind: one file in memory/, where the build finds it. */
typedef struct memory_kind_type {
  const char *name;
  int32_t unit_tokens;
  bool is_shared;
  int32_t exact_rewind;
  bool (*has_layer)(const ga_hparams *p, int32_t layer);
  int32_t (*window)(const ga_hparams *p); /* NULL: 0 */
  ga_status (*layout)(const ga_hparams *p, ga_dtype dtype, int32_t layer, int64_t n_units, memory_layout *out);
} memory_kind_type;

/* The kinds that a model's layers have. */
typedef struct memory_kinds {
  int32_t n;
  memory_kind kind[MEMORY_KINDS_MAX];
  const memory_kind_type *type[MEMORY_KINDS_MAX];
  int8_t of_layer[GA_MODEL_MAX_LAYERS][MEMORY_FORMS]; /* index of the layer's kind, or MEMORY_NONE */
} memory_kinds;

/* The declarations of memory/ by name, ended by NULL; cmake/memory.cmake makes the list. */
extern const memory_kind_type *const memory_kind_types[];

/* Lists the kinds of a model whose memory is of `dtype`. */
GA_NODISCARD ga_status memory_kinds_of(const ga_hparams *p, ga_dtype dtype, memory_kinds *out);

/* Sums up the bytes of a unit of each kind in layers [first, end). */
GA_NODISCARD ga_status memory_bytes_of_layers(const ga_hparams *p, ga_dtype dtype, const memory_kinds *kinds,
                                              int32_t first, int32_t end, uint64_t bytes[MEMORY_KINDS_MAX]);

/* States of a session: the one that its next step reads, and snapshots spread over its tokens. */
#define MEMORY_SESSION_STATES 9

/* Bytes of a layer's memory. */
typedef struct memory_need {
  uint64_t token;    /* of pages, a token */
  uint64_t sequence; /* of a state */
} memory_need;
/* Asks the layer's kinds what they need; all zeros for a layer that remembers nothing. */
GA_NODISCARD ga_status memory_need_of(const ga_hparams *p, ga_dtype dtype, int32_t layer, memory_need *out);

/* Does the layer have memory of that form? */
bool memory_layer_has(const ga_hparams *p, int32_t layer, memory_form form);

static inline memory_form memory_form_of(int32_t unit_tokens) { return unit_tokens ? MEMORY_PAGES : MEMORY_STATE; }

static inline uint64_t memory_run_at(const memory_span *span, int64_t unit, int64_t run) {
  return span->offset + (uint64_t)unit * span->unit_stride + (uint64_t)run * span->run_stride;
}

#endif
