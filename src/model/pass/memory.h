/* The pass that gives values addresses. It finds where each value is last read, and assigns offsets in one arena. It
 * also finds out which launches may work in place.
 *
 *   arena   | pinned values, at places of their own | scratch: values share it, one after the other |
 *           0                                       pinned_bytes                                    bytes
 *
 * Pinned values have the same address in all programs of the same nodes. They are the result, the values that pass
 * between these nodes and nodes of other devices, and the values that the output head reads. So the output head can run
 * again. */
#ifndef GA_MODEL_PASS_MEMORY_H
#define GA_MODEL_PASS_MEMORY_H

#include "model/program.h"

/* Numbers of rows for which memory is reserved. */
typedef struct memory_rows {
  int32_t tokens, wanted;
} memory_rows;

#define MEMORY_PINS 8

typedef struct memory_pin {
  value_id value;
  int64_t offset; /* bytes from the arena's start */
} memory_pin;

/* The pinned values of some nodes, and the bytes that they take together. */
typedef struct memory_pins {
  memory_pin list[MEMORY_PINS];
  int32_t n;
  uint64_t bytes;
} memory_pins;

/* Finds the pinned values of nodes [first, end) of the graph. most: numbers of rows in the largest step. */
GA_NODISCARD ga_status memory_pin_values(const ga_model_graph *graph, int32_t first, int32_t end, memory_rows most,
                                         memory_pins *out);
/* Sets program->places, the offsets of values in the arena, and program->bytes, the arena's size. rows: rows of the
 * largest step that runs the program. */
GA_NODISCARD ga_status memory_plan(const ga_model_graph *graph, const memory_pins *pins, memory_rows rows,
                                   ga_program *program);

#endif
