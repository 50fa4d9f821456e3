/* The error path of ga/base.h for the program: its commands fail with a status and a text, as the library does. */
#ifndef GA_CMDLINE_ERROR_H
#define GA_CMDLINE_ERROR_H

#include "ga/base.h"

#define TRY(expr)                                 \
  do {                                            \
    ga_status try_status_ = (expr);               \
    if (try_status_ != GA_OK) return try_status_; \
  } while (0)

#define REQUIRE(cond, code, ...)                           \
  do {                                                     \
    if (!(cond)) return ga_error_set((code), __VA_ARGS__); \
  } while (0)

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static inline ga_status fail_nomem(const char *what, size_t bytes) {
  return ga_error_set(GA_ERR_NOMEM, "%s: out of memory, %zu bytes asked for", what, bytes);
}

#endif
