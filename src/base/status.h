/* Error handling: every failure sets the thread's error text and returns a status. */
#ifndef GA_BASE_STATUS_H
#define GA_BASE_STATUS_H

#include "base/compiler.h"
#include "ga/base.h"

/* Formats the thread's error text and returns `status`, so that a caller can write `return ga_fail(...)`. */
ga_status ga_fail(ga_status status, const char *fmt, ...) GA_PRINTF(2, 3);

/* Inserts "<context>: " before the thread's error text, where a caller passes a failure on. fmt formats the context.
 * Returns `status`. */
ga_status ga_fail_in(ga_status status, const char *fmt, ...) GA_PRINTF(2, 3);

/* Returns GA_ERR_NOMEM. The error text has the bytes requested and their purpose, `what`. */
ga_status ga_fail_nomem(const char *what, size_t bytes);

#define GA_TRY(expr)                                                 \
  do {                                                               \
    ga_status ga_try_status_ = (expr);                               \
    if (GA_UNLIKELY(ga_try_status_ != GA_OK)) return ga_try_status_; \
  } while (0)

/* Like GA_TRY, for functions with one `out:` label and a local `ga_status status`. */
#define GA_TRY_OUT(expr)                        \
  do {                                          \
    status = (expr);                            \
    if (GA_UNLIKELY(status != GA_OK)) goto out; \
  } while (0)

#define GA_REQUIRE(cond, code, ...)                                \
  do {                                                             \
    if (GA_UNLIKELY(!(cond))) return ga_fail((code), __VA_ARGS__); \
  } while (0)

#define GA_REQUIRE_OUT(cond, code, ...)      \
  do {                                       \
    if (GA_UNLIKELY(!(cond))) {              \
      status = ga_fail((code), __VA_ARGS__); \
      goto out;                              \
    }                                        \
  } while (0)

/* --- parts of error texts --- */
/* Returns the path, or only its tail when the whole path would leave too little room in an error text. */
const char *ga_path_label(const char *path);
/* Copy of a text for error messages: at most 60 bytes, with control characters (base/text.h) as '?', and "..." when
 * cut. */
typedef struct ga_quoted {
  char text[64];
} ga_quoted;
ga_quoted ga_quote(const char *data, size_t bytes);

#endif
