/* Metrics of the server for Prometheus: counters and histograms, under vLLM's names. */
#ifndef GA_SERVE_METRICS_H
#define GA_SERVE_METRICS_H

#include <pthread.h>

#include "ga/engine.h"
#include "serve/text.h"

typedef enum sv_histogram_kind {
  SV_FIRST_TOKEN,
  SV_INTER_TOKEN,
  SV_WHOLE,
  SV_QUEUE,
  SV_INFERENCE,
  SV_PREFILL,
  SV_DECODE,
  SV_PROMPT_TOKENS,
  SV_GENERATED_TOKENS,
  SV_MAX_TOKENS_ASKED,
  SV_MAX_GENERATED,
  SV_N_ASKED,
  SV_HISTOGRAMS
} sv_histogram_kind;

enum { SV_MAX_BUCKETS = 24 };

typedef struct sv_histogram {
  /* number of observations in each bucket, not cumulative; the last bucket is for values above all bounds */
  uint64_t counts[SV_MAX_BUCKETS + 1];
  double sum;
} sv_histogram;

typedef struct sv_metrics {
  pthread_mutex_t lock;
  sv_histogram histograms[SV_HISTOGRAMS];
  uint64_t finished[4]; /* numbers of ended requests by finish reason: stop, length, abort, error */
  uint64_t rejected;    /* number of requests refused because the engine's queue was full */
} sv_metrics;

void sv_metrics_init(sv_metrics *m);
void sv_metrics_destroy(sv_metrics *m);
/* Adds `times` observations of the value `value` to a histogram. */
void sv_observe(sv_metrics *m, sv_histogram_kind kind, double value, uint64_t times);
/* Counts an ended request. finish: its finish reason, "stop", "length", "abort" or "error". */
void sv_count_finish(sv_metrics *m, const char *finish);
void sv_count_rejected(sv_metrics *m);
/* Writes the whole page of metrics. stats: figures of the engine; NULL = there is no engine. */
void sv_put_metrics(sv_text *t, sv_metrics *m, const ga_engine_stats *stats, const char *model);

#endif
