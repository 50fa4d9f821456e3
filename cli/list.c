/* ga list, ga rm: the models that are here. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/named.h"
#include "cli/partial.h"
#include "cli/store.h"
#include "cmdline/error.h"
#include "cmdline/interrupt.h"

static const char *text_of_size(uint64_t bytes, char text[24]) {
  (void)snprintf(text, 24, bytes >= 1000000000 ? "%.2f GB" : "%.1f MB",
                 (double)bytes * (bytes >= 1000000000 ? 1e-9 : 1e-6));
  return text;
}

/* "3 hours ago". A clock that was set back gives "now". */
static const char *age_of(time_t then, char text[32]) {
  static const struct {
    long long seconds;
    const char *name;
  } units[] = {{86400, "day"}, {3600, "hour"}, {60, "minute"}};
  const long long age = (long long)(time(NULL) - then);
  for (size_t i = 0; i < COUNT_OF(units); i++) {
    const long long n = age / units[i].seconds;
    if (n < 1) continue;
    (void)snprintf(text, 32, "%lld %s%s ago", n, units[i].name, n == 1 ? "" : "s");
    return text;
  }
  return "now";
}

static json_t *partial_json(const partial *p) {
  return json_pack("{s:o, s:o, s:I, s:o, s:i, s:i, s:b, s:b}", "name", cmd_json_text(p->name, strlen(p->name)), "path",
                   cmd_json_text(p->path, strlen(p->path)), "bytes", (json_int_t)p->bytes, "of_bytes",
                   p->of < 0 ? json_null() : json_integer(p->of), "parts", p->parts, "of_parts", p->of_parts, "partial",
                   1, "again", (int)p->again);
}

/* --- named models --- */

typedef struct named_list {
  size_t n, widest;
  json_t *json; /* where they are added; NULL: they are counted, or printed once the width is known */
  bool prints;
} named_list;

static ga_status take_named(void *user, const char *name, const char *path) {
  named_list *list = user;
  modelfile m;
  bool found;
  const ga_status status = named_find(name, &m, &found);
  char *from = cmd_escape_text(status == GA_OK && m.from ? m.from : ga_error_text());
  modelfile_free(&m);
  if (status == GA_OK && !found) { /* a file has its name */
    free(from);
    return GA_OK;
  }
  list->n++;
  if (strlen(name) > list->widest) list->widest = strlen(name);
  if (list->json)
    (void)json_array_append_new(list->json, json_pack("{s:s, s:o, s:o, s:b}", "name", name, "path",
                                                      cmd_json_text(path, strlen(path)), "from",
                                                      from ? json_string(from) : json_null(), "partial", 0));
  if (list->prints) printf("%-*s  %s\n", (int)list->widest, name, from ? from : "");
  free(from);
  return GA_OK;
}

/* Prints the named models in a table of their own. */
static ga_status print_named(const char *dir) {
  named_list list = {.widest = strlen("NAMED MODEL")};
  TRY(named_each(dir, take_named, &list));
  if (!list.n) return GA_OK;
  printf("\n%-*s  MADE OF\n", (int)list.widest, "NAMED MODEL");
  list.prints = true;
  return named_each(dir, take_named, &list);
}

static ga_status print_store_json(const store *s, const partials *rest) {
  json_t *list = json_array();
  for (size_t i = 0; i < s->n; i++) {
    const store_entry *e = &s->entry[i];
    char used[32];
    struct tm tm;
    (void)strftime(used, sizeof used, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&e->used, &tm));
    (void)json_array_append_new(list, json_pack("{s:o, s:o, s:I, s:I, s:s, s:b}", "name",
                                                cmd_json_text(e->name, strlen(e->name)), "path",
                                                cmd_json_text(e->path, strlen(e->path)), "bytes", (json_int_t)e->bytes,
                                                "files", (json_int_t)e->files, "used", used, "partial", 0));
  }
  named_list named = {.json = list};
  TRY(named_each(s->dir, take_named, &named));
  for (size_t i = 0; i < rest->n; i++) (void)json_array_append_new(list, partial_json(&rest->item[i]));
  TRY(cmd_print_json(list, JSON_INDENT(2)));
  printf("\n");
  return GA_OK;
}

static void print_table(const store *s) {
  size_t widest = 4;
  for (size_t i = 0; i < s->n; i++) widest = strlen(s->entry[i].name) > widest ? strlen(s->entry[i].name) : widest;
  if (!s->n) {
    (void)fprintf(stderr, "no models in %s; ga pull --list has some, ga search TEXT finds others\n", s->dir);
    return;
  }
  printf("%-*s  %10s  %s\n", (int)widest, "NAME", "SIZE", "USED");
  for (size_t i = 0; i < s->n; i++) {
    const store_entry *e = &s->entry[i];
    char size[24], age[32];
    cmd_put_text(stdout, e->name, strlen(e->name));
    printf("%-*s  %10s  %s\n", (int)(widest - strlen(e->name)), "", text_of_size(e->bytes, size), age_of(e->used, age));
  }
}

/* What came of downloads that are not whole. */
static void print_partials(const partials *rest) {
  size_t widest = 9;
  for (size_t i = 0; i < rest->n; i++)
    widest = strlen(rest->item[i].name) > widest ? strlen(rest->item[i].name) : widest;
  if (!rest->n) return;
  printf("\n%-*s  HERE\n", (int)widest, "NOT WHOLE");
  for (size_t i = 0; i < rest->n; i++) {
    const partial *p = &rest->item[i];
    char here[24], of[24];
    cmd_put_text(stdout, p->name, strlen(p->name));
    printf("%-*s  ", (int)(widest - strlen(p->name)), "");
    if (p->of_parts)
      printf("%d of %d parts", p->parts, p->of_parts);
    else if (p->of < 0)
      printf("%s", text_of_size((uint64_t)p->bytes, here));
    else
      printf("%s of %s", text_of_size((uint64_t)p->bytes, here), text_of_size((uint64_t)p->of, of));
    printf(p->again ? ", to replace what is here: --force goes on\n" : "\n");
  }
  printf("`ga pull` of the same name or address goes on.\n");
}

static ga_status list_all(bool json) {
  store s;
  partials rest = {0};
  TRY(store_open(&s));
  ga_status status = partials_find(s.dir, &rest);
  if (status == GA_OK && json) {
    status = print_store_json(&s, &rest);
  } else if (status == GA_OK) {
    print_table(&s);
    status = print_named(s.dir);
    print_partials(&rest);
  }
  partials_free(&rest);
  store_close(&s);
  return status;
}

int cmd_list(int argc, char **argv) {
  bool json = false;
  const cmd_option options[] = {{"json", 0, OPT_FLAG, &json, 0, 0, NULL, "a JSON array on stdout"}};
  int code, rest = cmd_parse("list", "[options]", options, COUNT_OF(options), argc, argv, &code);
  if (rest < 0) return code;
  if (rest) return cmd_usage_error("list", "unexpected '%s'", argv[1]);
  return list_all(json) == GA_OK ? EXIT_OK : cmd_fail("list");
}

/* --- rm --- */

/* A model, a download that is not whole, or a named model: one of the three is not NULL. */
typedef struct victim {
  const store_entry *e;
  const partial *p;
  const char *modelfile;
} victim;

static void print_victim(FILE *f, const victim *v) {
  const char *path = v->e ? v->e->path : v->p ? v->p->path : v->modelfile;
  char size[24];
  cmd_put_text(f, path, strlen(path));
  if (v->e)
    (void)fprintf(f, v->e->files > 1 ? ", %lld files, %s\n" : ", %lld file, %s\n", (long long)v->e->files,
                  text_of_size(v->e->bytes, size));
  else if (v->modelfile)
    (void)fprintf(f, ", a named model; what it is made of stays\n");
  else
    (void)fprintf(f, ", %s of a download that is not whole\n", text_of_size((uint64_t)v->p->bytes, size));
}

/* Enter alone is no. */
static bool agrees(const victim *v) {
  char answer[16] = "";
  (void)fprintf(stderr, "remove ");
  print_victim(stderr, v);
  (void)fprintf(stderr, "[y/N] ");
  (void)fflush(stderr);
  if (!fgets(answer, sizeof answer, stdin)) (void)fprintf(stderr, "\n");
  return answer[0] == 'y' || answer[0] == 'Y';
}

static ga_status remove_victim(const store *s, const victim *v, bool yes) {
  if (!yes && !agrees(v)) {
    (void)fprintf(stderr, "kept\n");
    return GA_OK;
  }
  if (v->modelfile)
    REQUIRE(!unlink(v->modelfile), GA_ERR_IO, "%s: %s", v->modelfile, strerror(errno));
  else
    TRY(v->e ? store_remove(s, v->e) : partial_remove(v->p));
  printf("removed ");
  print_victim(stdout, v);
  return GA_OK;
}

static const partial *find_partial(const partials *rest, const char *name) {
  for (size_t i = 0; i < rest->n; i++)
    if (!strcmp(rest->item[i].name, name)) return &rest->item[i];
  return NULL;
}

/* What `ga list` shows by this name, a model before a download; else what -m opens by it. */
static ga_status remove_one(const store *s, const char *name, bool yes) {
  partials rest;
  victim v = {0};
  char path[4096];
  if (named_path(name, path, sizeof path)) {
    v.modelfile = path;
    return remove_victim(s, &v, yes);
  }
  TRY(partials_find(s->dir, &rest));
  v.p = find_partial(&rest, name);
  ga_status status = store_find(s, name, &v.e);
  if (v.p && v.e && strcmp(v.e->name, name) != 0) v.e = NULL;
  if (status == GA_OK || v.p) status = remove_victim(s, &v, yes);
  partials_free(&rest);
  return status;
}

int cmd_rm(int argc, char **argv) {
  bool yes = false;
  const cmd_option options[] = {{"yes", 'y', OPT_FLAG, &yes, 0, 0, NULL, "do not ask"}};
  int code, rest = cmd_parse("rm", "[options] MODEL...", options, COUNT_OF(options), argc, argv, &code);
  if (rest < 0) return code;
  if (!rest) return cmd_usage_error("rm", "which model? (ga list)");
  if (!yes && !isatty(STDIN_FILENO)) return cmd_usage_error("rm", "nobody can be asked here; --yes removes without");
  ga_status status = GA_OK;
  for (int i = 1; i <= rest && status == GA_OK; i++) {
    store s;
    status = store_open(&s);
    if (status != GA_OK) break;
    status = remove_one(&s, argv[i], yes);
    store_close(&s);
  }
  return status == GA_OK ? EXIT_OK : cmd_fail("rm");
}
