/* ga search: finds models by words of their names, in the table of known models and on the hub. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/hub_search.h"
#include "cmdline/error.h"
#include "cmdline/interrupt.h"
#include "cmdline/words.h"
#include "names/names.h"

typedef struct search_args {
  char text[512]; /* the words, with one space between two */
  int64_t most;
  bool json, safetensors;
} search_args;

static bool is_match(const ga_known_model *k, const char *text) {
  char word[512];
  for (const char *at = text; *at;) { /* each word stands somewhere */
    const size_t n = strcspn(at, " ");
    (void)snprintf(word, sizeof word, "%.*s", (int)n, at);
    if (!strcasestr(k->name, word) && !strcasestr(k->what, word)) return false;
    at += n + strspn(at + n, " ");
  }
  return true;
}

static ga_status print_search_json(const search_args *a, const hub_repo *repo, size_t n) {
  json_t *list = json_array();
  for (const ga_known_model *k = ga_known_models; k->name; k++)
    if (is_match(k, a->text))
      (void)json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:s}", "name", k->name, "what", k->what, "bytes",
                                                  (json_int_t)k->bytes, "licence", k->licence));
  for (size_t i = 0; i < n; i++)
    (void)json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:s, s:b}", "name", repo[i].name, "downloads",
                                                (json_int_t)repo[i].downloads, "likes", (json_int_t)repo[i].likes,
                                                "updated", repo[i].updated, "gated", (int)repo[i].is_gated));
  TRY(cmd_print_json(list, JSON_INDENT(2)));
  return GA_OK;
}

/* Returns how many there are. */
static size_t print_known(const search_args *a) {
  size_t n = 0;
  for (const ga_known_model *k = ga_known_models; k->name; k++) {
    if (!is_match(k, a->text)) continue;
    n++;
    printf("%-14s %6.0f MB  %s\n", k->name, (double)k->bytes * 1e-6, k->what);
  }
  return n;
}

static void print_repos(const hub_repo *repo, size_t n) {
  size_t widest = 10;
  for (size_t i = 0; i < n; i++) widest = strlen(repo[i].name) > widest ? strlen(repo[i].name) : widest;
  if (n) printf("%-*s  %9s  %6s  %s\n", (int)widest, "ON THE HUB", "DOWNLOADS", "LIKES", "CHANGED");
  for (size_t i = 0; i < n; i++)
    printf("%-*s  %9lld  %6lld  %-10s%s\n", (int)widest, repo[i].name, (long long)repo[i].downloads,
           (long long)repo[i].likes, repo[i].updated, repo[i].is_gated ? "  needs a token" : "");
}

static ga_status search_models(const search_args *a) {
  hub_repo *repo = NULL;
  size_t n = 0, n_known = 0;
  if (!a->json) n_known = print_known(a);
  (void)fflush(stdout);
  ga_status status = hub_search(a->text, a->safetensors ? "safetensors" : "gguf", a->most, 0, &repo, &n);
  if (status == GA_OK && a->json) status = print_search_json(a, repo, n);
  if (status == GA_OK && !a->json) {
    if (n_known && n) printf("\n");
    print_repos(repo, n);
    (void)fflush(stdout);
    if (n + n_known)
      words_print(stderr, 2, "ga pull NAME fetches one of them; ga pull --list hf:... shows a repository's files\n");
    else
      words_print(stderr, 2, "nothing found; fewer words, or --safetensors, may find more\n");
  }
  free(repo);
  return status;
}

int cmd_search(int argc, char **argv) {
  search_args a = {.most = 20};
  const cmd_option options[] = {
      {"limit", 'n', OPT_INT, &a.most, 1, HUB_MOST_FOUND, "N", "at most so many repositories of the hub"},
      {"safetensors", 0, OPT_FLAG, &a.safetensors, 0, 0, NULL, "repositories of safetensors instead of GGUF files"},
      {"json", 0, OPT_FLAG, &a.json, 0, 0, NULL, "a JSON array on stdout"},
  };
  int code, rest = cmd_parse("search", "[options] TEXT...", options, COUNT_OF(options), argc, argv, &code);
  if (rest < 0) return code;
  size_t n = 0;
  for (int i = 1; i <= rest; i++) {
    const int m = snprintf(a.text + n, sizeof a.text - n, "%s%s", n ? " " : "", argv[i]);
    if (m < 0 || (size_t)m >= sizeof a.text - n)
      return cmd_usage_error("search", "the text is longer than %zu bytes", sizeof a.text - 1);
    n += (size_t)m;
  }
  if (!a.text[strspn(a.text, " ")]) return cmd_usage_error("search", "which words? Such as: ga search qwen3 0.6b");
  listen_for_interrupt();
  return search_models(&a) == GA_OK ? EXIT_OK : cmd_fail("search");
}
