/* Inside of a session: a runner of one sequence, with its layer memory. */
#ifndef GA_ENGINE_SESSION_H
#define GA_ENGINE_SESSION_H

#include "engine/runner.h"

struct ga_session {
  ga_model *model;
  runner *runner;
  ga_kv_cache kv; /* each layer's on the device that has the layer */
  layer_memory *memory;
  sequence_memory sequence; /* has all pages of the context from the beginning */
  ga_session_sizes sizes;
  int32_t n_pages;
  int32_t length;           /* tokens that the session holds */
  int32_t n_evaluated;      /* tokens that steps have evaluated: more than length after going back */
  int32_t *tokens;          /* [context] the ids of those, but for one that a step under way draws */
  int64_t n_taken, n_steps; /* steps [n_taken, n_steps) of the runner are under way: two at most */
  row_draw *rows;           /* [batch] of a step whose rows are shown */
  row_draw draws[2];        /* of steps that draw, by ticket % 2 */
  int32_t n_before[2];      /* tokens before the one that is drawn, likewise */
};

/* Receives logits of one row, in host memory, during the call. row counts from the first id of the eval call. */
typedef ga_status (*session_row_fn)(void *user, int32_t row, const float *logits);

/* Uses of the logits of a call. All zeros: none. */
typedef struct session_out {
  int32_t n_rows; /* logits of the last n_rows ids are copied to `into` and given to `row`, in order */
  float *into;    /* NULL, or [n_rows, vocab] in host memory */
  session_row_fn row;
  void *user;           /* of row */
  const row_draw *draw; /* NULL, or how the next token is drawn, which session_take waits for; no rows then */
} session_out;

/* Makes the runner of a session that has its cache and its memory. */
GA_NODISCARD ga_status session_create_runner(ga_session *session);

/* Appends ids in chunks of `batch`. out NULL: no logits. progress may be NULL. */
GA_NODISCARD ga_status session_append(ga_session *session, const int32_t *ids, int32_t n, const session_out *out,
                                      ga_progress_fn progress, void *user);

#define SESSION_DRAWN (-1) /* the token that the step under way draws */
/* Enqueues a step of one token, which joins the session at once, and a draw of the one after it. The session fills in
 * ids and n_ids of the draw. */
GA_NODISCARD ga_status session_step(ga_session *session, int32_t id, const row_draw *draw);
/* Can a step be enqueued whose token is still being drawn? */
bool session_may_step(const ga_session *session);
/* Waits for the draw of the oldest step under way. */
GA_NODISCARD ga_status session_take(ga_session *session, part_result *out);
/* Ends all steps under way; their draws are lost. */
GA_NODISCARD ga_status session_drop_steps(ga_session *session);
/* Returns status with its text. If it is an error, no step is under way any more. */
GA_NODISCARD ga_status session_fail(ga_session *session, ga_status status);

#endif
