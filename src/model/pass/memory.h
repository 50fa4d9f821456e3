/* The pass that gives values addresses: from where each value is last read to offsets in one arena. It finds out which
 * launches may work in place.
 *
 *   arena   | pinned values, each for itself | scratch: values share it, one after the other |
 *           0                                pinned_bytes                                    bytes
 *
 * Pinned values have the same address in all programs of some nodes: the result, what the nodes before and after these
 * compute or read, and what the head reads of the body, so that the head can run again. */
#ifndef GA_MODEL_PASS_MEMORY_H
#define GA_MODEL_PASS_MEMORY_H

#include "model/program.h"

/* Rows that there are room for. */
typedef struct memory_rows {
  int32_t tokens, wanted;
} memory_rows;

#define MEMORY_PINS 8

typedef struct memory_pin {
  value_id value;
  int64_t offset; /* bytes from the arena's start */
} memory_pin;

typedef struct memory_pins {
  memory_pin list[MEMORY_PINS];
  int32_t n;
  uint64_t bytes;
} memory_pins;

/* Finds the pinned values of nodes [first, end). most: rows of the largest step. */
GA_NODISCARD ga_status memory_pin_values(const ga_model_graph *graph, int32_t first, int32_t end, memory_rows most,
                                         memory_pins *out);
/* Sets the program's places and bytes. rows: of the largest step that runs this program. */
GA_NODISCARD ga_status memory_plan(const ga_model_graph *graph, const memory_pins *pins, memory_rows rows,
                                   ga_program *program);

#endif
