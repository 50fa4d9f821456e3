/* GA, base: status codes, error text, version, log callback.
 *
 * Every function that can fail returns a ga_status. On failure a text that names the operation, the argument, the
 * value seen and the values allowed is kept per thread: ga_error_text(). On failure outputs are unchanged or zeroed.
 *
 * Releasing. A handle (an opaque struct, whoever made it) is released by the _destroy of its type; no other word is
 * used. Plain memory (buffers, texts, arrays of ids) is released by the _free beside the function that gave it. Both
 * take NULL. A result whose comment says "owned by" must not be released by the caller.
 */
#ifndef GA_BASE_H
#define GA_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define GA_API               __attribute__((visibility("default")))
#define GA_NODISCARD         __attribute__((warn_unused_result))
#define GA_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define GA_API
#define GA_NODISCARD
#define GA_PRINTF(fmt, args)
#endif

#define GA_VERSION_MAJOR 0
#define GA_VERSION_MINOR 1
#define GA_VERSION_PATCH 0

/* Status codes. Their values never change; new codes are appended. */
typedef enum ga_status {
  GA_OK = 0,
  GA_ERR_ARG = 1,         /* an argument is null, out of range or contradicts another */
  GA_ERR_SHAPE = 2,       /* shapes or strides do not fit together, or a size overflows */
  GA_ERR_DTYPE = 3,       /* the operation does not take this element type */
  GA_ERR_UNSUPPORTED = 4, /* the call is valid, but no kernel of this build or no present device can do it */
  GA_ERR_NOMEM = 5,       /* host or device memory is exhausted */
  GA_ERR_DEVICE = 6,      /* the device or its driver reported a fault */
  GA_ERR_COMM = 7,        /* another rank or the network failed */
  GA_ERR_IO = 8,          /* a file or socket could not be read or written */
  GA_ERR_FORMAT = 9,      /* a file or message does not follow its format */
  GA_ERR_STATE = 10,      /* called in the wrong order, or on a handle that has failed */
  GA_ERR_TIMEOUT = 11,    /* a bounded wait or a bounded number of steps ran out */
  GA_ERR_INTERNAL = 12,   /* a defect in GA itself */
  GA_ERR_CANCELLED = 13,  /* the caller's callback asked to stop */
  GA_ERR_BUSY = 14        /* a queue or pool is full for now: try again later */
} ga_status;

/* Returns the short name of a status, such as "GA_ERR_SHAPE": a static string, never NULL. */
GA_API const char *ga_status_name(ga_status status);

/* Returns the text of the last failure in this thread; "" if there was none. The text is valid until the next
 * failing call in this thread. */
GA_API const char *ga_error_text(void);

/* Sets this thread's error text from a printf format, cut at 1023 bytes, and returns `status`. Programs and bindings
 * report their own failures with it: `return ga_error_set(GA_ERR_IO, ...)`. An argument may be the pointer of
 * ga_error_text(): "%s: %s" puts a context before the old text. */
GA_API ga_status ga_error_set(ga_status status, const char *format, ...) GA_PRINTF(2, 3);

/* Returns the version of the running library as "MAJOR.MINOR.PATCH", a static string. */
GA_API const char *ga_version(void);

/* A callback that long work calls every few milliseconds. A result other than 0 stops the work with
 * GA_ERR_CANCELLED. The callback must not call GA. */
typedef int (*ga_abort_fn)(void *user);

/* Sets this thread's abort callback; NULL (the default) = none. These functions call it: ga_tokenize every few
 * milliseconds; ga_chat_encode and ga_template_encode once the text is rendered; ga_dist_exec_run between tiles.
 * Rendering does not call it: ga_template_limits bounds its steps. A stop of ga_dist_exec_run ends the run on all
 * ranks. */
GA_API void ga_abort_set(ga_abort_fn fn, void *user);
/* Sets this thread's abort callback of ops; NULL (the default) = none. Ops on a CPU, and calls made of them, call it
 * between pieces of their work. When it asks to stop they return GA_ERR_CANCELLED, and outputs are undefined. Ops on a
 * GPU and on the device "ref" do not call it. */
GA_API void ga_abort_ops_set(ga_abort_fn fn, void *user);

typedef enum ga_log_level { GA_LOG_DEBUG = 0, GA_LOG_INFO = 1, GA_LOG_WARN = 2, GA_LOG_ERROR = 3 } ga_log_level;

/* A callback that receives one line of text, without a newline. It may be called from any thread. */
typedef void (*ga_log_fn)(void *user, ga_log_level level, const char *text);

/* Sets the process-wide log callback, which gets lines of level `least` and above. NULL (the default) discards all
 * lines: the library itself never prints. */
GA_API void ga_log_set(ga_log_fn fn, void *user, ga_log_level least);

#ifdef __cplusplus
}
#endif
#endif
