/* Text from a prompt: evaluate, sample, detokenise, until something says stop. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/sized.h"
#include "base/status.h"
#include "engine/session.h"
#include "opdef/ops.h"

#define PENALTY_DEFAULT 64

/* An answer under way. */
typedef struct generation {
  ga_session *session;
  const ga_generate_options *options;
  ga_generate_result *result;
  ga_detok *detok;
  ga_sample_desc sample;
  row_draw draw;
  draw_history history;
  uint64_t rng[4];
  bool before_text; /* a step is enqueued before the text of its token is handed out */
  bool before_draw; /* and before its token is drawn */
  double start;
} generation;

/* --- the draws --- */

static int32_t penalty_window(const ga_session *s, const ga_sample_desc *d, const ga_generate_options *o) {
  const bool penalties = d->repetition_penalty != 1 || d->presence_penalty != 0 || d->frequency_penalty != 0;
  const int32_t window = !penalties            ? 0
                         : o->penalty_last < 0 ? s->sizes.context
                         : o->penalty_last     ? o->penalty_last
                                               : PENALTY_DEFAULT;
  return (int32_t)ga_min_i64(window, s->sizes.context);
}

/* Ranks compare the ids that they evaluate, and must know them. */
static void choose_order(generation *g) {
  const ga_model *model = g->session->model;
  g->before_text = true;
  for (int32_t i = 0; i < model->n_placements; i++)
    if (ga_device_works_in_calls(model->placements[i].ctx->device)) g->before_text = false;
  g->before_draw = g->before_text && !model->comm;
}

static ga_status generation_begin(generation *g) {
  ga_session *s = g->session;
  const ga_generate_options *o = g->options;
  g->sample = (ga_sample_desc)GA_SAMPLE_DESC_INIT;
  if (o->sample) GA_TRY(GA_SIZED_TAKE("generate: options.sample", ga_sample_desc, o->sample, &g->sample));
  g->sample.vocab = runner_n_vocab(s->runner);
  GA_TRY(runner_check_sample(s->runner, &g->sample));
  ga_sample_seed(g->rng, o->seed);
  g->history = (draw_history)DRAW_HISTORY_INIT;
  g->draw = (row_draw){.sample = &g->sample,
                       .window = penalty_window(s, &g->sample, o),
                       .bias = o->bias,
                       .n_bias = o->n_bias,
                       .rng = g->rng,
                       .history = &g->history};
  choose_order(g);
  return ga_detok_create(s->model->tokenizer, GA_DETOK_CONTINUE | (o->show_special ? GA_DETOK_SPECIAL : 0u), &g->detok);
}

static void generation_end(generation *g) {
  runner_forget(g->session->runner, &g->history);
  ga_detok_destroy(g->detok);
}

/* Token 0 is also what is drawn when no logit is a number and when biases ban every token: garbage must not be taken
 * for an answer. first: the logit of token 0, behind n tokens. */
static ga_status check_first(const generation *g, float first, int32_t n) {
  const ga_generate_options *o = g->options;
  double biased = (double)first;
  GA_REQUIRE(first > -INFINITY, GA_ERR_STATE,
             "generate: every logit is NaN or -infinity (the first is %g) after %d tokens", biased, n);
  for (int32_t i = 0; i < o->n_bias; i++)
    if (o->bias[i].id == 0) biased += (double)o->bias[i].bias;
  GA_REQUIRE((float)biased > -INFINITY, GA_ERR_STATE,
             "generate: the %d biases ban every one of %lld tokens (the logit of token 0 becomes %g); one must be left",
             o->n_bias, (long long)g->sample.vocab, biased);
  return GA_OK;
}

/* Takes the next token. is_ahead: the step that evaluates it has been enqueued. */
static ga_status take_token(generation *g, bool is_ahead, int32_t *id) {
  ga_session *s = g->session;
  ga_generate_result *r = g->result;
  part_result drawn;
  GA_TRY(session_take(s, &drawn));
  *id = drawn.next;
  if (!*id) {
    const ga_status status = check_first(g, drawn.first, s->length - is_ahead);
    if (status != GA_OK && is_ahead) GA_TRY(ga_session_rewind(s, s->length - 1));
    GA_TRY(status);
  }
  const double now = ga_seconds();
  if (!r->n_generated) {
    r->prompt_seconds = now - g->start;
    g->start = now;
  }
  r->n_generated++;
  r->generate_seconds = now - g->start;
  return GA_OK;
}

/* --- the loop --- */

/* The turn's end belongs to the conversation: without it the next prompt would not continue a chat. */
static ga_status append_end(ga_session *s, int32_t id, bool is_ahead) {
  return is_ahead || s->length >= s->sizes.context ? GA_OK : session_append(s, &id, 1, NULL, NULL, NULL);
}

/* Will there be another token after n of them? */
static bool has_next_token(const generation *g, int32_t n) {
  return n < g->options->max_tokens && g->session->length < g->session->sizes.context;
}

/* The loop after the prompt. Every emitted token joins the session, except a last one that nothing follows. */
static ga_status generate_loop(generation *g) {
  ga_session *s = g->session;
  const ga_generate_options *o = g->options;
  ga_generate_result *r = g->result;
  for (;;) {
    int32_t id;
    /* The first step of one token makes plans and loads kernels, while the first token would wait. */
    bool is_ahead = g->before_draw && r->n_generated && has_next_token(g, r->n_generated + 1) && session_may_step(s);
    if (is_ahead) GA_TRY(session_step(s, SESSION_DRAWN, &g->draw));
    GA_TRY(take_token(g, is_ahead, &id));
    if (!o->ignore_eog && ga_tokenizer_is_eog(s->model->tokenizer, id)) {
      r->finish = GA_FINISH_EOG;
      return append_end(s, id, is_ahead);
    }
    if (!is_ahead && g->before_text && has_next_token(g, r->n_generated)) {
      GA_TRY(session_step(s, id, &g->draw));
      is_ahead = true;
    }
    ga_text text;
    GA_TRY(ga_detok_push(g->detok, id, &text));
    r->finish = GA_FINISH_STOPPED;
    if (o->text && o->text(o->user, id, text.data, text.bytes))
      return is_ahead ? ga_session_rewind(s, s->length - 1) : GA_OK;
    r->finish = r->n_generated >= o->max_tokens ? GA_FINISH_LENGTH : GA_FINISH_CONTEXT;
    if (is_ahead) continue;
    if (!has_next_token(g, r->n_generated)) return GA_OK;
    GA_TRY(session_step(s, id, &g->draw));
  }
}

static ga_status check_generate_options(const ga_session *s, const ga_generate_options *o) {
  GA_REQUIRE(o->max_tokens >= 1, GA_ERR_ARG, "generate: max_tokens is %d; must be at least 1", o->max_tokens);
  GA_REQUIRE(o->penalty_last >= -1, GA_ERR_ARG, "generate: penalty_last is %d; must be -1 (all) or more",
             o->penalty_last);
  GA_REQUIRE(o->n_bias >= 0 && (o->bias || !o->n_bias), GA_ERR_ARG, "generate: n_bias is %d, bias is %s", o->n_bias,
             o->bias ? "set" : "null");
  GA_REQUIRE(s->model->tokenizer, GA_ERR_UNSUPPORTED, "generate: the model file has no tokenizer");
  return GA_OK;
}

/* No step is under way afterwards: what it draws would go to a generation that has ended. */
static ga_status generate_tokens(generation *g, const int32_t *ids, int32_t n) {
  const ga_generate_options *o = g->options;
  const session_out drawn = {.draw = &g->draw};
  GA_TRY(session_append(g->session, ids, n, &drawn, o->progress, o->user));
  ga_status status = generate_loop(g);
  if (status == GA_OK) return session_drop_steps(g->session);
  return session_fail(g->session, status);
}

static ga_status generate_text(ga_session *s, const int32_t *ids, int32_t n, const ga_generate_options *o,
                               ga_generate_result *r) {
  generation g = {.session = s, .options = o, .result = r, .history = DRAW_HISTORY_INIT, .start = ga_seconds()};
  r->n_prompt = n;
  ga_status status = generation_begin(&g);
  if (status == GA_OK) status = generate_tokens(&g, ids, n);
  if (status == GA_OK && r->finish != GA_FINISH_STOPPED) {
    ga_text rest = ga_detok_flush(g.detok);
    if (rest.bytes && o->text) (void)o->text(o->user, GA_TOK_NONE, rest.data, rest.bytes);
  }
  generation_end(&g);
  return status;
}

ga_status ga_generate(ga_session *s, const int32_t *ids, int32_t n, const ga_generate_options *options,
                      ga_generate_result *result) {
  GA_REQUIRE(s && options && result, GA_ERR_ARG, "generate: session, options or result is null");
  ga_generate_options full;
  GA_TRY(GA_SIZED_TAKE("generate: options", ga_generate_options, options, &full));
  GA_TRY(ga_sized_check_out("generate: result", result, ga_generate_result_first));
  GA_TRY(check_generate_options(s, &full));
  ga_generate_result made = GA_GENERATE_RESULT_INIT;
  const ga_status status = generate_text(s, ids, n, &full, &made);
  ga_sized_give(&made, sizeof made, result);
  return status;
}
