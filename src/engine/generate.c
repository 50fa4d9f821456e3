/* Text from a prompt: evaluate, sample, detokenise, until something says stop. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sized.h"
#include "base/status.h"
#include "engine/session.h"
#include "opdef/ops.h"

#define PENALTY_DEFAULT 64

static const session_out kept = {.n_rows = 1}; /* on the device, for the sampler */

/* Memory of the sampler: generator, result, history, biases. Where the model's device has no row for the chain that is
 * asked for, it works on the CPU, with a copy of the logits. */
typedef struct sampler {
  ga_session *session;
  ga_ctx *ctx;  /* that samples: the model's, or `host` */
  ga_ctx *host; /* owned; NULL: not needed */
  float *host_logits;
  ga_sample_desc desc;
  ga_sample_io io;
  void *buffer;
  int32_t *history; /* device, room for `window` */
  int32_t window;
  const ga_logit_bias *bias; /* as given, in host memory */
  int32_t n_bias;
  bool recorded; /* the device draws by itself behind each step */
  bool sampled;  /* and has, or will have, behind the last one */
} sampler;

static void sampler_destroy(sampler *sm) {
  ga_buffer_free(sm->ctx, sm->buffer);
  if (sm->host_logits) ga_host_free(sm->session->model->ctx, sm->host_logits);
  ga_ctx_destroy(sm->host);
}

/* Says where to sample. */
static ga_status choose_ctx(sampler *sm) {
  ga_plan *plan;
  void *p;
  sm->ctx = sm->session->model->ctx;
  ga_status status = ga_sample_plan(sm->ctx, &sm->desc, &plan);
  ga_plan_destroy(plan);
  if (status != GA_ERR_UNSUPPORTED) return status;
  ga_log(GA_LOG_INFO, "sampling on the CPU: %s", ga_error_text());
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = "cpu";
  GA_TRY(ga_ctx_create(&o, &sm->host));
  GA_TRY(ga_host_alloc(sm->session->model->ctx, (size_t)sm->desc.vocab * sizeof(float), &p));
  sm->host_logits = p;
  sm->ctx = sm->host;
  return GA_OK;
}

static ga_status sampler_create(sampler *sm, ga_session *s, const ga_generate_options *o) {
  ga_sample_desc desc = GA_SAMPLE_DESC_INIT;
  if (o->sample) GA_TRY(GA_SIZED_TAKE("generate: options.sample", ga_sample_desc, o->sample, &desc));
  const bool penalties = desc.repetition_penalty != 1 || desc.presence_penalty != 0 || desc.frequency_penalty != 0;
  int32_t window = !penalties            ? 0
                   : o->penalty_last < 0 ? s->context
                   : o->penalty_last     ? o->penalty_last
                                         : PENALTY_DEFAULT;
  window = (int32_t)ga_min_i64(window, s->context);
  const size_t state = 64, bias = (size_t)o->n_bias * sizeof(ga_logit_bias);
  *sm = (sampler){.session = s, .desc = desc, .window = window, .bias = o->bias, .n_bias = o->n_bias};
  /* Rows of the head beyond the tokenizer are padding: they have logits but no meaning. */
  sm->desc.vocab = (int64_t)ga_tokenizer_size(s->model->tokenizer);
  GA_TRY(choose_ctx(sm));
  ga_ctx *ctx = sm->ctx;
  GA_TRY(ga_buffer_alloc(ctx, state + bias + (size_t)window * sizeof(int32_t), &sm->buffer));
  char *at = sm->buffer;
  uint64_t rng[4];
  ga_sample_seed(rng, o->seed);
  GA_TRY(ga_copy_to_device(ctx, at, rng, sizeof rng, NULL));
  if (o->n_bias) GA_TRY(ga_copy_to_device(ctx, at + state, o->bias, bias, NULL));
  sm->history = (void *)(at + state + bias);
  sm->recorded = !sm->host && s->model->n_placements == 1 && ctx->device->graphs;
  sm->io = (ga_sample_io){.history = sm->history,
                          .bias = o->n_bias ? (void *)(at + state) : NULL,
                          .n_bias = o->n_bias,
                          .rng = (void *)at,
                          .id = (void *)(at + sizeof rng)};
  return GA_OK;
}

/* Token 0 is also what is drawn when no logit is a number and when biases ban every token: garbage must not be taken
 * for an answer. */
static ga_status check_first(const sampler *sm) {
  ga_session *s = sm->session;
  float logit;
  GA_TRY(ga_copy_to_host(s->model->ctx, &logit, session_logits(s), sizeof logit, NULL));
  GA_REQUIRE(logit > -INFINITY, GA_ERR_STATE,
             "generate: every logit is NaN or -infinity (the first is %g) after %d tokens", (double)logit, s->length);
  double biased = (double)logit;
  for (int32_t i = 0; i < sm->n_bias; i++)
    if (sm->bias[i].id == 0) biased += (double)sm->bias[i].bias;
  GA_REQUIRE((float)biased > -INFINITY, GA_ERR_STATE,
             "generate: the %d biases ban every one of %lld tokens (the logit of token 0 becomes %g); one must be left",
             sm->n_bias, (long long)sm->desc.vocab, biased);
  return GA_OK;
}

static ga_status sampler_sample(sampler *sm, int32_t *id) {
  ga_session *s = sm->session;
  if (sm->sampled) {
    GA_TRY(session_sampled(s, id));
    return *id ? GA_OK : check_first(sm);
  }
  int32_t n = (int32_t)ga_min_i64(sm->window, s->length);
  if (n) GA_TRY(ga_copy_to_device(sm->ctx, sm->history, s->tokens + s->length - n, (size_t)n * sizeof(int32_t), NULL));
  sm->io.n_history = n;
  sm->io.logits = session_logits(s);
  if (sm->host) {
    GA_TRY(ga_copy_to_host(s->model->ctx, sm->host_logits, session_logits(s), (size_t)sm->desc.vocab * sizeof(float),
                           NULL));
    sm->io.logits = sm->host_logits;
  }
  GA_TRY(ga_sample(sm->ctx, &sm->desc, &sm->io, NULL));
  GA_TRY(ga_copy_to_host(sm->ctx, id, sm->io.id, sizeof *id, NULL));
  return *id ? GA_OK : check_first(sm);
}

static ga_status sampler_step(sampler *sm, int32_t id) {
  session_sample sample;
  memset(&sample, 0, sizeof sample); /* compared byte by byte */
  sample.desc = sm->desc;
  sample.io.plain = sm->io;
  sample.io.plain.n_history = sm->window;
  sample.io.plain.logits = session_logits(sm->session);
  return session_step(sm->session, id, &sample);
}

/* The loop after the prompt. Every emitted token joins the session, except a last one that nothing follows. */
static ga_status generate_loop(sampler *sm, ga_detok *detok, const ga_generate_options *o, double start,
                               ga_generate_result *r) {
  ga_session *s = sm->session;
  const ga_tokenizer *tok = s->model->tokenizer;
  for (;;) {
    int32_t id;
    GA_TRY(sampler_sample(sm, &id));
    if (r->n_generated == 0) {
      r->prompt_seconds = ga_seconds() - start;
      start = ga_seconds();
    }
    r->n_generated++;
    r->generate_seconds = ga_seconds() - start;
    if (!o->ignore_eog && ga_tokenizer_is_eog(tok, id)) {
      r->finish = GA_FINISH_EOG;
      /* The turn's end belongs to the conversation: without it the next prompt would not continue a chat. */
      return s->length < s->context ? session_append(s, &id, 1, NULL, NULL, NULL) : GA_OK;
    }
    /* The next step begins before anyone reads the text. */
    sm->sampled = sm->recorded && r->n_generated < o->max_tokens && s->length < s->context;
    if (sm->sampled) GA_TRY(sampler_step(sm, id));
    ga_text text;
    GA_TRY(ga_detok_push(detok, id, &text));
    r->finish = GA_FINISH_STOPPED;
    if (o->text && o->text(o->user, id, text.data, text.bytes))
      return sm->sampled ? ga_session_rewind(s, s->length - 1) : GA_OK;
    r->finish = GA_FINISH_LENGTH;
    if (r->n_generated >= o->max_tokens) return GA_OK;
    r->finish = GA_FINISH_CONTEXT;
    if (sm->sampled) continue;
    if (s->length >= s->context) return GA_OK;
    GA_TRY(session_append(s, &id, 1, &kept, NULL, NULL));
    r->generate_seconds = ga_seconds() - start;
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

static ga_status generate_tokens(ga_session *s, const int32_t *ids, int32_t n, const ga_generate_options *o,
                                 ga_generate_result *r) {
  r->n_prompt = n;
  double start = ga_seconds();
  GA_TRY(session_append(s, ids, n, &kept, o->progress, o->user));
  sampler sm = {0};
  ga_detok *detok = NULL;
  ga_status status = sampler_create(&sm, s, o);
  if (status == GA_OK)
    status =
        ga_detok_create(s->model->tokenizer, GA_DETOK_CONTINUE | (o->show_special ? GA_DETOK_SPECIAL : 0u), &detok);
  if (status == GA_OK) status = generate_loop(&sm, detok, o, start, r);
  if (status == GA_OK && detok && r->finish != GA_FINISH_STOPPED) {
    ga_text rest = ga_detok_flush(detok);
    if (rest.bytes && o->text) (void)o->text(o->user, GA_TOK_NONE, rest.data, rest.bytes);
  }
  ga_detok_destroy(detok);
  sampler_destroy(&sm);
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
  const ga_status status = generate_tokens(s, ids, n, &full, &made);
  ga_sized_give(&made, sizeof made, result);
  return status;
}
