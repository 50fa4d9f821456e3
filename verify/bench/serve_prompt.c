/* Requests: random words or ids of a length, or the lines of a file. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/status.h"
#include "cmdline/cmd.h"
#include "text/json_io.h"
#include "verify/bench/serve_client.h"

#define WORD_BYTES   8       /* with the space before it */
#define FIRST_IDS    256     /* ids below are often special */
#define PREFIX_DRAWS 0x5eedu /* of the shared prefix: no request has this number */

/* Short and frequent, so that most vocabularies have each, with a space before it, as one token. */
static const char *const words[] = {
    "time",   "year",   "way",    "day",    "man",   "thing", "woman", "life",   "child", "world", "school", "state",
    "family", "group",  "hand",   "part",   "place", "case",  "week",  "work",   "point", "home",  "water",  "room",
    "money",  "story",  "fact",   "month",  "lot",   "right", "study", "book",   "eye",   "job",   "word",   "side",
    "kind",   "head",   "house",  "friend", "power", "hour",  "game",  "line",   "end",   "law",   "car",    "city",
    "name",   "team",   "idea",   "body",   "back",  "face",  "level", "door",   "art",   "peace", "party",  "result",
    "change", "moon",   "reason", "girl",   "guy",   "air",   "force", "foot",   "boy",   "age",   "policy", "music",
    "tree",   "road",   "river",  "light",  "sound", "paper", "space", "ground", "form",  "event", "matter", "center",
    "table",  "north",  "south",  "field",  "heart", "sea",   "stone", "fire",   "horse", "color", "plan",   "rule",
    "price",  "report", "test",   "land",   "king",  "war",   "wall",  "street", "town",  "bird",  "animal", "plant",
    "food",   "green",  "white",  "black",  "blue",  "red",   "small", "large",  "young", "old",   "new",    "long",
    "short",  "high",   "low",    "early",  "late",  "hard",  "easy",  "free"};

static int64_t draw_between(ga_rng *rng, client_range r) {
  return r.least + (int64_t)ga_rng_below(rng, (uint64_t)(r.most - r.least + 1));
}

/* Of request `number`, or of the shared prefix: nearby numbers give unrelated draws. */
static ga_rng request_rng(const client_args *a, uint64_t number) {
  ga_rng rng;
  uint64_t mixed = a->seed;
  mixed = ga_splitmix64(&mixed) ^ (number * 0x9e3779b97f4a7c15u);
  ga_rng_seed(&rng, mixed);
  return rng;
}

/* --- random prompts --- */

static size_t put_random_words(char *text, size_t at, ga_rng *rng, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    const char *word = words[ga_rng_below(rng, GA_COUNT_OF(words))];
    if (at) text[at++] = ' ';
    for (; *word; word++) text[at++] = *word;
  }
  text[at] = 0;
  return at;
}

static json_t *word_prompt(const client_args *a, ga_rng *prefix, ga_rng *own, int64_t n) {
  char *text = malloc((size_t)(a->shared_prefix + n) * WORD_BYTES + 1);
  if (!text) return NULL;
  const size_t at = put_random_words(text, 0, prefix, a->shared_prefix);
  const size_t bytes = put_random_words(text, at, own, n);
  json_t *prompt = json_stringn(text, bytes);
  free(text);
  return prompt;
}

static void put_ids(const client_args *a, json_t *ids, ga_rng *rng, int64_t n) {
  const int64_t first = a->vocab > 2 * FIRST_IDS ? FIRST_IDS : a->vocab / 2;
  for (int64_t i = 0; i < n; i++)
    (void)json_array_append_new(ids, json_integer(first + (int64_t)ga_rng_below(rng, (uint64_t)(a->vocab - first))));
}

/* Without memory it is shorter, or NULL. */
static json_t *id_prompt(const client_args *a, ga_rng *prefix, ga_rng *own, int64_t n) {
  json_t *ids = json_array();
  put_ids(a, ids, prefix, a->shared_prefix);
  put_ids(a, ids, own, n);
  return ids;
}

static json_t *random_prompt(const client_args *a, ga_rng *own) {
  ga_rng prefix = request_rng(a, ~(uint64_t)PREFIX_DRAWS);
  const int64_t n = draw_between(own, a->prompt);
  return a->ids ? id_prompt(a, &prefix, own, n) : word_prompt(a, &prefix, own, n);
}

/* --- the body --- */

/* Takes `prompt` over: a text becomes a message of chat. */
static void set_prompt(const client_args *a, json_t *body, json_t *prompt) {
  if (json_is_array(prompt) && a->chat)
    (void)json_object_set_new(body, "messages", prompt);
  else if (a->chat)
    (void)json_object_set_new(body, "messages", json_pack("[{s:s, s:o}]", "role", "user", "content", prompt));
  else
    (void)json_object_set_new(body, "prompt", prompt);
}

char *client_body(const client_args *a, const client_target *t, const json_t *lines, uint64_t number) {
  ga_rng own = request_rng(a, number);
  const int64_t decode = draw_between(&own, a->decode);
  json_t *body = json_pack("{s:I, s:i, s:b, s:b, s:{s:b}}", "max_tokens", (json_int_t)decode, "temperature", 0,
                           "ignore_eos", 1, "stream", 1, "stream_options", "include_usage", 1);
  if (*t->model) (void)json_object_set_new(body, "model", cmd_json_text(t->model, strlen(t->model)));
  if (lines)
    set_prompt(a, body, json_incref(json_array_get(lines, (size_t)(number % json_array_size(lines)))));
  else
    set_prompt(a, body, random_prompt(a, &own));
  char *text = json_object_get(body, a->chat ? "messages" : "prompt") ? ga_json_dump(body, JSON_COMPACT) : NULL;
  json_decref(body);
  return text;
}

/* --- a file of prompts --- */

/* What a line asks, NULL when it does not suit the interface. A new reference. */
static json_t *prompt_of_line(const client_args *a, const char *line, size_t bytes) {
  json_t *root = ga_json_load(line, bytes, 0, NULL), *prompt = json_object_get(root, "prompt"),
         *messages = json_object_get(root, "messages");
  json_t *found = NULL;
  if (a->chat && json_is_array(messages))
    found = messages;
  else if (json_is_string(prompt) || (!a->chat && json_is_array(prompt)))
    found = prompt;
  json_incref(found);
  json_decref(root);
  return found;
}

static ga_status read_prompt_lines(const client_args *a, FILE *f, json_t *lines) {
  char *line = NULL;
  size_t room = 0, number = 0;
  ssize_t n;
  ga_status status = GA_OK;
  while (status == GA_OK && (n = getline(&line, &room, f)) >= 0) {
    number++;
    if ((size_t)n == strspn(line, " \t\r\n")) continue;
    json_t *prompt = prompt_of_line(a, line, (size_t)n);
    if (!prompt)
      status = ga_fail(GA_ERR_FORMAT, "%s:%zu: must be {\"prompt\": ...}%s", a->prompts_path, number,
                       a->chat ? " with a text, or {\"messages\": [...]}" : " with a text or ids");
    else if (json_array_append_new(lines, prompt))
      status = ga_fail_nomem("prompts", (size_t)n);
  }
  if (status == GA_OK && ferror(f)) status = ga_fail(GA_ERR_IO, "%s: %s", a->prompts_path, strerror(errno));
  free(line);
  return status;
}

ga_status client_prompts_read(const client_args *a, json_t **out) {
  *out = NULL;
  if (!a->prompts_path) return GA_OK;
  FILE *f = fopen(a->prompts_path, "r");
  GA_REQUIRE(f, GA_ERR_IO, "%s: %s", a->prompts_path, strerror(errno));
  json_t *lines = json_array();
  ga_status status = lines ? read_prompt_lines(a, f, lines) : ga_fail_nomem("prompts", 0);
  (void)fclose(f);
  if (status == GA_OK && !json_array_size(lines)) status = ga_fail(GA_ERR_FORMAT, "%s: no prompts", a->prompts_path);
  if (status == GA_OK)
    *out = lines;
  else
    json_decref(lines);
  return status;
}
