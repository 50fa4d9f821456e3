/* A folder, an index or a single file of safetensors: which files, in which order, with which config.json. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/log.h"
#include "base/status.h"
#include "file/hf.h"
#include "file/hf_generation.h"
#include "file/hf_modules.h"
#include "file/hf_template.h"
#include "file/limits.h"

static const char *const side_names[] = {"tokenizer.json",
                                         "tokenizer_config.json",
                                         "tokenizer.model",
                                         "special_tokens_map.json",
                                         "added_tokens.json",
                                         "chat_template.jinja",
                                         "vocab.txt",
                                         "vocab.json",
                                         "merges.txt",
                                         "generation_config.json",
                                         "config.json",
                                         "chat_template.json",
                                         "additional_chat_templates/tool_use.jinja"};

static bool file_exists(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Folder of a path with its '/', "" for a bare name. */
static ga_status copy_folder_of(ga_arena *arena, const char *path, char **out) {
  const char *slash = strrchr(path, '/');
  return ga_arena_strndup(arena, path, slash ? (size_t)(slash - path) + 1 : 0, out);
}

static ga_status find_side_files(ga_model_file *file, const char *folder) {
  void *p;
  GA_TRY(ga_arena_alloc(&file->arena, sizeof(ga_side_file) * GA_COUNT_OF(side_names), &p));
  file->side_files = p;
  for (size_t i = 0; i < GA_COUNT_OF(side_names); i++) {
    char *path;
    GA_TRY(ga_arena_printf(&file->arena, &path, "%s%s", folder, side_names[i]));
    if (file_exists(path)) file->side_files[file->n_side_files++] = (ga_side_file){side_names[i], path};
  }
  return GA_OK;
}

/* Adds what generation_config.json says to the parsed config.json. */
static ga_status add_generation(ga_model_file *file, json_t *config) {
  const char *path = ga_model_file_side_path(file, "generation_config.json");
  json_t *generation;
  if (!path) return GA_OK;
  const ga_status read = ga_json_read_file(path, &generation);
  if (read == GA_ERR_NOMEM) return read;
  if (read != GA_OK) { /* as transformers, which then has the ids of config.json alone */
    ga_log(GA_LOG_WARN, "%s: not used", ga_error_text());
    return GA_OK;
  }
  const ga_status status = ga_hf_generation_apply(generation, config, "text_config");
  json_decref(generation);
  return status;
}

static ga_status apply_config(ga_model_file *file, const char *folder, const ga_hf_arch **arch) {
  const char *path = ga_model_file_side_path(file, "config.json");
  json_t *config;
  *arch = NULL;
  if (!path) return GA_OK;
  GA_TRY(ga_json_read_file(path, &config));
  ga_status status = add_generation(file, config);
  if (status == GA_OK) status = ga_hf_config_apply(&file->arena, ga_path_label(path), config, file->meta, arch);
  json_decref(config);
  if (status == GA_OK && (*arch)->layout & GA_HF_BOTH_WAYS) status = ga_hf_modules(file, folder, (*arch)->arch);
  return status;
}

/* The rows of positions before the first that texts have. */
static ga_status cut_positions(ga_model_file *file) {
  int64_t first;
  GA_TRY(ga_model_file_int(file, GA_HF_POSITION_OFFSET, 1, INT32_MAX, &first));
  const int64_t at = ga_name_table_find(&file->tensor_names, "position_embd.weight");
  if (at < 0) return GA_OK;                /* loading says that it is missing */
  ga_model_tensor *t = &file->tensors[at]; /* no form makes it: it is in a file */
  GA_REQUIRE(t->view.n_dims == 2 && t->view.dim[0] > first, GA_ERR_SHAPE,
             "%s: tensor '%s' has %d dimensions, the first %lld; must be a matrix of more than %lld rows",
             file->shards[t->part].label, t->name, t->view.n_dims, (long long)t->view.dim[0], (long long)first);
  const int64_t dims[2] = {t->view.dim[0] - first, t->view.dim[1]};
  const uint64_t cut = t->bytes / (uint64_t)t->view.dim[0] * (uint64_t)first;
  GA_TRY(ga_tensor_describe(t, t->view.dtype, 2, dims));
  ga_tensor_bind(t, file->shards[t->part].map.data, t->offset + cut);
  return GA_OK;
}

/* All parts are parsed. */
static ga_status finish_open(ga_model_file *file, const char *folder) {
  const ga_hf_arch *arch;
  GA_TRY(find_side_files(file, folder));
  GA_TRY(apply_config(file, folder, &arch));
  GA_TRY(ga_hf_templates(file));
  GA_TRY(ga_model_store_join(file, arch));
  return arch && arch->layout & GA_HF_PADDED_POSITIONS ? cut_positions(file) : GA_OK;
}

ga_status ga_hf_open_mapped(ga_model_file *file) {
  char *folder;
  GA_TRY(copy_folder_of(&file->arena, file->shards[0].path, &folder));
  GA_TRY(ga_safetensors_parse(&file->arena, &file->shards[0]));
  return finish_open(file, folder);
}

/* --- index ------------------------------------------------------------------------------------------------------- */

typedef struct shard_list {
  const char **names;
  int64_t count;
  ga_name_table table;
} shard_list;

/* A file of this folder, no path that leads elsewhere. */
static bool is_plain_name(const char *name) {
  return ga_name_is_sound(name, strlen(name), GA_MODEL_MAX_NAME_BYTES) && name[0] != '.' && !strchr(name, '/');
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static ga_status collect_shards(ga_arena *arena, json_t *map, shard_list *out) {
  const char *tensor;
  json_t *value;
  void *p;
  GA_TRY(ga_arena_alloc(arena, GA_MODEL_MAX_SHARDS * sizeof(char *), &p));
  GA_TRY(ga_name_table_init(arena, GA_MODEL_MAX_SHARDS, &out->table));
  out->names = p;
  json_object_foreach(map, tensor, value) {
    const char *name = json_string_value(value);
    GA_REQUIRE(name && is_plain_name(name), GA_ERR_FORMAT,
               "weight_map '%s' is '%s'; must be the name of a file in the same folder",
               ga_quote(tensor, strlen(tensor)).text,
               name ? ga_quote(name, strlen(name)).text : ga_json_type_name(value));
    if (ga_name_table_find(&out->table, name) >= 0) continue;
    GA_REQUIRE(out->count < GA_MODEL_MAX_SHARDS, GA_ERR_FORMAT, "weight_map names more than %d files",
               GA_MODEL_MAX_SHARDS);
    GA_TRY(ga_name_table_add(&out->table, name, (uint32_t)out->count));
    out->names[out->count++] = name;
  }
  GA_REQUIRE(out->count > 0, GA_ERR_FORMAT, "weight_map is empty; must name at least one file");
  qsort(out->names, (size_t)out->count, sizeof *out->names, compare_names);
  return GA_OK;
}

/* The shard from which each tensor is taken. */
typedef struct shard_tensors {
  ga_name_table table; /* names to indices into `part` */
  int32_t *part;       /* [count] */
  int64_t count;
} shard_tensors;

/* A tensor that stands in several shards is taken from the one that the index names, else from the last of them. */
static ga_status note_tensor(shard_tensors *all, int32_t part, const char *shard, const char *tensor,
                             const json_t *map) {
  const char *listed = json_string_value(json_object_get(map, tensor));
  const int64_t at = ga_name_table_find(&all->table, tensor);
  if (at < 0) {
    GA_TRY(ga_name_table_add(&all->table, tensor, (uint32_t)all->count));
    all->part[all->count++] = part;
    return GA_OK;
  }
  if (!listed || !strcmp(listed, shard)) all->part[at] = part;
  return GA_OK;
}

static ga_status note_tensors(ga_model_file *file, const shard_list *shards, const json_t *map, shard_tensors *all) {
  int64_t most = 0;
  void *p;
  for (int32_t i = 0; i < file->n_shards; i++) most += file->shards[i].n_tensors;
  GA_TRY(ga_name_table_init(&file->arena, (uint64_t)most, &all->table));
  GA_TRY(ga_arena_alloc(&file->arena, (size_t)most * sizeof(int32_t), &p));
  all->part = p;
  for (int32_t i = 0; i < file->n_shards; i++)
    for (int64_t j = 0; j < file->shards[i].n_tensors; j++)
      GA_TRY(note_tensor(all, i, shards->names[i], file->shards[i].tensors[j].source_name, map));
  return GA_OK;
}

/* Leaves out the tensors of a shard that another shard has. */
static void drop_other_copies(ga_model_shard *part, int32_t number, const shard_tensors *all) {
  int64_t kept = 0;
  for (int64_t j = 0; j < part->n_tensors; j++)
    if (all->part[ga_name_table_find(&all->table, part->tensors[j].source_name)] == number)
      part->tensors[kept++] = part->tensors[j];
  part->n_tensors = kept;
}

/* Tensors that the index does not list, or lists in another shard, are there all the same. */
static ga_status check_listed(const shard_tensors *all, json_t *map) {
  const char *tensor;
  json_t *value;
  json_object_foreach(map, tensor, value) {
    GA_REQUIRE(ga_name_table_find(&all->table, tensor) >= 0, GA_ERR_FORMAT,
               "weight_map names tensor '%s' in '%s'; none of the files has it", ga_quote(tensor, strlen(tensor)).text,
               ga_quote(json_string_value(value), json_string_length(value)).text);
  }
  return GA_OK;
}

static ga_status open_shards(ga_model_file *file, const char *folder, json_t *map) {
  shard_list shards = {0};
  shard_tensors all = {0};
  GA_TRY(collect_shards(&file->arena, map, &shards));
  GA_TRY(ga_model_store_shards(file, shards.count));
  for (int32_t i = 0; i < file->n_shards; i++) {
    char *path;
    GA_TRY(ga_arena_printf(&file->arena, &path, "%s%s", folder, shards.names[i]));
    GA_TRY(ga_model_store_map(file, i, path));
    GA_TRY(ga_safetensors_parse(&file->arena, &file->shards[i]));
  }
  GA_TRY(note_tensors(file, &shards, map, &all));
  GA_TRY(check_listed(&all, map));
  for (int32_t i = 0; i < file->n_shards; i++) drop_other_copies(&file->shards[i], i, &all);
  return GA_OK;
}

ga_status ga_hf_open_index(ga_model_file *file, const char *path) {
  char *folder;
  json_t *index;
  GA_TRY(copy_folder_of(&file->arena, path, &folder));
  GA_TRY(ga_json_read_file(path, &index));
  json_t *map = json_object_get(index, "weight_map");
  ga_status status = json_is_object(map)
                         ? open_shards(file, folder, map)
                         : ga_fail(GA_ERR_FORMAT, "'weight_map' is %s; must be an object", ga_json_type_name(map));
  if (status) status = ga_fail_in(status, "%s", ga_path_label(path));
  json_decref(index);
  return status ? status : finish_open(file, folder);
}

ga_status ga_hf_open_folder(ga_model_file *file, const char *path) {
  char *config, *single, *index;
  size_t n = strlen(path);
  const char *slash = path[n - 1] == '/' ? "" : "/";
  GA_TRY(ga_arena_printf(&file->arena, &config, "%s%sconfig.json", path, slash));
  GA_TRY(ga_arena_printf(&file->arena, &single, "%s%smodel.safetensors", path, slash));
  GA_TRY(ga_arena_printf(&file->arena, &index, "%s%smodel.safetensors.index.json", path, slash));
  GA_REQUIRE(file_exists(config), GA_ERR_IO,
             "%s: a folder without config.json; name a .gguf file, or a folder of safetensors", path);
  if (file_exists(single)) {
    GA_TRY(ga_model_store_shards(file, 1));
    GA_TRY(ga_model_store_map(file, 0, single));
    return ga_hf_open_mapped(file);
  }
  GA_REQUIRE(file_exists(index), GA_ERR_IO, "%s: neither model.safetensors nor model.safetensors.index.json", path);
  return ga_hf_open_index(file, index);
}
