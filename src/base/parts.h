/* Tables of the fields of model files: they say which fields GA reads, refuses or ignores. A reader checks a file
 * against its table before it takes values from the file. tests/test_parts.c makes docs/reference/model-files.md from
 * the same tables, so that the page cannot differ from the readers. */
#ifndef GA_BASE_PARTS_H
#define GA_BASE_PARTS_H

#include <jansson.h>

#include "ga/base.h"

typedef enum ga_part_use {
  GA_PART_READ,    /* the reader takes the value, or refuses it with an error of its own */
  GA_PART_REFUSED, /* the field must be absent, empty (null, false, "", [], {}) or one of `allowed` */
  GA_PART_IGNORED  /* the field may have any value; `note` explains why results do not depend on it */
} ga_part_use;

typedef struct ga_part {
  /* Path of the field: names separated by dots, where "*" stands for any name and for each element of an array. A
   * metadata key of GGUF is one path, and a "*" in it stands for any characters. */
  const char *key;
  ga_part_use use;
  /* remark for error texts and the reference page; NULL: none. Fields that are read: the values that GA accepts.
   * Refused fields: why GA refuses them. Ignored fields: why results do not depend on them */
  const char *note;
  const char *allowed; /* refused: a JSON array of further values that are accepted; NULL: none */
} ga_part;

typedef struct ga_part_table {
  const char *file;    /* name of the file, such as "tokenizer.json" */
  const char *what;    /* the part of the file that the table covers, such as "model of type BPE"; NULL: all of it */
  const ga_part *rows; /* rows of the table; the last row has no key */
  const char *others;  /* why fields without a row may be ignored; NULL: they are refused, and the error names them */
} ga_part_table;

/* Checks an object of a JSON file against a table. `at` is the object's own path in the file, for error texts; NULL:
 * the object is the whole file. GA_ERR_UNSUPPORTED: a field that the table refuses or does not have; the text names
 * file, field and value. */
GA_NODISCARD ga_status ga_parts_check(const ga_part_table *table, const char *at, const json_t *object);

/* Sets *allowed to whether the value of a refused field is acceptable: empty or one of row->allowed. GA_ERR_NOMEM:
 * memory is exhausted. */
GA_NODISCARD ga_status ga_part_allows(const ga_part *row, const json_t *value, bool *allowed);

/* Finds the row of a metadata key; NULL: there is none. */
const ga_part *ga_parts_find(const ga_part_table *table, const char *key);

#endif
