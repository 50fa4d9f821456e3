/* Kinds of layer memory: the data of a sequence that layers keep between steps, such as keys and values.
 *
 * A kind allocates units of one of two forms. A unit is a page of tokens, which sequences with equal tokens share, or
 * the state of one sequence, of which other sequences get copies. A layer has at most one kind of each form, so that a
 * node of the graph names its layer's memory by the form. Only the files in memory/ know which kinds exist; all other
 * code reads the properties below.
 */
#ifndef GA_MODEL_MEMORY_KIND_H
#define GA_MODEL_MEMORY_KIND_H

#include "model/model.h"

#define GA_KV_PAGE         64 /* number of tokens of a page; snapshots of states are taken at multiples of it */
#define MEMORY_KINDS_MAX   4
#define MEMORY_TENSORS_MAX 4 /* largest number of tensors of a layer's memory of one form */
#define MEMORY_SPANS_MAX   2 /* largest number of spans (memory_span) of a tensor */
#define MEMORY_NONE        (-1)

typedef enum memory_form { MEMORY_PAGES, MEMORY_STATE, MEMORY_FORMS } memory_form;

/* Properties of a kind in one model. */
typedef struct memory_kind {
  const char *name;
  uint64_t unit_bytes; /* bytes of one unit, summed over all layers of the kind */
  /* tokens of a page; 0: a unit is the state of a sequence, which starts from zero at position 0 */
  int32_t unit_tokens;
  int32_t window;       /* pages: a token at position p reads tokens after p - window; 0: all earlier tokens */
  bool is_shared;       /* sequences with equal tokens share a unit; else each has its own copy */
  int32_t exact_rewind; /* number of tokens that a sequence can go back without a snapshot */
} memory_kind;

/* The place of units in a tensor. Each unit has `runs` pieces of `bytes` bytes. Run r of unit u begins at byte offset +
 * u * unit_stride + r * run_stride of the tensor. */
typedef struct memory_span {
  uint64_t offset, bytes, unit_stride, run_stride;
  int64_t runs;
} memory_span;

typedef struct memory_tensor {
  uint64_t bytes; /* size of the tensor in bytes, for all units */
  int32_t n_spans;
  memory_span spans[MEMORY_SPANS_MAX];
} memory_tensor;

/* The device memory of a layer, with tensors in the order in which the layer's ops take them. */
typedef struct memory_layout {
  int32_t n_tensors;
  memory_tensor tensors[MEMORY_TENSORS_MAX];
} memory_layout;

/* Indices of the tensors of pages of keys and values. */
enum { MEMORY_KEYS, MEMORY_VALUES };

/* The declaration of a kind. Each file in memory/ has one, and the build finds them. */
typedef struct memory_kind_type {
  const char *name;
  int32_t unit_tokens;
  bool is_shared;
  int32_t exact_rewind;
  bool (*has_layer)(const ga_hparams *p, int32_t layer);
  int32_t (*window)(const ga_hparams *p); /* returns the window of the kind in a model, in tokens; NULL: no window */
  ga_status (*layout)(const ga_hparams *p, ga_dtype dtype, int32_t layer, int64_t n_units, memory_layout *out);
} memory_kind_type;

/* The kinds that a model's layers have. */
typedef struct memory_kinds {
  int32_t n;
  memory_kind kind[MEMORY_KINDS_MAX];
  const memory_kind_type *type[MEMORY_KINDS_MAX];
  int8_t of_layer[GA_MODEL_MAX_LAYERS][MEMORY_FORMS]; /* index of the layer's kind, or MEMORY_NONE */
} memory_kinds;

/* The declarations of memory/ by name, with NULL at the end. cmake/memory.cmake writes the list. */
extern const memory_kind_type *const memory_kind_types[];

/* Lists the kinds of the model's layers. dtype: element type of the memory. */
GA_NODISCARD ga_status memory_kinds_of(const ga_hparams *p, ga_dtype dtype, memory_kinds *out);

/* Computes the bytes of a unit of each kind, summed over layers [first, end). */
GA_NODISCARD ga_status memory_bytes_of_layers(const ga_hparams *p, ga_dtype dtype, const memory_kinds *kinds,
                                              int32_t first, int32_t end, uint64_t bytes[MEMORY_KINDS_MAX]);

/* Number of copies of its state that a session has: the state that its next step reads, and snapshots after earlier
 * tokens. */
#define MEMORY_SESSION_STATES 9

/* Bytes of one layer's memory. */
typedef struct memory_need {
  uint64_t token;    /* bytes of pages for each token */
  uint64_t sequence; /* bytes of a state for each sequence */
} memory_need;
/* Computes the bytes that the layer's kinds need; all zeros for a layer without memory. */
GA_NODISCARD ga_status memory_need_of(const ga_hparams *p, ga_dtype dtype, int32_t layer, memory_need *out);

/* Returns whether the layer has memory of that form. */
bool memory_layer_has(const ga_hparams *p, int32_t layer, memory_form form);

static inline memory_form memory_form_of(int32_t unit_tokens) { return unit_tokens ? MEMORY_PAGES : MEMORY_STATE; }

/* Returns the offset in bytes, within the tensor, of piece `run` of a unit. */
static inline uint64_t memory_run_at(const memory_span *span, int64_t unit, int64_t run) {
  return span->offset + (uint64_t)unit * span->unit_stride + (uint64_t)run * span->run_stride;
}

#endif
