/* Inside of a session: one sequence, its pages, and the buffers of its steps. */
#ifndef GA_LLM_SESSION_H
#define GA_LLM_SESSION_H

#include "model/forward.h"

/* Integer inputs of a step, one device buffer. Offsets in int32. */
typedef struct session_inputs {
  int32_t *device, *host;
  size_t ids, positions, slots, q_start, kv_len; /* of several tokens */
  size_t place;    /* of one token: id, position, slot, kv_len, q_start[2] */
  size_t table;    /* pages; uploaded once */
  size_t sequence; /* [context + 1], on the device alone: tokens for penalties of steps that draw */
} session_inputs;

/* How the token after a step is drawn, on the device of the model. */
typedef struct session_draw {
  ga_sample_desc desc;
  ga_sample_io io; /* session_step sets id, advance and, where penalties look back (n_history), the sequence */
} session_draw;

/* A step of one token, recorded: everything that differs between steps is read on the device. */
typedef struct session_graph {
  ga_graph *graph;
  int64_t max_kv;    /* as the plans in it have it */
  session_draw draw; /* what follows the step; desc.vocab 0: nothing */
  bool off;          /* the device has none */
} session_graph;

/* What a session has at each place of the model. */
typedef struct session_part {
  ga_forward forward;
  session_inputs inputs;
  session_graph graph;
  ga_step step;
} session_part;

struct ga_session {
  ga_model *model;
  session_part parts[GA_MODEL_MAX_PLACES]; /* model->n_places of them */
  ga_kv_cache kv; /* each layer's on the device that has the layer */
  int32_t context, batch, n_pages;
  int32_t length;  /* tokens in the cache */
  int32_t *tokens; /* [context] the ids of those, for penalties */
  int32_t placed;  /* length that the device's place is of, -1: none; then it holds the token that was drawn */
};

/* The part with the head. */
static inline session_part *session_last(ga_session *s) { return &s->parts[s->model->n_places - 1]; }
static inline const float *session_logits(ga_session *s) { return session_last(s)->forward.logits; }

/* Logits of one row, in host memory, valid during the call. row counts from the first id of the eval call. */
typedef ga_status (*session_row_fn)(void *user, int32_t row, const float *logits);

/* Appends ids in chunks of `batch`; rows [n - n_rows, n) go to `row`, in order. keep_last: leave the last row's logits
 * on the device at session_logits instead of calling `row`; n_rows must then be 1. */
GA_NODISCARD ga_status session_append(ga_session *session, const int32_t *ids, int32_t n, int32_t n_rows,
                                      bool keep_last, session_row_fn row, void *user, ga_progress_fn progress,
                                      void *progress_user);

/* Appends id, computes its logits and draws the next token, in one recorded launch: nothing crosses to the device when id is what the last
 * session_step has drawn. Enqueues; session_drawn waits. */
GA_NODISCARD ga_status session_step(ga_session *session, int32_t id, const session_draw *draw);
GA_NODISCARD ga_status session_drawn(ga_session *session, int32_t *id);

#endif
