#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define TEXT_BYTES  1024
#define LABEL_BYTES 200 /* of a path: leaves room for the rest of an error text */

static GA_THREAD_LOCAL char error_text[TEXT_BYTES];

static const char *const status_names[] = {
    [GA_OK] = "GA_OK",
    [GA_ERR_ARG] = "GA_ERR_ARG",
    [GA_ERR_SHAPE] = "GA_ERR_SHAPE",
    [GA_ERR_DTYPE] = "GA_ERR_DTYPE",
    [GA_ERR_UNSUPPORTED] = "GA_ERR_UNSUPPORTED",
    [GA_ERR_NOMEM] = "GA_ERR_NOMEM",
    [GA_ERR_DEVICE] = "GA_ERR_DEVICE",
    [GA_ERR_COMM] = "GA_ERR_COMM",
    [GA_ERR_IO] = "GA_ERR_IO",
    [GA_ERR_FORMAT] = "GA_ERR_FORMAT",
    [GA_ERR_STATE] = "GA_ERR_STATE",
    [GA_ERR_TIMEOUT] = "GA_ERR_TIMEOUT",
    [GA_ERR_INTERNAL] = "GA_ERR_INTERNAL",
    [GA_ERR_CANCELLED] = "GA_ERR_CANCELLED",
    [GA_ERR_BUSY] = "GA_ERR_BUSY",
};

const char *ga_status_name(ga_status status) {
  size_t i = (size_t)status;
  return i < GA_COUNT_OF(status_names) ? status_names[i] : "unknown ga_status";
}

const char *ga_error_text(void) { return error_text; }

#define STR_(x) #x
#define STR(x)  STR_(x)
const char *ga_version(void) { return STR(GA_VERSION_MAJOR) "." STR(GA_VERSION_MINOR) "." STR(GA_VERSION_PATCH); }

static void set_text(const char *fmt, va_list args) GA_PRINTF(1, 0);
static void set_text(const char *fmt, va_list args) {
  /* Formatted aside first: an argument may point into error_text itself. */
  char text[TEXT_BYTES];
  (void)vsnprintf(text, sizeof text, fmt, args);
  memcpy(error_text, text, sizeof text);
}

ga_status ga_fail(ga_status status, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  set_text(fmt, args);
  va_end(args);
  return status;
}

ga_status ga_error_set(ga_status status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  set_text(format, args);
  va_end(args);
  return status;
}

ga_status ga_fail_in(ga_status status, const char *fmt, ...) {
  char text[TEXT_BYTES];
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  size_t n = strlen(text), rest = strlen(error_text);
  if (n + 3 < sizeof text) {
    memcpy(text + n, ": ", 2);
    n += 2;
    if (rest > sizeof text - 1 - n) rest = sizeof text - 1 - n;
    memcpy(text + n, error_text, rest);
    text[n + rest] = 0;
  }
  memcpy(error_text, text, sizeof text);
  return status;
}

ga_status ga_fail_nomem(const char *what, size_t bytes) {
  return ga_fail(GA_ERR_NOMEM, "%s: out of memory, %zu bytes asked for", what, bytes);
}

const char *ga_path_label(const char *path) {
  size_t n = strlen(path);
  return path + (n > LABEL_BYTES ? n - LABEL_BYTES : 0);
}

ga_quoted ga_quote(const char *data, size_t bytes) {
  ga_quoted q;
  const size_t most = sizeof q.text - 4;
  size_t out = 0, at = 0;
  while (at < bytes && out < most) {
    const size_t control = ga_text_control(data + at, bytes - at);
    q.text[out++] = control ? '?' : data[at];
    at += control ? control : 1;
  }
  memcpy(q.text + out, at < bytes ? "..." : "", at < bytes ? 4 : 1);
  return q;
}
