/* Inside of a session: one sequence, its layer memory, and the buffers of its steps. */
#ifndef GA_ENGINE_SESSION_H
#define GA_ENGINE_SESSION_H

#include "engine/layer_memory.h"
#include "model/exec.h"

/* Integer inputs of a step, in one device buffer: units of each kind, written once, then what each step writes. */
typedef struct session_inputs {
  int32_t *device, *host; /* host: page-locked where the device is a GPU */
  size_t table, step;     /* offsets in int32; table: [n_kinds, n_pages] */
  size_t sequence;        /* [context + 1], on the device alone: tokens for penalties of steps that draw */
  bool unread;            /* the device may not have read host yet */
} session_inputs;

/* How the token after a step is drawn, on the device of the model. */
typedef struct session_sample {
  ga_sample_desc desc;
  ga_sample_fused_io io; /* session_step sets id, advance and, where penalties look back (n_history), the sequence */
} session_sample;

/* A step of one token, recorded: everything that differs between steps is read on the device. */
typedef struct session_graph {
  ga_graph *graph;
  int64_t max_kv;        /* as the plans in it have it */
  session_sample sample; /* the draw that is recorded after the step; desc.vocab 0: none */
  bool off;              /* the device has none */
} session_graph;

/* The part of a session at one placement of the model. */
typedef struct session_stage {
  ga_exec exec;
  session_inputs inputs;
  session_graph graph;
  ga_step step;
} session_stage;

struct ga_session {
  ga_model *model;
  session_stage stages[GA_MODEL_MAX_PLACEMENTS]; /* model->n_placements of them */
  ga_kv_cache kv;                                /* each layer's on the device that has the layer */
  layer_memory *memory;
  sequence_memory sequence; /* has all pages of the context from the beginning */
  int32_t context, batch, n_pages;
  int32_t length;        /* tokens that the session holds */
  int32_t n_evaluated;   /* tokens that steps have evaluated: more than length after going back */
  int32_t *tokens;       /* [context] the ids of those, for penalties */
  int32_t window;        /* tokens of the sequence on the device that are right, up to that place */
  int32_t device_length; /* length that the device's place is of, -1: none; then it holds the token that was drawn */
};

/* The part with the head. */
static inline session_stage *session_last(ga_session *s) { return &s->stages[s->model->n_placements - 1]; }
static inline const float *session_logits(ga_session *s) { return exec_result(&session_last(s)->exec); }

/* Logits of one row, in host memory, valid during the call. row counts from the first id of the eval call. */
typedef ga_status (*session_row_fn)(void *user, int32_t row, const float *logits);

/* Where the logits of the last n_rows ids go: copied to `into`, else given to `row` in order, else left on the
 * device, at session_logits (n_rows at most 1). */
typedef struct session_out {
  int32_t n_rows;
  float *into; /* [n_rows, vocab], host memory */
  session_row_fn row;
  void *user; /* of row */
} session_out;

/* Appends ids in chunks of `batch`. out NULL: no logits. progress may be NULL. */
GA_NODISCARD ga_status session_append(ga_session *session, const int32_t *ids, int32_t n, const session_out *out,
                                      ga_progress_fn progress, void *user);

/* Appends id, computes its logits and draws the next token, in one recorded launch: nothing crosses to the device when
 * id is what the last session_step has drawn. Enqueues; session_sampled waits. */
GA_NODISCARD ga_status session_step(ga_session *session, int32_t id, const session_sample *sample);
GA_NODISCARD ga_status session_sampled(ga_session *session, int32_t *id);

#endif
