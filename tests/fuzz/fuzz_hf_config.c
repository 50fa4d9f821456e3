/* config.json: the first line is a tensor name to translate, the rest the JSON. */
#include "base/json.h"
#include "file/hf.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/walk_model.h"

static void apply_and_walk(ga_model_file *file, const json_t *config, const char *tensor) {
  const ga_hf_arch *arch;
  const char *name;
  if (ga_meta_list_init(&file->arena, GA_HF_MOST_KEYS, file->meta) != GA_OK) return;
  if (ga_hf_config_apply(&file->arena, "fuzz", config, file->meta, &arch) != GA_OK) return;
  if (ga_hf_tensor_name(&file->arena, arch, tensor, &name) == GA_OK) walk_bytes(name, strlen(name));
  walk_model(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const uint8_t *line = size ? memchr(data, '\n', size) : NULL;
  char tensor[256] = {0};
  ga_model_file *file;
  json_t *config;
  if (!line || (size_t)(line - data) >= sizeof tensor) return 0;
  memcpy(tensor, data, (size_t)(line - data));
  if (ga_json_parse("fuzz", (const char *)line, size - (size_t)(line - data), &config) != GA_OK) return 0;
  if (ga_model_store_create(GA_MODEL_SAFETENSORS, &file) == GA_OK) {
    if (ga_model_store_borrow(file, "fuzz", data, size) == GA_OK) apply_and_walk(file, config, tensor);
    ga_model_file_destroy(file);
  }
  json_decref(config);
  return 0;
}
