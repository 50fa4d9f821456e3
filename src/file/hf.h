/* safetensors models as Hugging Face lays them out: config.json, shards and index, names of tensors. */
#ifndef GA_FILE_HF_H
#define GA_FILE_HF_H

#include <jansson.h>

#include "base/mem.h"
#include "file/model_store.h"

/* The most keys that one table of hf_tables.c can add to the metadata. */
#define GA_HF_MOST_KEYS 64

typedef enum ga_hf_kind {
  GA_HF_INT,
  GA_HF_INTS,          /* an integer or an array of integers; becomes an array */
  GA_HF_ID,            /* the id of a token or an array of ids; becomes the first that is not negative */
  GA_HF_IDS,           /* the same; becomes the array of those that are not negative, or nothing */
  GA_HF_FLOAT,         /* a number; integers are accepted, too */
  GA_HF_RSQRT,         /* a number x > 0; becomes 1 / sqrt(x) */
  GA_HF_FLOATS,        /* an array of numbers */
  GA_HF_FRACTION,      /* a number greater than 0 and at most 1 */
  GA_HF_INT_OR_NULL,   /* an integer; null counts as 0 */
  GA_HF_FLOAT_OR_NULL, /* a number; null counts as 0 */
  GA_HF_INT_OR_NONE,   /* an integer; for null the key is left out, without its fallback */
  GA_HF_BOOL,
  GA_HF_TEXT,
  GA_HF_ROPE_TYPE,   /* a text: "none", "linear", "yarn", "llama3" or "longrope" */
  GA_HF_LAYER_TYPES, /* an array of "full_attention" and "sliding_attention"; becomes bools, true = sliding */
  GA_HF_FULL_LAYERS, /* an array of "full_attention"; makes no key */
  GA_HF_FP8,         /* an object that describes e4m3 weights with their scales; makes no key */
  /* Fields that change the mathematics in ways that GA does not support. They make no key. */
  GA_HF_REFUSED, /* the field must be absent, null or false */
  GA_HF_ONLY     /* the field must be absent, null or equal `fallback`: a value, or an array of allowed values */
} ga_hf_kind;

/* One field of config.json. If several rows have the same key, the first whose field is present counts. */
typedef struct ga_hf_key {
  const char *json; /* path of the field: names separated by dots. "rope." begins those of ga_hf_rope_view */
  const char *key;  /* metadata key; the architecture is put before a key that begins with '.' */
  ga_hf_kind kind;
  /* JSON to use if no row of this key is present; GA_HF_REQUIRED: the field must be present; NULL: the key is left
   * out */
  const char *fallback;
} ga_hf_key;
#define GA_HF_REQUIRED "required"

/* One tensor name without its ".weight" or ".bias", in both formats. '%' stands for a number: the first for the
 * layer, the second for a head. */
typedef struct ga_hf_name {
  const char *hf, *gguf;
} ga_hf_name;

/* How a checkpoint's layout differs from that of a GGUF file of the same model: ga/model_file.h has the keys. */
typedef enum ga_hf_layout {
  GA_HF_NEOX = 1,          /* sets ga.rope_layout */
  GA_HF_NORM_PLUS_ONE = 2, /* sets ga.norm_plus_one */
  GA_HF_TRANSPOSED = 4,    /* sets ga.gpt2_transposed */
  GA_HF_QKV_BY_HEAD = 8,   /* sets ga.qkv_by_head */
  GA_HF_BOTH_WAYS = 16,    /* sets <arch>.attention.causal to false */
  GA_HF_PADDED_POSITIONS =
      32 /* positions begin after the padding position: earlier rows are cut off as the file is opened */
} ga_hf_layout;

typedef struct ga_hf_arch {
  const char *model_type;  /* "model_type" in config.json */
  const char *arch;        /* name of the architecture in GGUF */
  const char *inside;      /* object of config.json that holds the fields; NULL = the top level */
  uint32_t layout;         /* combination of ga_hf_layout */
  const ga_hf_key *keys;   /* fields; this list, keys_2 and names end with a NULL row */
  const ga_hf_key *keys_2; /* further fields; may be NULL */
  const ga_hf_name *names;
} ga_hf_arch;

/* Returns table number `at` of hf_tables.c, counted from 0; NULL past the last. */
const ga_hf_arch *ga_hf_arch_at(int at);

/* Appends the metadata of `config` to the list (hf_config.c). *arch: the table that was used. */
GA_NODISCARD ga_status ga_hf_config_apply(ga_arena *arena, const char *label, const json_t *config, ga_meta_list *list,
                                          const ga_hf_arch **arch);
/* Key of the number of rows that GA_HF_PADDED_POSITIONS cuts off. */
#define GA_HF_POSITION_OFFSET "ga.position_offset"

/* Finds GGUF's name of a tensor (hf_names.c). *out is `name` itself if the table does not have it. */
GA_NODISCARD ga_status ga_hf_tensor_name(ga_arena *arena, const ga_hf_arch *arch, const char *name, const char **out);

/* --- functions of hf_open.c --- */
GA_NODISCARD ga_status ga_hf_open_folder(ga_model_file *file, const char *path);
GA_NODISCARD ga_status ga_hf_open_index(ga_model_file *file, const char *path);
/* Opens a model of one safetensors file, which is mapped already as the only shard. */
GA_NODISCARD ga_status ga_hf_open_mapped(ga_model_file *file);

#endif
