/* Downloads by libcurl: https, and plain http from this machine only (tests). Resumes by byte range. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <curl/curl.h>

#include "cli/commands.h"
#include "cli/open.h"
#include "cli/pull.h"
#include "cmdline/error.h"

typedef struct download {
  const pull_address *from;
  const char *part;
  FILE *file;
  CURL *curl;
  uint64_t start;     /* bytes of an earlier try that this request goes on from */
  pull_record record; /* of those bytes, then of what comes */
  bool begun;         /* the answer's head was judged */
  bool start_over;    /* it does not continue what is here */
  ga_status status;   /* of what failed inside a callback, with its text */
} download;

static const char *header(const download *d, const char *name) {
  struct curl_header *h;
  return curl_easy_header(d->curl, name, 0, CURLH_HEADER, -1, &h) == CURLHE_OK ? h->value : "";
}

/* Strong ETag, else Last-Modified: what If-Range takes (RFC 9110, 13.1.5). */
static const char *validator(const download *d) {
  const char *etag = header(d, "ETag");
  return *etag == '"' ? etag : header(d, "Last-Modified");
}

static ga_status forget(download *d, const char *why) {
  if (d->start) (void)fprintf(stderr, "%s: %s; starting over\n", d->part, why);
  d->start = 0;
  pull_record_remove(d->part); /* first: a kill between the two leaves a part that nothing vouches for */
  REQUIRE(!ftruncate(fileno(d->file), 0), GA_ERR_IO, "%s: %s", d->part, strerror(errno));
  return GA_OK;
}

/* Does this 206 continue what is here? A server may have ignored If-Range. */
static bool continues(const download *d) {
  unsigned long long from, to, size;
  const char *now = validator(d);
  if (sscanf(header(d, "Content-Range"), "bytes %llu-%llu/%llu", &from, &to, &size) != 3) return false;
  /* A 206 that honours If-Range may leave Last-Modified out (RFC 9110, 15.3.7). */
  return from == d->start && (d->record.size < 0 || size == (uint64_t)d->record.size) &&
         (!*now || !strcmp(now, d->record.validator));
}

/* Judges the head of an answer before its first byte is kept. */
static ga_status begin(download *d) {
  long code = 0;
  curl_off_t size = -1;
  d->begun = true;
  (void)curl_easy_getinfo(d->curl, CURLINFO_RESPONSE_CODE, &code);
  if (code == 206 && continues(d)) return GA_OK;
  d->start_over = code == 206;
  TRY(forget(d, code == 206 ? "the server sends a part that does not follow"
                            : "it has changed on the server, or this server does not resume"));
  if (d->start_over)
    return ga_error_set(GA_ERR_STATE, "%s: the server sends a part that was not asked for", d->from->label);
  (void)curl_easy_getinfo(d->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &size);
  d->record = (pull_record){.size = size};
  (void)snprintf(d->record.url_sha256, sizeof d->record.url_sha256, "%s", d->from->sha256);
  const char *v = validator(d);
  if (!strcmp(d->from->label, d->from->url))
    (void)snprintf(d->record.source, sizeof d->record.source, "%s", d->from->label);
  if (strlen(v) < sizeof d->record.validator) (void)snprintf(d->record.validator, sizeof d->record.validator, "%s", v);
  return pull_record_write(d->part, &d->record);
}

static size_t on_bytes(char *data, size_t each, size_t n, void *user) {
  download *d = user;
  if (!d->begun) d->status = begin(d);
  if (d->status != GA_OK) return 0;
  size_t wrote = fwrite(data, 1, each * n, d->file);
  if (wrote != each * n) d->status = ga_error_set(GA_ERR_IO, "%s: %s", d->part, strerror(errno));
  return wrote;
}

static int on_transfer(void *user, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up) {
  (void)up_total, (void)up;
  download *d = user;
  if (total > 0 && now < total) cmd_progress("downloading", d->start + (uint64_t)now, d->start + (uint64_t)total);
  return interrupted();
}

ga_status pull_curl_options(void *curl, const pull_address *from) {
  CURL *c = curl;
  const char *protocols = from->loopback ? "http" : "https";
  const long follow = !from->loopback; /* http may lead nowhere else */
  bool set = !curl_easy_setopt(c, CURLOPT_URL, from->url) && !curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, protocols) &&
             !curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, protocols) &&
             !curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, follow) && !curl_easy_setopt(c, CURLOPT_MAXREDIRS, 10L) &&
             !curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L) && !curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, 30L) &&
             !curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L) && !curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, 60L);
  if (set && from->token && *from->token) /* libcurl does not give it to another host that an answer leads to */
    set = !curl_easy_setopt(c, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER) &&
          !curl_easy_setopt(c, CURLOPT_XOAUTH2_BEARER, from->token);
  REQUIRE(set, GA_ERR_INTERNAL, "libcurl refuses an option");
  return GA_OK;
}

ga_status pull_curl_error(void *curl, const pull_address *from, const char *detail) {
  long code = 0;
  (void)curl_easy_getinfo((CURL *)curl, CURLINFO_RESPONSE_CODE, &code);
  const bool asks = (code == 401 || code == 403 || code == 404) && from->token;
  return ga_error_set(GA_ERR_IO, "%s: %s%s", from->label, detail,
                      !asks          ? ""
                      : *from->token ? "; there is none of that name, or your token (HF_TOKEN) may not read it"
                                     : "; there is none of that name, or it needs a token: set HF_TOKEN");
}

static ga_status set_options(download *d) {
  CURL *c = d->curl;
  TRY(pull_curl_options(c, d->from));
  const bool set = !curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_bytes) &&
                   !curl_easy_setopt(c, CURLOPT_WRITEDATA, d) && !curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L) &&
                   !curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_transfer) &&
                   !curl_easy_setopt(c, CURLOPT_XFERINFODATA, d);
  REQUIRE(set, GA_ERR_INTERNAL, "libcurl refuses an option");
  return GA_OK;
}

/* One request, from d->start on. Not CURLOPT_RESUME_FROM: libcurl takes a whole answer as long as what is here for a
 * sign that nothing is missing. */
static ga_status request(download *d) {
  CURL *c = d->curl;
  char detail[CURL_ERROR_SIZE] = "", range[32], condition[sizeof d->record.validator + 16];
  struct curl_slist *headers = NULL;
  (void)snprintf(range, sizeof range, "%llu-", (unsigned long long)d->start);
  (void)snprintf(condition, sizeof condition, "If-Range: %s", d->record.validator);
  d->begun = d->start_over = false;
  d->status = GA_OK;
  if (d->start && !(headers = curl_slist_append(NULL, condition))) return fail_nomem("request", sizeof condition);
  bool set = !curl_easy_setopt(c, CURLOPT_ERRORBUFFER, detail) && !curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers) &&
             !curl_easy_setopt(c, CURLOPT_RANGE, d->start ? range : NULL);
  CURLcode rc = set ? curl_easy_perform(c) : CURLE_OUT_OF_MEMORY;
  (void)curl_easy_setopt(c, CURLOPT_HTTPHEADER, NULL);
  (void)curl_easy_setopt(c, CURLOPT_ERRORBUFFER, NULL);
  curl_slist_free_all(headers);
  if (d->status != GA_OK) return d->status;
  if (rc == CURLE_ABORTED_BY_CALLBACK)
    return ga_error_set(GA_ERR_CANCELLED, "download stopped; %s is kept, the same command goes on", d->part);
  long code = 0;
  (void)curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &code);
  if (code == 416 && d->start) { /* the server has less than what is here */
    d->start_over = true;
    return forget(d, "the server has no more of it");
  }
  if (rc) return pull_curl_error(c, d->from, *detail ? detail : curl_easy_strerror(rc));
  REQUIRE(code < 300, GA_ERR_IO, "%s: the server answers %ld, a redirection; http is fetched from where it is",
          d->from->label, code);
  return d->begun ? GA_OK : begin(d); /* an empty file */
}

/* What is here from an earlier try: gone on from, or forgotten with the reason. */
static ga_status resume(download *d, uint64_t here) {
  pull_record *r = &d->record;
  d->start = here;
  if (!here) return forget(d, "");
  if (!pull_record_read(d->part, r)) return forget(d, "nothing tells where this part came from");
  if (strcmp(r->url_sha256, d->from->sha256)) return forget(d, "this part came from another address");
  if (!*r->validator) return forget(d, "the server tells no version (ETag or Last-Modified)");
  if (r->size >= 0 && here > (uint64_t)r->size) return forget(d, "it is longer than what the server told");
  return GA_OK;
}

static ga_status fetch(download *d, uint64_t here) {
  d->curl = curl_easy_init();
  REQUIRE(d->curl, GA_ERR_NOMEM, "libcurl cannot start");
  TRY(set_options(d));
  TRY(resume(d, here));
  if (d->start && d->start == (uint64_t)d->record.size) return GA_OK; /* whole: only the last step was missing */
  ga_status status = request(d);
  return d->start_over && (status == GA_OK || status == GA_ERR_STATE) ? request(d) : status;
}

static ga_status flush_part(download *d, const char *part) {
  if (fflush(d->file) || fsync(fileno(d->file))) return ga_error_set(GA_ERR_IO, "%s: %s", part, strerror(errno));
  return GA_OK;
}

/* Neither a symbolic link nor anything else that another user may have put there. */
static FILE *open_part(const char *part) {
  const int fd = open(part, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "ab");
  if (!f && fd >= 0) (void)close(fd);
  return f;
}

ga_status pull_url(const pull_address *address, const char *part) {
  download d = {.from = address, .part = part, .file = open_part(part)};
  REQUIRE(d.file, GA_ERR_IO, "%s: %s", part,
          errno == ELOOP ? "a symbolic link, which is not followed" : strerror(errno));
  ga_status status = GA_OK;
  struct stat st;
  if (fstat(fileno(d.file), &st))
    status = ga_error_set(GA_ERR_IO, "%s: %s", part, strerror(errno));
  else if (!S_ISREG(st.st_mode))
    status = ga_error_set(GA_ERR_IO, "%s: not a regular file", part);
  if (status == GA_OK) {
    status = fetch(&d, (uint64_t)st.st_size);
    curl_easy_cleanup(d.curl);
    if (status == GA_OK)
      status = flush_part(&d, part);
    else
      (void)fflush(d.file); /* what came is kept; the first error is the one to tell */
  }
  if (fclose(d.file) && status == GA_OK) status = ga_error_set(GA_ERR_IO, "%s: %s", part, strerror(errno));
  return status;
}
