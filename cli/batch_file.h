/* The files of `ga batch`: requests as input, answers as output, one JSON object a line, in OpenAI's batch format. */
#ifndef GA_CLI_BATCH_FILE_H
#define GA_CLI_BATCH_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "ga/base.h"

/* One request of the input file. `json` owns the texts and the body. */
typedef struct batch_line {
  json_t *json;
  int64_t number; /* number of the line in the input file, from 1 */
  const char *custom_id, *method, *url;
  json_t *body;
} batch_line;

typedef struct batch_id {
  char *text;
  int64_t number; /* number of its line, from 1 */
} batch_id;

typedef struct batch_ids {
  batch_id *id; /* [n] custom ids, sorted */
  size_t n, room;
} batch_ids;

typedef struct batch_in {
  FILE *file;
  const char *path;
  char *text;
  size_t room;
  int64_t number;
  bool skips_malformed; /* malformed lines are passed over instead of ending the batch */
  /* Called with the fault of each line that is passed over; NULL = no call. */
  void (*skipped)(const char *fault);
  int64_t n_skipped;
} batch_in;

typedef struct batch_out {
  FILE *file;
  const char *path;
  batch_ids done; /* custom ids of the answers that the file had when it was opened */
} batch_out;

/* Opens a regular file of requests, which is read twice. */
ga_status batch_in_open(const char *path, batch_in *out);
/* Checks the whole input: each line must be a request whose custom_id no other line has. Then the first line is next
 * again. */
ga_status batch_in_check(batch_in *in, int64_t *n_lines);
/* Reads the next request into *line, which batch_line_free releases. line->json is NULL at the end of the file. */
ga_status batch_in_next(batch_in *in, batch_line *line);
void batch_line_free(batch_line *line);
void batch_in_close(batch_in *in);

/* Checks, before any file is made, that an output is a regular file, or none yet, and not the input. */
ga_status batch_out_check(const char *path, const batch_in *in);
/* Opens or creates the output file, reads the custom ids of the answers in it, and removes an incomplete last line.
 * Only one program at a time may open it. */
ga_status batch_out_open(const char *path, batch_out *out);
bool batch_out_has(const batch_out *out, const char *custom_id);
/* Appends one answer to the output file, in one write. http: HTTP status. body: the server's JSON text. */
ga_status batch_out_put(batch_out *out, const batch_line *line, long http, const char *body, size_t bytes);
void batch_out_close(batch_out *out);

#endif
