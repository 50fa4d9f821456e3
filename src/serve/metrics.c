#include "serve/metrics.h"

#include <string.h>

/* Bounds as vLLM has them, so that its dashboards fit. Each list ends with 0. */
static const double sv_first_bounds[] = {.001, .005, .01, .02, .04, .06, .08, .1,  .25, .5,   .75, 1,
                                         2.5,  5,    7.5, 10,  20,  40,  80,  160, 640, 2560, 0};
static const double sv_inter_bounds[] = {.01, .025, .05, .075, .1,  .15, .2, .3, .4, .5,
                                         .75, 1,    2.5, 5,    7.5, 10,  20, 40, 80, 0};
static const double sv_time_bounds[] = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,   20,
                                        30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680, 0};
static const double sv_token_bounds[] = {1,   2,   5,   10,  20,  50,  100, 200, 500, 1e3,
                                         2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 0};

static const double sv_n_bounds[] = {1, 2, 5, 10, 20, 0};
static const double sv_step_bounds[] = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 0};

static const struct {
  const char *name, *help;
  const double *bounds;
} sv_kinds[SV_HISTOGRAMS] = {
    {"time_to_first_token_seconds", "Seconds from the arrival of a request to its first token.", sv_first_bounds},
    {"inter_token_latency_seconds", "Seconds between tokens of a request.", sv_inter_bounds},
    {"e2e_request_latency_seconds", "Seconds from the arrival of a request to its end.", sv_time_bounds},
    {"request_queue_time_seconds", "Seconds that requests waited to run.", sv_time_bounds},
    {"request_inference_time_seconds", "Seconds that requests ran.", sv_time_bounds},
    {"request_prefill_time_seconds", "Seconds from the start of requests to their first token.", sv_time_bounds},
    {"request_decode_time_seconds", "Seconds from the first token of requests to the last.", sv_time_bounds},
    {"request_prompt_tokens", "Tokens of the prompts of requests.", sv_token_bounds},
    {"request_generation_tokens", "Tokens that were generated for requests.", sv_token_bounds},
    {"request_params_max_tokens", "max_tokens of requests.", sv_token_bounds},
    {"request_max_num_generation_tokens", "Tokens of the longest of a request's answers.", sv_token_bounds},
    {"request_params_n", "n of requests.", sv_n_bounds},
};
static const char *const sv_finishes[] = {"stop", "length", "abort", "error"};

void sv_metrics_init(sv_metrics *m) {
  *m = (sv_metrics){0};
  (void)pthread_mutex_init(&m->lock, NULL);
}

void sv_metrics_destroy(sv_metrics *m) { (void)pthread_mutex_destroy(&m->lock); }

void sv_observe(sv_metrics *m, sv_histogram_kind kind, double value, uint64_t times) {
  const double *bounds = sv_kinds[kind].bounds;
  size_t i = 0;
  while (bounds[i] > 0 && value > bounds[i]) i++;
  (void)pthread_mutex_lock(&m->lock);
  m->histograms[kind].counts[i] += times;
  m->histograms[kind].sum += value * (double)times;
  (void)pthread_mutex_unlock(&m->lock);
}

void sv_count_finish(sv_metrics *m, const char *finish) {
  size_t i = 0;
  while (i < 3 && strcmp(finish, sv_finishes[i]) != 0) i++;
  (void)pthread_mutex_lock(&m->lock);
  m->finished[i]++;
  (void)pthread_mutex_unlock(&m->lock);
}

void sv_count_rejected(sv_metrics *m) {
  (void)pthread_mutex_lock(&m->lock);
  m->rejected++;
  (void)pthread_mutex_unlock(&m->lock);
}

/* --- text --- */

static void sv_put_metric_head(sv_text *t, const char *name, const char *type, const char *help) {
  sv_putf(t, "# HELP vllm:%s %s\n# TYPE vllm:%s %s\n", name, help, name, type);
}

static void sv_put_metric(sv_text *t, const char *name, const char *type, const char *labels, double v,
                          const char *help) {
  sv_put_metric_head(t, name, type, help);
  sv_putf(t, "vllm:%s{%s} %.17g\n", name, labels, v);
}

static void sv_put_histogram(sv_text *t, const sv_histogram *h, const char *name, const char *help,
                             const double *bounds, const char *labels) {
  uint64_t total = 0;
  size_t i = 0;
  sv_put_metric_head(t, name, "histogram", help);
  for (; bounds[i] > 0; i++) {
    total += h->counts[i];
    sv_putf(t, "vllm:%s_bucket{%s,le=\"%g\"} %llu\n", name, labels, bounds[i], (unsigned long long)total);
  }
  total += h->counts[i];
  sv_putf(t, "vllm:%s_bucket{%s,le=\"+Inf\"} %llu\n", name, labels, (unsigned long long)total);
  sv_putf(t, "vllm:%s_sum{%s} %.17g\nvllm:%s_count{%s} %llu\n", name, labels, h->sum, name, labels,
          (unsigned long long)total);
}

/* Ours alone; with GA_ENGINE_TIME_STEPS. */
static void sv_put_step_gaps(sv_text *t, const ga_engine_stats *s, const char *labels) {
  if (!s->step_gaps) return;
  sv_puts(t,
          "# HELP ga:step_gap_seconds Seconds without a kernel between two steps.\n# TYPE ga:step_gap_seconds gauge\n");
  sv_putf(t, "ga:step_gap_seconds{%s,quantile=\"0.5\"} %.17g\n", labels, s->step_gap_median);
  sv_putf(t, "ga:step_gap_seconds{%s,quantile=\"0.99\"} %.17g\n", labels, s->step_gap_p99);
  sv_puts(t, "# HELP ga:step_gaps_total Steps that were timed so.\n# TYPE ga:step_gaps_total counter\n");
  sv_putf(t, "ga:step_gaps_total{%s} %llu\n", labels, (unsigned long long)s->step_gaps);
}

static void sv_put_ga_metric(sv_text *t, const char *name, const char *type, const char *labels, double v,
                             const char *help) {
  sv_putf(t, "# HELP ga:%s %s\n# TYPE ga:%s %s\nga:%s{%s} %.17g\n", name, help, name, type, name, labels, v);
}

/* Ours alone; with --expert-cache. */
static void sv_put_expert_cache(sv_text *t, const ga_engine_stats *s, const char *l) {
  if (!s->expert_slots) return;
  sv_put_ga_metric(t, "expert_cache_queries_total", "counter", l, (double)s->expert_lookups,
                   "Experts of steps that were looked up in the GPU's cache.");
  sv_put_ga_metric(t, "expert_cache_hits_total", "counter", l, (double)s->expert_hits,
                   "Experts of steps that were in the GPU's cache.");
  sv_put_ga_metric(t, "expert_cache_loads_total", "counter", l, (double)s->expert_loads,
                   "Experts that were loaded into the GPU's cache.");
  sv_put_ga_metric(t, "expert_cache_usage_perc", "gauge", l, (double)s->expert_slots_used / (double)s->expert_slots,
                   "Part of the cache's slots that have experts; 1 is all.");
}

static void sv_put_engine(sv_text *t, const ga_engine_stats *s, const char *l) {
  const double pages = s->kv_pages > 0 ? (double)s->kv_pages : 1.0;
  sv_put_metric(t, "num_requests_running", "gauge", l, s->running, "Requests that run.");
  sv_put_metric(t, "num_requests_waiting", "gauge", l, s->waiting, "Requests that wait to run.");
  sv_put_metric(t, "kv_cache_usage_perc", "gauge", l, (double)s->kv_pages_used / pages,
                "Part of the KV pages that requests hold; 1 is all.");
  sv_put_metric(t, "prefix_cache_queries_total", "counter", l, (double)s->prefix_queries,
                "Tokens of prompts that were looked up in the prefix cache.");
  sv_put_metric(t, "prefix_cache_hits_total", "counter", l, (double)s->prefix_hits,
                "Tokens of prompts that were found in the prefix cache.");
  sv_put_metric(t, "num_preemptions_total", "counter", l, (double)s->preemptions,
                "How often a request gave its pages to others.");
  const double swap_pages = s->swap_pages > 0 ? (double)s->swap_pages : 1.0;
  sv_put_metric(t, "num_requests_swapped", "gauge", l, (double)s->swapped,
                "Preempted requests that wait to go on with pages from the swap space.");
  sv_put_metric(t, "kv_offload_cpu_cache_usage_perc", "gauge", l, (double)s->swap_pages_used / swap_pages,
                "Part of the swap space in use; 1 is all.");
  sv_put_metric(t, "kv_offload_store_bytes_total", "counter", l, (double)s->swapped_out_bytes,
                "Bytes of KV pages that were copied to the swap space.");
  sv_put_metric(t, "kv_offload_load_bytes_total", "counter", l, (double)s->swapped_in_bytes,
                "Bytes of KV pages that were copied back from it.");
  sv_put_metric(t, "prompt_tokens_total", "counter", l, (double)s->prompt_tokens, "Tokens of prompts.");
  sv_put_metric(t, "generation_tokens_total", "counter", l, (double)s->generated_tokens, "Generated tokens.");
  sv_histogram steps = {.sum = (double)s->step_tokens_run};
  memcpy(steps.counts, s->step_sizes, sizeof s->step_sizes);
  sv_put_histogram(t, &steps, "iteration_tokens_total", "Tokens of a step of the engine.", sv_step_bounds, l);
  sv_put_step_gaps(t, s, l);
  sv_put_expert_cache(t, s, l);
  sv_put_metric_head(t, "cache_config_info", "gauge", "The size of the KV cache.");
  sv_putf(t, "vllm:cache_config_info{%s,num_gpu_blocks=\"%lld\",max_model_len=\"%d\",max_num_seqs=\"%d\"} 1\n", l,
          (long long)s->kv_pages, s->context, s->max_sequences);
}

/* A label's value: quotes, backslashes and line ends are escaped. */
static void sv_put_label(sv_text *t, const char *value) {
  for (; *value; value++) {
    if (*value == '"' || *value == '\\') sv_puts(t, "\\");
    if (*value == '\n')
      sv_puts(t, "\\n");
    else
      sv_put(t, value, 1);
  }
}

void sv_put_metrics(sv_text *t, sv_metrics *m, const ga_engine_stats *stats, const char *model) {
  sv_text labels = {0};
  sv_puts(&labels, "model_name=\"");
  sv_put_label(&labels, model);
  sv_puts(&labels, "\",engine=\"0\"");
  if (labels.failed) {
    t->failed = true;
    sv_text_free(&labels);
    return;
  }
  if (stats) sv_put_engine(t, stats, labels.p);
  (void)pthread_mutex_lock(&m->lock);
  sv_put_metric_head(t, "request_success_total", "counter", "Requests that ended, by the reason.");
  for (size_t i = 0; i < 4; i++)
    sv_putf(t, "vllm:request_success_total{%s,finished_reason=\"%s\"} %llu\n", labels.p, sv_finishes[i],
            (unsigned long long)m->finished[i]);
  sv_put_metric_head(t, "admission_rejections_total", "counter", "Requests that were refused, by the reason.");
  sv_putf(t, "vllm:admission_rejections_total{%s,reason=\"queue_full\"} %llu\n", labels.p,
          (unsigned long long)m->rejected);
  for (sv_histogram_kind kind = 0; kind < SV_HISTOGRAMS; kind++)
    sv_put_histogram(t, &m->histograms[kind], sv_kinds[kind].name, sv_kinds[kind].help, sv_kinds[kind].bounds,
                     labels.p);
  (void)pthread_mutex_unlock(&m->lock);
  sv_text_free(&labels);
}
