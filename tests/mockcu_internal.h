/* What the files of the mock driver share. */
#ifndef GA_TESTS_MOCKCU_INTERNAL_H
#define GA_TESTS_MOCKCU_INTERNAL_H

#include "tests/mockcu.h"

#define SHARED_MOST 232448u

enum { ERR_INVALID_CONTEXT = 201, ERR_LAUNCH_RESOURCES = 701, ERR_CAPTURE = 900 };

typedef enum kind { CONTEXT = 0x11, MODULE, FUNCTION, STREAM, EVENT, POOL, GRAPH, EXEC } kind;

/* What every handle points to. */
typedef struct object {
  kind what;
  bool capturing;
  int nodes;
  int device; /* of a context, of a pool, of a stream */
  int shared_most;
  struct object *function; /* of a module */
  struct object *on;       /* of an event: the stream that recorded it */
  char name[96];
} object;

#define X(name, symbol, params) CUresult mock_##name params;
GA_CU_SYMBOLS(X)
#undef X

/* The first breach of the driver's rules is kept. */
void mock_misuse(const char *text);
/* Counts a call; the code it must fail with, or 0. */
CUresult mock_step(const char *name);
/* As mock_step, for calls that need a current context. */
CUresult mock_step_in(const char *name);
void *mock_make(kind what);
/* The object behind a handle of that kind, else NULL and a misuse. */
object *mock_is(void *handle, kind what);
/* Gives back even when the call is told to fail: what a driver does then is unknown, and not GA's leak. */
CUresult mock_drop(const char *name, void *handle, kind what);
/* The host has waited for the stream: page-locked memory that its copies read must not have changed since they were
 * enqueued. */
void mock_reads_done(const void *stream);
/* What `before` has enqueued will be done when `after` is. */
void mock_reads_follow(const void *after, const void *before);
/* Inside of memory that is mapped and open. */
bool mock_is_shared(const void *p, size_t bytes);
/* Not 0, and a misuse, when the stream captures. */
CUresult mock_idle(CUstream stream);

#define STEP(name)                       \
  do {                                   \
    CUresult step_rc_ = mock_step(name); \
    if (step_rc_) return step_rc_;       \
  } while (0)
#define STEP_IN(name)                       \
  do {                                      \
    CUresult step_rc_ = mock_step_in(name); \
    if (step_rc_) return step_rc_;          \
  } while (0)

#endif
