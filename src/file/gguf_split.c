/* A GGUF model in several files: NAME-00001-of-0000N.gguf, each with its own directory, the metadata in the first.
 * Which file is which is told twice, by the name and by split.no; both must agree, so a shard that is a link to another
 * or a copy of it is found out. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "file/limits.h"
#include "file/model_store.h"

#define SUFFIX_BYTES 20 /* "-00001-of-00003.gguf" */

static void shard_suffix(char out[SUFFIX_BYTES + 1], int64_t number, int64_t count) {
  (void)snprintf(out, SUFFIX_BYTES + 1, "-%05u-of-%05u.gguf", (unsigned)number % 100000u, (unsigned)count % 100000u);
}

static ga_status split_int(const ga_model_shard *part, const char *key, int64_t *out) {
  const ga_meta *meta = ga_meta_list_find(&part->meta, key);
  GA_REQUIRE(meta && meta->type != GA_META_ARRAY, GA_ERR_FORMAT, "metadata '%s' is %s; must be an integer", key,
             meta ? "an array" : "missing");
  return ga_meta_int(meta, 0, out);
}

static ga_status require_split(const ga_model_shard *part, const char *key, int64_t want) {
  int64_t value = 0;
  ga_status status = split_int(part, key, &value);
  if (status) return ga_fail_in(status, "%s", part->label);
  GA_REQUIRE(value == want, GA_ERR_FORMAT, "%s: metadata '%s' is %lld; must be %lld", part->label, key,
             (long long)value, (long long)want);
  return GA_OK;
}

/* The first shard by name and by content; *stem_bytes = length of its path before the suffix. */
static ga_status require_first(const ga_model_shard *part, int64_t count, size_t *stem_bytes) {
  char suffix[SUFFIX_BYTES + 1];
  int64_t number = 0;
  size_t n = strlen(part->path);
  ga_status status = split_int(part, "split.no", &number);
  if (status) return ga_fail_in(status, "%s", part->label);
  GA_REQUIRE(number == 0, GA_ERR_FORMAT, "%s: metadata 'split.no' is %lld, a later one of %lld files; open the first",
             part->label, (long long)number, (long long)count);
  shard_suffix(suffix, 1, count);
  GA_REQUIRE(n > SUFFIX_BYTES && !strcmp(part->path + n - SUFFIX_BYTES, suffix), GA_ERR_FORMAT,
             "%s: the first of %lld files; its name must end with '%s'", part->label, (long long)count, suffix);
  *stem_bytes = n - SUFFIX_BYTES;
  return GA_OK;
}

static ga_status open_shard(ga_model_file *file, int32_t i, size_t stem_bytes) {
  char suffix[SUFFIX_BYTES + 1], *path;
  shard_suffix(suffix, i + 1, file->n_shards);
  GA_TRY(ga_arena_printf(&file->arena, &path, "%.*s%s", (int)stem_bytes, file->shards[0].path, suffix));
  ga_status status = ga_model_store_map(file, i, path);
  if (status) return ga_fail_in(status, "file %d of %d", i + 1, file->n_shards);
  GA_TRY(ga_gguf_parse(&file->arena, &file->shards[i]));
  GA_TRY(require_split(&file->shards[i], "split.no", i));
  return require_split(&file->shards[i], "split.count", file->n_shards);
}

ga_status ga_gguf_open_rest(ga_model_file *file) {
  int64_t count = 0, total = 0;
  size_t stem_bytes = 0;
  GA_TRY(ga_model_file_int_or(file, "split.count", 0, 0, GA_MODEL_MAX_SHARDS, &count));
  if (count <= 1) return GA_OK;
  GA_TRY(require_first(&file->shards[0], count, &stem_bytes));
  GA_TRY(ga_model_store_shards(file, count));
  for (int32_t i = 1; i < file->n_shards; i++) GA_TRY(open_shard(file, i, stem_bytes));
  for (int32_t i = 0; i < file->n_shards; i++) total += file->shards[i].n_tensors;
  return require_split(&file->shards[0], "split.tensors.count", total);
}
