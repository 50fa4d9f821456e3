/* ga bench --serve: a load client for servers with the interface of OpenAI. One thread drives all streams.
 *
 * serve_args.c reads the command line, serve_target.c finds the server and its model, serve_prompt.c makes requests.
 * serve_stream.c runs one request at a time on one libcurl handle; serve_sse.c and serve_event.c read its answer.
 * serve_run.c keeps streams busy, serve_stats.c sums up, serve_report.c and serve_svg.c write.
 */
#ifndef GA_VERIFY_BENCH_SERVE_CLIENT_H
#define GA_VERIFY_BENCH_SERVE_CLIENT_H

#include <curl/curl.h>
#include <jansson.h>

#include "ga/base.h"

#define CLIENT_MAX_LEVELS  32
#define CLIENT_MAX_STREAMS 4096
#define CLIENT_MAX_ERRORS  12  /* the most kinds of failures that are counted separately */
#define CLIENT_TEXT        264 /* bytes of an error text; libcurl's have up to 256 */

/* --- options (serve_args.c) --- */

typedef struct client_range {
  int64_t least, most;
} client_range;

typedef struct client_args {
  const char *url, *model, *key_path, *prompts_path, *svg_path;
  bool chat, ids, json;
  bool open_loop;                   /* true: levels are arrivals per second; false: numbers of streams */
  double levels[CLIENT_MAX_LEVELS]; /* [n_levels] levels; each is measured separately */
  int n_levels;
  int64_t requests;            /* number of requests of a level; 0 = chosen by `seconds` and the level */
  double seconds;              /* seconds in which requests start; 0 = no end */
  double timeout;              /* the most seconds of one request */
  client_range prompt, decode; /* ranges of the numbers of tokens of a prompt and of an answer */
  int64_t shared_prefix;       /* number of tokens that all prompts have at their beginning */
  int64_t vocab;               /* ids of random prompts are below this number */
  uint64_t seed;
  /* bounds of goodput in seconds: time to the first token, and time between tokens; 0 = none */
  double ttft_bound, itl_bound;
} client_args;

/* Reads "8" or "128:512". False: it is not such a text, or not 1 <= least <= most <= limit. */
bool client_range_parse(const char *text, int64_t limit, client_range *out);
/* Reads a list such as "1,2,4" of numbers above 0 up to `limit`. whole: numbers must be whole. Returns their count;
 * 0: any other text. */
int client_list_parse(const char *text, bool whole, double limit, double out[CLIENT_MAX_LEVELS]);

/* --- server (serve_target.c) --- */

typedef struct client_target {
  char base[1024];     /* address that ends in "/v1", and that may be shown */
  char endpoint[1100]; /* address of completions or of chat */
  char model[256];     /* name of the model in requests; "" = requests have no name */
  struct curl_slist *headers;
  double timeout; /* the most seconds of one request */
} client_target;

/* Reads the address and the key; without --model requests the name of the server's first model. */
GA_NODISCARD ga_status client_target_open(const client_args *a, client_target *out);
void client_target_close(client_target *t);

/* --- requests (serve_prompt.c) --- */

/* Reads FILE.jsonl into an array; each line must be a body of the chosen interface. */
GA_NODISCARD ga_status client_prompts_read(const client_args *a, json_t **out);
/* Makes the body of request `number`, which is the same each time for a seed. lines: result of client_prompts_read,
 * or NULL. Release with free. NULL: out of memory. */
char *client_body(const client_args *a, const client_target *t, const json_t *lines, uint64_t number);

/* --- answers --- */

/* A parser of server-sent events (WHATWG HTML, 9.2), which takes bytes as they arrive. A struct of zeros is an empty
 * parser. */
typedef struct client_sse {
  char *line, *data; /* the current line, and the data of the current event */
  size_t n_line, line_room, n_data, data_room;
  bool after_cr, begun, has_data;
} client_sse;

#define CLIENT_MAX_EVENT ((size_t)16 << 20)

/* A callback with the data of one event, NUL-terminated. False ends the parsing. */
typedef bool (*client_sse_fn)(void *user, const char *data, size_t bytes);
/* Parses n bytes. False: `fn` returned false, an event exceeds CLIENT_MAX_EVENT, or there is no memory. */
bool client_sse_feed(client_sse *s, const char *bytes, size_t n, client_sse_fn fn, void *user);
/* Resets the parser for the next answer, and keeps its memory. */
void client_sse_reset(client_sse *s);
void client_sse_free(client_sse *s);

/* One event of an answer. */
typedef struct client_event {
  bool done;                            /* the event is "[DONE]" */
  bool choice;                          /* the event has a choice */
  bool text;                            /* the choice has text */
  int64_t prompt_tokens, output_tokens; /* numbers in `usage`; -1 = not given */
  char error[CLIENT_TEXT];              /* text of an error; "" = none */
} client_event;

/* Reads one event. False: it is not JSON. */
bool client_event_read(const char *data, size_t bytes, client_event *out);
/* Finds the text of a refusal: {"error": {"message": ..}}, {"error": ..}, {"detail": ..}, or the first line of the
 * body. */
void client_error_text(const char *body, size_t bytes, char out[CLIENT_TEXT]);

/* --- figures (serve_stats.c) --- */

typedef struct client_series {
  double *x;
  size_t n, room;
} client_series;

typedef struct client_summary {
  size_t n;
  double mean, median, p90, p99, max; /* all 0 if n is 0 */
} client_summary;

GA_NODISCARD bool client_series_add(client_series *s, double x);
GA_NODISCARD bool client_series_join(client_series *s, const client_series *more);
/* Returns quantile q, in [0, 1], of the ascending x[0..n), linear between neighbours. n must not be 0. */
double client_quantile(const double *x, size_t n, double q);
/* Sorts a series and summarises it. */
client_summary client_summarise(client_series *s);

typedef struct client_error {
  char kind[24];          /* kind of failure, such as "http 429" or "refused" */
  char text[CLIENT_TEXT]; /* text of the first failure of the kind */
  int64_t n;
} client_error;

/* The results of one level. Times are in seconds. */
typedef struct client_level {
  double level; /* number of streams, or arrivals per second */
  /* times to the first token, between chunks, per token after the first one (one for each request), and of whole
   * requests */
  client_series ttft, itl, tpot, e2e;
  int64_t started, completed, failed, good, unfinished;
  int64_t prompt_tokens, output_tokens, chunks;
  int64_t no_usage; /* answers without `usage`, whose tokens are counted by chunks */
  client_error errors[CLIENT_MAX_ERRORS];
  int n_errors;
  double duration; /* seconds from the first start to the last end */
  double tail;     /* seconds at the end in which fewer streams ran than requested */
  double late;     /* the most seconds that an arrival waited for a free handle */
  double cpu;      /* part of one processor that this program used */
  int64_t connections;
  bool stopped; /* Ctrl-C ended the level */
  bool lost;    /* the level ended because the server was lost */
} client_level;

void client_level_free(client_level *l);
/* Counts a failure. */
void client_level_fail(client_level *l, const char *kind, const char *text);

/* --- one stream (serve_stream.c) --- */

typedef struct client_stream {
  CURL *curl;
  const client_target *target;
  client_sse sse;
  char *body;
  client_series gaps; /* seconds between chunks */
  /* times in seconds; 0 = not yet. not_before: earliest time at which the stream may start again */
  double due, first, last, not_before;
  int64_t chunks, prompt_tokens, output_tokens;
  double first_choice;
  bool busy, begun, done;
  char kind[24], text[CLIENT_TEXT]; /* kind and text of a failure; kind "" = none */
  char *refusal;                    /* body of an answer that is no stream */
  size_t n_refusal;
  char detail[CURL_ERROR_SIZE];
} client_stream;

GA_NODISCARD ga_status client_stream_create(const client_target *t, client_stream **out);
void client_stream_destroy(client_stream *s);
/* Starts a request and takes over `body`. due: time at which the request should have started. */
GA_NODISCARD ga_status client_stream_start(client_stream *s, CURLM *multi, char *body, double due);
/* Adds the results of a transfer that libcurl has ended to the level `l`. */
GA_NODISCARD ga_status client_stream_finish(client_stream *s, CURLM *multi, CURLcode rc, const client_args *a,
                                            client_level *l);

/* --- all streams (serve_run.c) --- */

typedef struct client_pool {
  const client_args *args;
  const client_target *target;
  const json_t *lines;
  CURLM *multi;
  client_stream *streams[CLIENT_MAX_STREAMS];
  int n;
  uint64_t n_bodies; /* number of bodies made so far; each request has its own body */
} client_pool;

GA_NODISCARD ga_status client_pool_create(const client_args *a, const client_target *t, const json_t *lines,
                                          client_pool **out);
void client_pool_destroy(client_pool *p);
/* Sends one short request that is not counted. An error: the server does not answer. */
GA_NODISCARD ga_status client_first_request(client_pool *p);
GA_NODISCARD ga_status client_run_level(client_pool *p, double level, client_level *out);

/* --- report --- */

/* A level with its summaries. */
typedef struct client_row {
  const client_level *l;
  client_summary ttft, itl, tpot, e2e;
  double requests_s, output_s, total_s, good_s;
} client_row;

client_row client_row_of(client_level *l);
void client_report_head(const client_args *a, const client_target *t);
void client_report_row(const client_args *a, const client_row *r);
/* Makes the report as JSON. NULL: out of memory. */
json_t *client_report_json(const client_args *a, const client_target *t, const client_row *rows, int n);
GA_NODISCARD ga_status client_write_svg(const client_args *a, const client_target *t, const client_row *rows, int n);

#endif
