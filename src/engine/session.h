/* Internals of a session: a runner for one sequence, with its layer memory. */
#ifndef GA_ENGINE_SESSION_H
#define GA_ENGINE_SESSION_H

#include "engine/runner.h"

struct ga_session {
  ga_model *model;
  runner *runner;
  ga_kv_cache kv; /* each layer's cache is on the device that has the layer */
  layer_memory *memory;
  sequence_memory sequence; /* units of the sequence: all pages of the context, taken when the session is created */
  ga_session_sizes sizes;
  int32_t n_pages;
  int32_t length;      /* tokens that the session holds */
  int32_t n_evaluated; /* tokens that steps have evaluated; more than length after the session was shortened */
  int32_t *tokens;     /* [context] ids of the session's tokens. The id that a step in flight draws is not known yet */
  int64_t n_taken, n_steps; /* steps [n_taken, n_steps) of the runner are in flight: at most two */
  row_draw *rows;           /* [batch] how each row of logits is used, for steps that pass rows to session_out.row */
  row_draw draws[2];        /* how the steps in flight draw their tokens, indexed by ticket % 2 */
  int32_t n_before[2];      /* number of tokens of the sequence before the drawn one, indexed by ticket % 2 */
};

/* Receives logits of one row, in host memory, during the call. row: the row's index among the ids of the session_append
 * call. */
typedef ga_status (*session_row_fn)(void *user, int32_t row, const float *logits);

/* Says how the logits of a session_append call are used. All zeros: the logits are not used. */
typedef struct session_out {
  int32_t n_rows; /* logits of the last n_rows ids are copied to `into` and given to `row`, in order */
  float *into;    /* NULL, or [n_rows, vocab] in host memory */
  session_row_fn row;
  void *user;           /* first argument of `row` */
  const row_draw *draw; /* NULL, or how the next token is drawn; session_take waits for it. n_rows must be 0 then */
} session_out;

/* Creates the runner of a session whose cache and layer memory exist. */
GA_NODISCARD ga_status session_create_runner(ga_session *session);

/* Appends n ids in steps of at most `batch` tokens. out NULL: logits are not used. progress may be NULL. */
GA_NODISCARD ga_status session_append(ga_session *session, const int32_t *ids, int32_t n, const session_out *out,
                                      ga_progress_fn progress, void *user);

#define SESSION_DRAWN (-1) /* stands for the id of the token that the step in flight draws */
/* Enqueues a step of one token, which joins the session at once, and a draw of the token after it. The session sets
 * ids and n_ids of the draw. */
GA_NODISCARD ga_status session_step(ga_session *session, int32_t id, const row_draw *draw);
/* Returns whether a step can be enqueued for a token that the step in flight still draws. */
bool session_may_step(const ga_session *session);
/* Waits for the draw of the oldest step in flight. */
GA_NODISCARD ga_status session_take(ga_session *session, part_result *out);
/* Ends all steps in flight and drops their draws. */
GA_NODISCARD ga_status session_drop_steps(ga_session *session);
/* Ends all steps in flight if `status` is an error. Returns status with its error text. */
GA_NODISCARD ga_status session_fail(ga_session *session, ga_status status);

#endif
