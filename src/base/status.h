/* The one error path: set the thread's text, return the code.
 *
 *   GA_REQUIRE(k > 0, GA_ERR_SHAPE, "gemm: k = %lld; must be at least 1", (long long)k);
 *   GA_TRY(ga_arena_alloc(...));
 */
#ifndef GA_BASE_STATUS_H
#define GA_BASE_STATUS_H

#include "base/compiler.h"
#include "ga/base.h"

/* Formats the thread's error text and returns `status`, so that `return ga_fail(...)` reads as one step. */
ga_status ga_fail(ga_status status, const char *fmt, ...) GA_PRINTF(2, 3);

/* Puts "<context>: " before the text of a failure that is on its way up. Returns `status`. */
ga_status ga_fail_in(ga_status status, const char *fmt, ...) GA_PRINTF(2, 3);

/* Returns GA_ERR_NOMEM with a text that has the bytes requested and their purpose. */
ga_status ga_fail_nomem(const char *what, size_t bytes);

#define GA_TRY(expr)                                                 \
  do {                                                               \
    ga_status ga_try_status_ = (expr);                               \
    if (GA_UNLIKELY(ga_try_status_ != GA_OK)) return ga_try_status_; \
  } while (0)

/* GA_TRY for functions with one `out:` label and a local `ga_status status`. */
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

/* Parts of error texts. */
/* The path, or only its tail when the whole would push the rest out of an error text. */
const char *ga_path_label(const char *path);
/* A copy of a text for error messages: at most 60 bytes, control characters (base/text.h) as '?', "..." when cut. */
typedef struct ga_quoted {
  char text[64];
} ga_quoted;
ga_quoted ga_quote(const char *data, size_t bytes);

#endif
