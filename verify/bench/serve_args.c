/* ga bench --serve: options, levels, exit code. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/status.h"
#include "cmdline/cmd.h"
#include "cmdline/interrupt.h"
#include "verify/bench/front.h"
#include "verify/bench/serve_client.h"

#define MAX_TOKENS 1000000

/* Up to `limit`, all of text[0..end). */
static bool parse_count(const char *text, const char *end, int64_t limit, int64_t *out) {
  char *stop;
  errno = 0;
  const long long n = strtoll(text, &stop, 10);
  *out = n;
  return stop == end && stop > text && !errno && n >= 1 && n <= limit;
}

bool client_range_parse(const char *text, int64_t limit, client_range *out) {
  const char *colon = strchr(text, ':'), *end = text + strlen(text);
  if (!parse_count(text, colon ? colon : end, limit, &out->least)) return false;
  out->most = out->least;
  return !colon || (parse_count(colon + 1, end, limit, &out->most) && out->most >= out->least);
}

int client_list_parse(const char *text, bool whole, double limit, double out[CLIENT_MAX_LEVELS]) {
  for (int n = 0; n < CLIENT_MAX_LEVELS;) {
    char *end;
    const double x = strtod(text, &end);
    if (end == text || !(x > 0) || x > limit || (whole && x != (double)(int64_t)x)) return 0;
    out[n++] = x;
    if (!*end) return n;
    if (*end != ',') return 0;
    text = end + 1;
  }
  return 0;
}

/* As the options come; checked and turned into client_args. */
typedef struct serve_texts {
  const char *api, *streams, *rate, *prompt, *decode, *goodput;
  int64_t seed;
} serve_texts;

static bool parse_goodput(const char *text, client_args *a) {
  double ms[CLIENT_MAX_LEVELS];
  if (client_list_parse(text, false, 1e7, ms) != 2) return false;
  a->ttft_bound = ms[0] * 1e-3;
  a->itl_bound = ms[1] * 1e-3;
  return true;
}

/* EXIT_OK, or the code after a line that says what is wrong. */
static int check_texts(const serve_texts *t, client_args *a) {
  if (strcmp(t->api, "completions") != 0 && strcmp(t->api, "chat") != 0)
    return cmd_usage_error("bench", "--api '%s'; allowed: completions, chat", t->api);
  a->chat = !strcmp(t->api, "chat");
  a->open_loop = t->rate != NULL;
  if (t->rate && t->streams) return cmd_usage_error("bench", "--streams and --rate exclude each other");
  a->n_levels = t->rate ? client_list_parse(t->rate, false, 1e6, a->levels)
                        : client_list_parse(t->streams ? t->streams : "1,2,4,8", true, CLIENT_MAX_STREAMS, a->levels);
  if (!a->n_levels)
    return cmd_usage_error("bench", "--%s '%s': must be up to %d numbers with commas between, above 0, at most %g",
                           t->rate ? "rate" : "streams", t->rate ? t->rate : t->streams, CLIENT_MAX_LEVELS,
                           t->rate ? 1e6 : (double)CLIENT_MAX_STREAMS);
  if (!client_range_parse(t->prompt, MAX_TOKENS, &a->prompt))
    return cmd_usage_error("bench", "--prompt '%s': must be N or LEAST:MOST, from 1 to %d", t->prompt, MAX_TOKENS);
  if (!client_range_parse(t->decode, MAX_TOKENS, &a->decode))
    return cmd_usage_error("bench", "--decode '%s': must be N or LEAST:MOST, from 1 to %d", t->decode, MAX_TOKENS);
  if (t->goodput && !parse_goodput(t->goodput, a))
    return cmd_usage_error("bench", "--goodput '%s': must be two bounds in ms, such as 500,50", t->goodput);
  if (a->chat && a->ids) return cmd_usage_error("bench", "--prompt-ids needs --api completions");
  if (a->prompts_path && (a->ids || a->shared_prefix))
    return cmd_usage_error("bench", "--prompts excludes --prompt-ids and --shared-prefix");
  a->seed = t->seed ? (uint64_t)t->seed : (uint64_t)time(NULL); /* an old seed would find its prompts cached */
  return EXIT_OK;
}

/* --- the levels --- */

/* Runs level after level and reports each; *n of rows are filled. */
static ga_status run_levels(const client_args *a, client_pool *p, client_level *levels, client_row *rows, int *n) {
  for (int i = 0; i < a->n_levels && !interrupted(); i++) {
    GA_TRY(client_run_level(p, a->levels[i], &levels[i]));
    rows[i] = client_row_of(&levels[i]);
    *n = i + 1;
    if (!a->json) client_report_row(a, &rows[i]);
    if (levels[i].lost) break;
  }
  return GA_OK;
}

static int64_t completed_of(const client_row *rows, int n) {
  int64_t sum = 0;
  for (int i = 0; i < n; i++) sum += rows[i].l->completed;
  return sum;
}

static ga_status run_and_report(const client_args *a, client_target *t, client_pool *p) {
  static client_level levels[CLIENT_MAX_LEVELS];
  static client_row rows[CLIENT_MAX_LEVELS];
  int n = 0;
  GA_TRY(client_first_request(p));
  if (!a->json) client_report_head(a, t);
  ga_status status = run_levels(a, p, levels, rows, &n);
  const ga_status drawn = client_write_svg(a, t, rows, n);
  if (status == GA_OK) status = drawn;
  const ga_status printed = a->json ? cmd_print_json(client_report_json(a, t, rows, n), JSON_INDENT(1)) : GA_OK;
  if (status == GA_OK) status = printed;
  if (status == GA_OK && !completed_of(rows, n) && !interrupted())
    status = ga_fail(GA_ERR_IO, "%s: no request was answered", t->endpoint);
  for (int i = 0; i < a->n_levels; i++) client_level_free(&levels[i]);
  return status;
}

static int bench_server(const client_args *a) {
  client_target t = {0};
  client_pool *p = NULL;
  json_t *lines = NULL;
  listen_for_interrupt();
  ga_status status = curl_global_init(CURL_GLOBAL_DEFAULT) ? ga_fail(GA_ERR_NOMEM, "libcurl cannot start") : GA_OK;
  if (status == GA_OK) status = client_prompts_read(a, &lines);
  if (status == GA_OK) status = client_target_open(a, &t);
  if (status == GA_OK) status = client_pool_create(a, &t, lines, &p);
  if (status == GA_OK) status = run_and_report(a, &t, p);
  client_pool_destroy(p);
  client_target_close(&t);
  json_decref(lines);
  return status == GA_OK ? EXIT_OK : cmd_fail("bench");
}

int bench_serve(int argc, char **argv) {
  client_args a = {.timeout = 600, .vocab = 30000};
  serve_texts t = {.api = "completions", .prompt = "128", .decode = "64"};
  const cmd_option options[] = {
      {"serve", 0, OPT_STRING, &a.url, 0, 0, "URL", "time a server with OpenAI's interface: http://127.0.0.1:8080"},
      {"model", 'm', OPT_STRING, &a.model, 0, 0, "NAME",
       "name of the model in requests; else the server's first model"},
      {"api", 0, OPT_STRING, &t.api, 0, 0, "NAME", "completions or chat"},
      {"streams", 0, OPT_STRING, &t.streams, 0, 0, "LIST",
       "requests in flight all the time, such as 1,8,64: a run for each; else 1,2,4,8"},
      {"rate", 0, OPT_STRING, &t.rate, 0, 0, "LIST",
       "instead of --streams: requests a second, sent at random times (Poisson) whether or not earlier ones have "
       "ended"},
      {"requests", 'n', OPT_INT, &a.requests, 1, 1e9, "N",
       "requests of a run; else 4 a stream, or those of 10 s at --rate; at least 16"},
      {"seconds", 0, OPT_FLOAT, &a.seconds, 0, 1e6, "S", "start requests for this time; 0 = until --requests are done"},
      {"prompt", 0, OPT_STRING, &t.prompt, 0, 0, "N", "words of a random prompt, about as many tokens; 128:512 draws"},
      {"decode", 0, OPT_STRING, &t.decode, 0, 0, "N", "tokens of an answer; 16:64 draws"},
      {"shared-prefix", 0, OPT_INT, &a.shared_prefix, 0, MAX_TOKENS, "N", "words before each prompt, the same in all"},
      {"prompt-ids", 0, OPT_FLAG, &a.ids, 0, 0, NULL, "prompts are token ids, exact in length, instead of words"},
      {"vocab", 0, OPT_INT, &a.vocab, 4, 1e9, "N", "with --prompt-ids: ids are below it"},
      {"prompts", 0, OPT_STRING, &a.prompts_path, 0, 0, "FILE",
       "prompts in order, a line each: {\"prompt\": ..} or {\"messages\": ..}"},
      {"goodput", 0, OPT_STRING, &t.goodput, 0, 0, "TTFT,ITL",
       "also count requests within both bounds, in ms; ITL is a request's mean time a token"},
      {"timeout", 0, OPT_FLOAT, &a.timeout, 0.001, 1e6, "S", "a request that takes longer has failed"},
      {"api-key-file", 0, OPT_STRING, &a.key_path, 0, 0, "FILE", "its first line is sent as a bearer token"},
      {"seed", 's', OPT_INT, &t.seed, 0, 9e18, "SEED", "of prompts, lengths and arrivals; 0 = from the clock"},
      {"json", 0, OPT_FLAG, &a.json, 0, 0, NULL, "JSON on stdout"},
      {"svg", 0, OPT_STRING, &a.svg_path, 0, 0, "FILE", "draw throughput and latency"},
  };
  int code, rest = cmd_parse("bench", "--serve URL [options]", options, GA_COUNT_OF(options), argc, argv, &code);
  if (rest < 0) return code;
  if (rest > 0) return cmd_usage_error("bench", "unexpected '%s'", argv[1]);
  if (!a.url) return cmd_usage_error("bench", "--serve needs an address");
  code = check_texts(&t, &a);
  return code == EXIT_OK ? bench_server(&a) : code;
}
