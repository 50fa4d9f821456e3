/* Downloads by libcurl: https, and plain http from this machine only (tests). Resumes by byte range. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <curl/curl.h>

#include "base/status.h"
#include "tools/ga/cmd.h"
#include "tools/ga/open.h"
#include "tools/ga/pull.h"

typedef struct download {
  FILE *file;
  CURL *curl;
  uint64_t start; /* bytes that an earlier try left */
  int write_errno;
} download;

static size_t on_bytes(char *data, size_t each, size_t n, void *user) {
  download *d = user;
  size_t wrote = fwrite(data, 1, each * n, d->file);
  if (wrote != each * n) d->write_errno = errno;
  return wrote;
}

static int on_progress(void *user, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up) {
  (void)up_total, (void)up;
  download *d = user;
  if (total > 0 && now < total) cmd_progress("downloading", d->start + (uint64_t)now, d->start + (uint64_t)total);
  return interrupted();
}

static bool is_loopback(const char *url) {
  static const char *const hosts[] = {"http://127.0.0.1:", "http://localhost:", "http://[::1]:"};
  for (size_t i = 0; i < GA_COUNT_OF(hosts); i++)
    if (!strncmp(url, hosts[i], strlen(hosts[i]))) return true;
  return false;
}

static ga_status perform(download *d, const char *url, const char *part) {
  CURL *c = d->curl;
  char detail[CURL_ERROR_SIZE] = "";
  const char *protocols = is_loopback(url) ? "http" : "https";
  bool set = !curl_easy_setopt(c, CURLOPT_URL, url) && !curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, protocols) &&
             !curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, protocols) &&
             !curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L) && !curl_easy_setopt(c, CURLOPT_MAXREDIRS, 10L) &&
             !curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L) && !curl_easy_setopt(c, CURLOPT_ERRORBUFFER, detail) &&
             !curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_bytes) && !curl_easy_setopt(c, CURLOPT_WRITEDATA, d) &&
             !curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L) &&
             !curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress) &&
             !curl_easy_setopt(c, CURLOPT_XFERINFODATA, d) && !curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, 30L) &&
             !curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L) && !curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, 60L) &&
             !curl_easy_setopt(c, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)d->start);
  GA_REQUIRE(set, GA_ERR_INTERNAL, "libcurl refuses an option");
  CURLcode rc = curl_easy_perform(c);
  if (rc == CURLE_RANGE_ERROR) { /* a server without ranges: from the beginning */
    d->start = 0;
    GA_REQUIRE(!ftruncate(fileno(d->file), 0), GA_ERR_IO, "%s: %s", part, strerror(errno));
    (void)curl_easy_setopt(c, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)0);
    rc = curl_easy_perform(c);
  }
  if (rc == CURLE_ABORTED_BY_CALLBACK)
    return ga_fail(GA_ERR_CANCELLED, "download stopped; %s is kept, the same command goes on", part);
  if (rc == CURLE_WRITE_ERROR && d->write_errno) return ga_fail(GA_ERR_IO, "%s: %s", part, strerror(d->write_errno));
  long code = 0;
  (void)curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &code);
  if (code == 416 && d->start) return GA_OK; /* nothing is left to send: what is here is judged by its hash */
  if (rc) return ga_fail(GA_ERR_IO, "%s: %s", url, *detail ? detail : curl_easy_strerror(rc));
  return GA_OK;
}

static ga_status flush(download *d, const char *part) {
  if (fflush(d->file) || fsync(fileno(d->file))) return ga_fail(GA_ERR_IO, "%s: %s", part, strerror(errno));
  return GA_OK;
}

ga_status pull_url(const char *url, const char *part) {
  GA_REQUIRE(!strncmp(url, "https://", 8) || is_loopback(url), GA_ERR_ARG, "%s: only https addresses are fetched", url);
  download d = {.file = fopen(part, "ab")};
  GA_REQUIRE(d.file, GA_ERR_IO, "%s: %s", part, strerror(errno));
  ga_status status = GA_OK;
  struct stat st;
  if (fstat(fileno(d.file), &st))
    status = ga_fail(GA_ERR_IO, "%s: %s", part, strerror(errno));
  else if (!S_ISREG(st.st_mode))
    status = ga_fail(GA_ERR_IO, "%s: not a regular file", part);
  if (status == GA_OK) {
    d.start = (uint64_t)st.st_size;
    d.curl = curl_easy_init();
    status = d.curl ? perform(&d, url, part) : ga_fail(GA_ERR_NOMEM, "libcurl cannot start");
    curl_easy_cleanup(d.curl);
    ga_status flushed = flush(&d, part);
    if (status == GA_OK) status = flushed;
  }
  if (fclose(d.file) && status == GA_OK) status = ga_fail(GA_ERR_IO, "%s: %s", part, strerror(errno));
  return status;
}
