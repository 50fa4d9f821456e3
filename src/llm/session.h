/* Inside of a session: one sequence, its pages, and the buffers of its steps. */
#ifndef GA_LLM_SESSION_H
#define GA_LLM_SESSION_H

#include "model/forward.h"

#define SESSION_PAGE_TOKENS 64
/* Logits are computed for at most this many bytes of rows at a time: a vocabulary of 262144 makes 1 MiB a row. */
#define SESSION_LOGITS_BYTES ((size_t)16 << 20)

/* Integer inputs of a step, one device buffer. Offsets in int32. */
typedef struct session_inputs {
  int32_t *device, *host;
  size_t count;
  size_t ids, positions, slots, q_start, kv_len, table; /* offsets */
} session_inputs;

/* A step of one token, recorded: everything that differs between steps is read on the device. */
typedef struct session_graph {
  ga_graph *graph;
  int64_t max_kv; /* as the plans in it have it */
  bool off;       /* the device has none */
} session_graph;

struct ga_session {
  ga_model *model;
  ga_forward forward;
  ga_kv_cache kv;
  session_inputs inputs;
  session_graph graph;
  int32_t context, batch, n_pages;
  int32_t length;  /* tokens in the cache */
  int32_t *tokens; /* [context] the ids of those, for penalties */
};

/* Logits of one row, in host memory, valid during the call. row counts from the first id of the eval call. */
typedef ga_status (*session_row_fn)(void *user, int32_t row, const float *logits);

/* Appends ids in chunks of `batch`; rows [n - n_rows, n) go to `row`, in order. keep_last: leave the last row's logits
 * on the device at session->forward.logits instead of calling `row`; n_rows must then be 1. */
GA_NODISCARD ga_status session_append(ga_session *session, const int32_t *ids, int32_t n, int32_t n_rows,
                                      bool keep_last, session_row_fn row, void *user, ga_progress_fn progress,
                                      void *progress_user);

#endif
