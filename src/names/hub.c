#include "names/hub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/status.h"
#include "names/names.h"

/* --- names --- */

bool ga_hub_is_name(const char *text) { return !strncmp(text, "hf:", 3); }

/* Not isalnum: a library does not ask which locale the program has set. */
static bool is_letter_or_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static bool is_word(const char *p, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!is_letter_or_digit(p[i]) && !strchr("._-", p[i])) return false;
  return n > 0 && p[0] != '.';
}

/* Bytes of the letter, mark or digit at p, or of a sign that neither shells nor terminals act on; 0 for all else. */
static size_t harmless_bytes(const char *p, size_t n) {
  utf8proc_int32_t code;
  if ((unsigned char)p[0] < 0x80) return is_letter_or_digit(p[0]) || strchr("._+@=,-", p[0]) ? 1 : 0;
  const utf8proc_ssize_t bytes = utf8proc_iterate((const utf8proc_uint8_t *)p, (utf8proc_ssize_t)n, &code);
  if (bytes < 2) return 0;
  const utf8proc_category_t c = utf8proc_category(code); /* LU, LL, LT, LM, LO, MN, MC, ME, ND: one after another */
  return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_ND ? (size_t)bytes : 0;
}

/* A path inside of a repository. */
static bool is_inside(const char *path) {
  for (const char *p = path;; p++) {
    const size_t n = strcspn(p, "/");
    if (!n || p[0] == '.') return false; /* no hidden files either: those beside models are ours */
    for (size_t at = 0, bytes; at < n; at += bytes)
      if (!(bytes = harmless_bytes(p + at, n - at))) return false;
    p += n;
    if (!*p) return true;
  }
}

ga_status ga_hub_parse(const char *text, ga_hub_name *out) {
  const char *org = text + 3, *repo = strchr(org, '/');
  *out = (ga_hub_name){0};
  const size_t n_org = repo ? (size_t)(repo - org) : 0, n_repo = repo ? strcspn(++repo, "/:") : 0;
  const char *rest = repo ? repo + n_repo : "";
  const bool good = repo && is_word(org, n_org) && is_word(repo, n_repo) && n_org < sizeof out->org &&
                    n_repo < sizeof out->repo && strlen(rest) < sizeof out->file;
  GA_REQUIRE(good && (*rest != ':' || (is_word(rest + 1, strlen(rest + 1)) && strlen(rest) < sizeof out->tag)) &&
                 (*rest != '/' || is_inside(rest + 1)),
             GA_ERR_ARG, "%s: must be hf:ORGANISATION/REPOSITORY, with :TYPE (as Q4_K_M) or /FILE behind it or not",
             text);
  memcpy(out->org, org, n_org);
  memcpy(out->repo, repo, n_repo);
  if (*rest)
    (void)snprintf(*rest == ':' ? out->tag : out->file, *rest == ':' ? sizeof out->tag : sizeof out->file, "%s",
                   rest + 1);
  return GA_OK;
}

ga_status ga_hub_folder(const ga_hub_name *name, char *path, size_t capacity) {
  char dir[3072];
  GA_TRY(ga_models_folder(dir, sizeof dir));
  const int n = snprintf(path, capacity, "%s/hf/%s/%s", dir, name->org, name->repo);
  GA_REQUIRE(n > 0 && (size_t)n < capacity, GA_ERR_IO, "%s: path too long", dir);
  return GA_OK;
}

/* --- files --- */

static bool ends_with(const char *text, const char *end) {
  const size_t n = strlen(text), m = strlen(end);
  return n >= m && !strcasecmp(text + n - m, end);
}

/* A model, and neither what it sees pictures with nor statistics for quantising it. */
static bool is_gguf(const char *path) {
  return ends_with(path, ".gguf") && !strcasestr(path, "mmproj") && !strcasestr(path, "imatrix");
}

/* "-00002-of-00005.gguf": 2 and 5, and where that begins; else 1 of 1. */
static size_t shard_of(const char *path, unsigned *shard, unsigned *count) {
  const size_t n = strlen(path), tail = strlen("-00001-of-00001.gguf");
  char end[8] = "";
  *shard = *count = 1;
  if (n <= tail || sscanf(path + n - tail, "-%5u-of-%5u%7s", shard, count, end) != 3 || strcasecmp(end, ".gguf")) {
    *shard = *count = 1;
    return n - strlen(".gguf");
  }
  return n - tail;
}

ga_status ga_hub_files_add(ga_hub_files *files, const char *path, int64_t bytes, const char *sha256) {
  if (strlen(path) >= sizeof files->item->path || !is_inside(path)) return GA_OK;
  GA_REQUIRE(files->n < GA_HUB_MOST_FILES, GA_ERR_FORMAT, "the repository lists more than %d files", GA_HUB_MOST_FILES);
  if (files->n == files->room) {
    const size_t room = files->room ? 2 * files->room : 32;
    ga_hub_file *bigger = realloc(files->item, room * sizeof *bigger);
    if (!bigger) return ga_fail_nomem("files", room * sizeof *bigger);
    files->item = bigger;
    files->room = room;
  }
  ga_hub_file *f = &files->item[files->n++];
  *f = (ga_hub_file){.bytes = bytes};
  (void)snprintf(f->path, sizeof f->path, "%s", path);
  if (is_gguf(path)) f->stem = shard_of(path, &f->shard, &f->count);
  if (sha256 && strlen(sha256) == 64) (void)snprintf(f->sha256, sizeof f->sha256, "%s", sha256);
  return GA_OK;
}

void ga_hub_files_free(ga_hub_files *files) {
  free(files->item);
  *files = (ga_hub_files){0};
}

/* TAG stands in the file's name as a word of its own. */
static bool has_tag(const char *path, const char *tag) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  for (const char *at = name; (at = strcasestr(at, tag)); at++) {
    const char before = at == name ? '-' : at[-1], after = at[strlen(tag)];
    if (strchr("-._", before) && after && strchr("-.", after)) return true;
  }
  return false;
}

/* Marks the shards of which `first` is the first one, if all are there. Sorted, they stand behind it. */
static bool choose_shards(ga_hub_files *files, ga_hub_file *first) {
  unsigned found = 0;
  const ga_hub_file *end = files->item + files->n;
  for (int pass = 0; pass < 2; pass++)
    for (ga_hub_file *f = first; f < end && !strncmp(f->path, first->path, first->stem); f++) {
      if (f->stem != first->stem || f->count != first->count) continue;
      found += pass == 0;
      if (pass == 1) f->chosen = found == f->count;
    }
  first->in_part = found != first->count;
  return !first->in_part;
}

/* The first whole model with this tag ("": of any), as the list goes. */
static bool choose_gguf(ga_hub_files *files, const char *tag) {
  for (size_t i = 0; i < files->n; i++) {
    ga_hub_file *f = &files->item[i];
    if (f->shard != 1 || f->in_part || (*tag && !has_tag(f->path, tag))) continue;
    if (choose_shards(files, f)) return true;
  }
  return false;
}

bool ga_hub_is_of_model(const char *path) { return is_gguf(path) || ga_hub_is_of_folder(path); }

bool ga_hub_is_of_folder(const char *path) {
  static const char *const names[] = {"tokenizer.json",
                                      "tokenizer_config.json",
                                      "special_tokens_map.json",
                                      "vocab.txt",
                                      "added_tokens.json",
                                      "chat_template.jinja",
                                      "vocab.json",
                                      "merges.txt",
                                      "generation_config.json",
                                      "tokenizer.model",
                                      "1_Pooling/config.json",
                                      "model.safetensors.index.json",
                                      "config.json"};
  for (size_t i = 0; i < GA_COUNT_OF(names); i++)
    if (!strcmp(path, names[i])) return true;
  return !strchr(path, '/') && ends_with(path, ".safetensors") && !strncmp(path, "model", 5);
}

static bool choose_folder(ga_hub_files *files) {
  bool weights = false, config = false;
  for (size_t i = 0; i < files->n; i++) {
    ga_hub_file *f = &files->item[i];
    f->chosen = ga_hub_is_of_folder(f->path);
    weights |= f->chosen && ends_with(f->path, ".safetensors");
    config |= !strcmp(f->path, "config.json");
  }
  for (size_t i = 0; (!weights || !config) && i < files->n; i++) files->item[i].chosen = false;
  return weights && config;
}

static int compare_files(const void *a, const void *b) {
  const ga_hub_file *x = a, *y = b;
  const int last = !strcmp(x->path, "config.json") - !strcmp(y->path, "config.json");
  return last ? last : strcmp(x->path, y->path);
}

ga_status ga_hub_choose(const ga_hub_name *name, ga_hub_files *files) {
  static const char *const types[] = {"Q4_K_M", "Q4_K_S", "Q5_K_M", "Q4_0", "Q4_1", "Q8_0", "Q6_K", "BF16", "F16", ""};
  bool gguf = false;
  if (files->n) qsort(files->item, files->n, sizeof *files->item, compare_files);
  for (size_t i = 0; i < files->n; i++) files->item[i].chosen = !strcmp(files->item[i].path, name->file);
  if (*name->file) {
    GA_REQUIRE(ga_hub_chosen(files), GA_ERR_STATE, "hf:%s/%s has no file '%s'", name->org, name->repo, name->file);
    return GA_OK;
  }
  if (*name->tag) gguf = choose_gguf(files, name->tag);
  GA_REQUIRE(gguf || !*name->tag, GA_ERR_STATE, "hf:%s/%s has no GGUF file with '%s' in its name", name->org,
             name->repo, name->tag);
  for (size_t i = 0; i < GA_COUNT_OF(types) && !gguf; i++) gguf = choose_gguf(files, types[i]);
  if (gguf) return GA_OK;
  GA_REQUIRE(choose_folder(files), GA_ERR_STATE,
             "hf:%s/%s has no model: neither a GGUF file nor config.json beside model*.safetensors", name->org,
             name->repo);
  return GA_OK;
}

const char *ga_hub_chosen(const ga_hub_files *files) {
  const char *one = NULL;
  for (size_t i = 0; i < files->n; i++) {
    if (!files->item[i].chosen) continue;
    if (!strcmp(files->item[i].path, "config.json")) return "";
    if (!one) one = files->item[i].path;
  }
  return one;
}
