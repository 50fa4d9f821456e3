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
#define CLIENT_MAX_ERRORS  12  /* largest number of kinds of failures that are counted separately */
#define CLIENT_TEXT        264 /* size of an error text in bytes; libcurl's have up to 256 */

/* --- options (serve_args.c) --- */

typedef struct client_range {
  int64_t least, most;
} client_range;

typedef struct client_args {
  const char *url, *model, *key_path, *prompts_path, *svg_path;
  bool chat, ids, json;
  /* true: levels are requests that arrive per second (open loop); false: numbers of concurrent streams (closed loop) */
  bool open_loop;
  double levels[CLIENT_MAX_LEVELS]; /* [n_levels] levels of load; each is measured separately */
  int n_levels;
  int64_t requests;            /* number of requests of a level; 0 = `seconds` and the level determine it */
  double seconds;              /* seconds in which requests are started; 0 = no limit */
  double timeout;              /* largest number of seconds of one request */
  client_range prompt, decode; /* ranges from which the numbers of tokens of a prompt and of an answer are drawn */
  int64_t shared_prefix;       /* number of first tokens that all prompts share */
  int64_t vocab;               /* bound of the ids in random prompts: they are below this number */
  uint64_t seed;
  /* bounds of goodput in seconds: time to the first token, and time per token; 0 = no bound */
  double ttft_bound, itl_bound;
} client_args;

/* Reads a range such as "8" or "128:512". Returns false for other texts, or unless 1 <= least <= most <= limit. */
bool client_range_parse(const char *text, int64_t limit, client_range *out);
/* Reads a list such as "1,2,4" of numbers above 0 up to `limit`. whole: the numbers must be whole. Returns how many
 * there are; 0 for any other text. */
int client_list_parse(const char *text, bool whole, double limit, double out[CLIENT_MAX_LEVELS]);

/* --- server (serve_target.c) --- */

typedef struct client_target {
  char base[1024];     /* address that ends in "/v1", without secrets, so that it may be printed */
  char endpoint[1100]; /* address to which requests for completions or chats are sent */
  char model[256];     /* name of the model in requests; "" = requests name no model */
  struct curl_slist *headers;
  double timeout; /* largest number of seconds of one request */
} client_target;

/* Reads the server's address and the API key. Without --model, requests name the first model that the server lists. The
 * caller closes *out with client_target_close. */
GA_NODISCARD ga_status client_target_open(const client_args *a, client_target *out);
void client_target_close(client_target *t);

/* --- requests (serve_prompt.c) --- */

/* Reads the file of --prompts into a JSON array, which the caller releases. Each line must be the body of a request,
 * for completions or for chats as a->chat says. */
GA_NODISCARD ga_status client_prompts_read(const client_args *a, json_t **out);
/* Makes the body of request `number`, which depends only on that number, the options and the seed. lines: result of
 * client_prompts_read, or NULL. The caller frees the result with free. NULL: out of memory. */
char *client_body(const client_args *a, const client_target *t, const json_t *lines, uint64_t number);

/* --- answers (serve_sse.c, serve_event.c) --- */

/* A parser of server-sent events (WHATWG HTML, 9.2), which takes bytes as they arrive. A parser may begin as a struct
 * of zeros. */
typedef struct client_sse {
  char *line, *data; /* text of the current line, and data of the current event */
  size_t n_line, line_room, n_data, data_room;
  bool after_cr, begun, has_data;
} client_sse;

#define CLIENT_MAX_EVENT ((size_t)16 << 20)

/* A callback that gets the data of one event, with a NUL at its end. It returns false to end the parsing. */
typedef bool (*client_sse_fn)(void *user, const char *data, size_t bytes);
/* Parses the next n bytes. Returns false if `fn` returned false, an event exceeds CLIENT_MAX_EVENT bytes, or there is
 * no memory. */
bool client_sse_feed(client_sse *s, const char *bytes, size_t n, client_sse_fn fn, void *user);
/* Resets the parser for the next answer. It keeps its memory. */
void client_sse_reset(client_sse *s);
void client_sse_free(client_sse *s);

/* The contents of one event of a streamed answer. */
typedef struct client_event {
  bool done;                            /* the event is "[DONE]", which ends the stream */
  bool choice;                          /* the event has a choice (part of an answer) */
  bool text;                            /* the choice has text */
  int64_t prompt_tokens, output_tokens; /* numbers of tokens in `usage`; -1 = the event does not have them */
  char error[CLIENT_TEXT];              /* text of an error in the event; "" = none */
} client_event;

/* Reads the data of one event, which is JSON or [DONE]. Returns false for other data. */
bool client_event_read(const char *data, size_t bytes, client_event *out);
/* Finds the error text of a refused request. The body is {"error": {"message": ..}}, {"error": ..} or {"detail": ..};
 * otherwise the text is the body's first line. */
void client_error_text(const char *body, size_t bytes, char out[CLIENT_TEXT]);

/* --- figures (serve_stats.c) --- */

typedef struct client_series {
  double *x;
  size_t n, room;
} client_series;

typedef struct client_summary {
  size_t n;
  double mean, median, p90, p99, max; /* statistics of the n numbers of a series; all are 0 if n is 0 */
} client_summary;

GA_NODISCARD bool client_series_add(client_series *s, double x);
GA_NODISCARD bool client_series_join(client_series *s, const client_series *more);
/* Returns quantile q, from 0 to 1, of the ascending numbers x[0..n), interpolated linearly. n must not be 0. */
double client_quantile(const double *x, size_t n, double q);
/* Sorts the numbers of a series, and returns their mean and quantiles. */
client_summary client_summarise(client_series *s);

typedef struct client_error {
  char kind[24];          /* kind of failure, such as "http 429" or "refused" */
  char text[CLIENT_TEXT]; /* text of the first failure of the kind */
  int64_t n;
} client_error;

/* The results of one level of load. Times are in seconds; `good` is the number of requests that met the bounds of
 * goodput. */
typedef struct client_level {
  double level; /* number of concurrent streams, or arrivals per second */
  /* times to the first token (ttft), between chunks (itl), per token after the first one (tpot, one for each request),
   * and of whole requests (e2e) */
  client_series ttft, itl, tpot, e2e;
  int64_t started, completed, failed, good, unfinished;
  int64_t prompt_tokens, output_tokens, chunks;
  int64_t no_usage; /* number of answers without `usage`, whose tokens are counted as chunks */
  client_error errors[CLIENT_MAX_ERRORS];
  int n_errors;
  double duration; /* seconds from the start of the first request to the end of the last */
  double tail;     /* seconds at the end of the level in which fewer streams ran than requested */
  double late;     /* largest number of seconds that a request was started too late because all streams were busy */
  double cpu;      /* part of one processor's time that this client used */
  int64_t connections;
  bool stopped; /* Ctrl-C ended the level */
  bool lost;    /* the level ended because the server no longer answered */
} client_level;

void client_level_free(client_level *l);
/* Counts a failure under its kind; text is an example. */
void client_level_fail(client_level *l, const char *kind, const char *text);

/* --- one stream (serve_stream.c) --- */

typedef struct client_stream {
  CURL *curl;
  const client_target *target;
  client_sse sse;
  char *body;
  client_series gaps; /* seconds between consecutive chunks of the answer */
  /* times in seconds; 0 = not yet. due: the request should start; first, last: first and last token of the answer;
   * not_before: the stream may start again */
  double due, first, last, not_before;
  int64_t chunks, prompt_tokens, output_tokens;
  double first_choice;
  bool busy, begun, done;
  char kind[24], text[CLIENT_TEXT]; /* kind and text of the stream's failure; kind "" = none */
  char *refusal;                    /* body of an answer that is no event stream, usually an error */
  size_t n_refusal;
  char detail[CURL_ERROR_SIZE];
} client_stream;

GA_NODISCARD ga_status client_stream_create(const client_target *t, client_stream **out);
void client_stream_destroy(client_stream *s);
/* Starts a request with the JSON text `body`, which the function takes over. due: time at which the request should have
 * started. */
GA_NODISCARD ga_status client_stream_start(client_stream *s, CURLM *multi, char *body, double due);
/* Adds to the level `l` the results of a request whose transfer libcurl has ended. rc: libcurl's result. */
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
  uint64_t n_bodies; /* number of bodies of requests made so far; each request has a body of its own */
} client_pool;

GA_NODISCARD ga_status client_pool_create(const client_args *a, const client_target *t, const json_t *lines,
                                          client_pool **out);
void client_pool_destroy(client_pool *p);
/* Sends one short request that is not counted. Returns an error if the server does not answer it. */
GA_NODISCARD ga_status client_first_request(client_pool *p);
GA_NODISCARD ga_status client_run_level(client_pool *p, double level, client_level *out);

/* --- report --- */

/* A level with summaries of its times, and rates per second: of requests, output tokens, all tokens, and requests that
 * met the bounds of goodput. */
typedef struct client_row {
  const client_level *l;
  client_summary ttft, itl, tpot, e2e;
  double requests_s, output_s, total_s, good_s;
} client_row;

client_row client_row_of(client_level *l);
void client_report_head(const client_args *a, const client_target *t);
void client_report_row(const client_args *a, const client_row *r);
/* Makes the report as JSON, which the caller releases with json_decref. NULL: out of memory. */
json_t *client_report_json(const client_args *a, const client_target *t, const client_row *rows, int n);
GA_NODISCARD ga_status client_write_svg(const client_args *a, const client_target *t, const client_row *rows, int n);

#endif
