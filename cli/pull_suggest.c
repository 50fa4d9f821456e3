/* Suggestions after a name that `ga pull` does not know. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/hub_search.h"
#include "cli/pull.h"
#include "cmdline/error.h"
#include "cmdline/likeness.h"
#include "names/hub.h"

/* Adds a name to a list with commas, if there is room. */
static void add_suggestion(char *list, size_t capacity, const char *name) {
  const size_t n = strlen(list);
  if (n + strlen(name) + 3 < capacity) (void)snprintf(list + n, capacity - n, "%s%s", n ? ", " : "", name);
}

/* Writes names that may be meant: known models, else repositories of the hub, if it answers soon. */
static void suggest(const char *source, char *list, size_t capacity) {
  enum { MOST = 5, SECONDS = 8 };
  char name[512];
  ga_hub_name parsed;
  hub_repo *repo = NULL;
  size_t n = 0;
  *list = 0;
  const int bytes = snprintf(name, sizeof name, "hf:%s", source);
  if (bytes > 0 && (size_t)bytes < sizeof name && ga_hub_parse(name, &parsed) == GA_OK) {
    add_suggestion(list, capacity, name);
    return;
  }
  for (const ga_known_model *k = ga_known_models; k->name; k++)
    if (likeness(source, k->name) || strcasestr(k->name, source)) add_suggestion(list, capacity, k->name);
  (void)snprintf(name, sizeof name, "%s", source);
  for (char *c = name; *c; c++) /* "qwen3:0.6b" and "qwen3-0.6b" are words of names */
    if (strchr(":-_", *c)) *c = ' ';
  if (hub_search(name, "gguf", MOST, SECONDS, &repo, &n) != GA_OK) return;
  for (size_t i = 0; i < n; i++) add_suggestion(list, capacity, repo[i].name);
  free(repo);
}

ga_status pull_refuse_source(const char *source) {
  char list[600];
  REQUIRE(*source, GA_ERR_ARG, "the model's name is empty");
  suggest(source, list, sizeof list);
  return ga_error_set(GA_ERR_ARG,
                      "'%.100s' is no known model (--list), no https address, no hf:organisation/repository%s%s; ga "
                      "search %.100s looks for it on the hub",
                      source, *list ? "; near it: " : "", list, source);
}
