/* ga bench --model --energy: joules a prompt token and a generated token, and what the time of a generated token is at
 * least. */
#include "base/status.h"
#include "cmdline/interrupt.h"
#include "model/weight_spec.h"
#include "verify/bench/bench.h"
#include "verify/bench/bench_model.h"
#include "verify/bench/energy.h"

typedef struct figure {
  double tokens;
  energy_window window;
} figure;

/* Prompts, one after the other. */
static ga_status prompts(const bench_model_args *a, const bench_model_target *o, const int32_t *ids, float *logits,
                         energy_meter *m, figure *f) {
  *f = (figure){0};
  GA_TRY(energy_begin(m));
  do {
    GA_TRY(ga_session_rewind(o->session, 0));
    GA_TRY(ga_session_eval(o->session, ids, (int32_t)a->prompt, logits, 1, NULL, NULL));
    f->tokens += (double)a->prompt;
    if (interrupted()) return ga_fail(GA_ERR_CANCELLED, "stopped");
  } while (energy_seconds(m) < a->energy);
  return energy_end(m, &f->window);
}

/* Greedy answers of a->decode tokens behind a->depth tokens. */
static ga_status answers(const bench_model_args *a, const bench_model_target *o, const int32_t *ids, energy_meter *m,
                         figure *f) {
  ga_generate_options go = GA_GENERATE_OPTIONS_INIT;
  ga_generate_result r = GA_GENERATE_RESULT_INIT;
  go.max_tokens = (int32_t)a->decode;
  go.ignore_eog = true;
  go.seed = 1;
  *f = (figure){0};
  GA_TRY(ga_session_rewind(o->session, 0));
  if (a->depth > 1) GA_TRY(ga_session_eval(o->session, ids, (int32_t)a->depth - 1, NULL, 0, NULL, NULL));
  const ga_status loaded = ga_generate(o->session, ids + a->depth - 1, 1, &go, &r); /* kernels are loaded */
  GA_TRY(loaded);
  GA_TRY(energy_begin(m));
  do {
    GA_TRY(ga_session_rewind(o->session, (int32_t)a->depth - 1));
    GA_TRY(ga_generate(o->session, ids + a->depth - 1, 1, &go, &r));
    f->tokens += r.n_generated;
    if (interrupted()) return ga_fail(GA_ERR_CANCELLED, "stopped");
  } while (energy_seconds(m) < a->energy);
  return energy_end(m, &f->window);
}

/* What a generated token reads at least: weights, without the table that rows are looked up in, and keys and values. */
static double token_bytes(const bench_model_args *a, const bench_model_target *o) {
  const ga_model *model = o->model;
  const ga_weight *table = ga_weight_at(model, (weight_ref){.id = W_TOKEN_EMBD});
  const ga_dtype_traits *t = ga_dtype_info(table->dtype);
  double bytes = (double)a->depth * (double)model->info.kv_token_bytes;
  for (int32_t i = 0; i < model->n_placements; i++) bytes += (double)model->placements[i].plan.weights;
  if (ga_device_in_host_memory(model->placements[0].ctx->device)) return bytes; /* the table is the file's map */
  return bytes - (double)ga_weight_rows(table) * (double)ga_weight_cols(table) / t->block_elems * t->block_bytes;
}

static void print_energy(const char *name, const figure *f) {
  const energy_window *w = &f->window;
  printf("%-22s %8.1f tok/s  %8.4f J a token  %.0f W  (%.0f tokens, %.2f s)\n", name, f->tokens / w->seconds,
         w->joules / f->tokens, w->joules / w->seconds, f->tokens, w->seconds);
}

static void report_energy(const bench_model_args *a, const bench_model_target *o, const figure *prompt,
                          const figure *answer, double gbs) {
  const double bytes = token_bytes(a, o), floor = gbs > 0 ? bytes / gbs * 1e-9 : 0,
               watts = answer->window.joules / answer->window.seconds;
  if (a->json) {
    printf("{\"device\": \"%s\", \"prompt\": %lld, \"depth\": %lld, \"prompt_tok_s\": %.2f, \"prompt_joules\": %.5f, "
           "\"prompt_seconds\": %.2f, "
           "\"token_tok_s\": %.2f, \"token_joules\": %.5f, \"token_seconds\": %.2f, \"token_bytes\": %.0f, "
           "\"read_gbs\": %.1f}\n",
           ga_ctx_device_name(o->ctx[o->n_ctx - 1]), (long long)a->prompt, (long long)a->depth,
           prompt->tokens / prompt->window.seconds, prompt->window.joules / prompt->tokens, prompt->window.seconds,
           answer->tokens / answer->window.seconds, answer->window.joules / answer->tokens, answer->window.seconds,
           bytes, gbs);
    return;
  }
  char name[40];
  (void)snprintf(name, sizeof name, "prompts of %lld", (long long)a->prompt);
  print_energy(name, prompt);
  (void)snprintf(name, sizeof name, "generated after %lld", (long long)a->depth);
  print_energy(name, answer);
  printf("floor of a generated token: %.3f GB", bytes * 1e-9);
  if (floor > 0)
    printf(" at %.0f GB/s: %.3f ms, %.4f J at these watts", gbs, floor * 1e3, floor * watts);
  else
    printf(" (ga probe --device %s tells the bandwidth)", ga_ctx_device_name(o->ctx[o->n_ctx - 1]));
  printf("\n");
}

ga_status bench_model_energy(const bench_model_args *a, const bench_model_target *o, const int32_t *ids,
                             float *logits) {
  energy_meter m = {.ctx = o->ctx, .n = o->n_ctx};
  bench_ceiling ceiling;
  figure prompt, answer;
  GA_TRY(energy_begin(&m)); /* before the work, should there be no counter */
  GA_TRY(ga_session_rewind(o->session, 0));
  GA_TRY(ga_session_eval(o->session, ids, (int32_t)a->prompt, logits, 1, NULL, NULL)); /* kernels are loaded */
  GA_TRY(prompts(a, o, ids, logits, &m, &prompt));
  GA_TRY(answers(a, o, ids, &m, &answer));
  GA_TRY(bench_measure_ceiling(o->ctx[o->n_ctx - 1], &ceiling));
  report_energy(a, o, &prompt, &answer, ceiling.read_gbs);
  return GA_OK;
}
