/* Reads safetensors models in Hugging Face's form: config.json, shards with their index, names of tensors. */
#ifndef GA_FILE_HF_H
#define GA_FILE_HF_H

#include <jansson.h>

#include "base/mem.h"
#include "file/model_store.h"

/* Largest number of keys that one table of hf_tables.c can add to the metadata. */
#define GA_HF_MOST_KEYS 64

typedef enum ga_hf_kind {
  GA_HF_INT,
  GA_HF_INTS, /* an integer or an array of integers; becomes an array */
  /* the id of a token or an array of ids; becomes the first id that is not negative */
  GA_HF_ID,
  /* the id of a token or an array of ids; becomes the array of the ids that are not negative. Makes no key if there are
   * none */
  GA_HF_IDS,
  GA_HF_FLOAT,         /* a number; integers are accepted, too */
  GA_HF_RSQRT,         /* a number x > 0; becomes 1 / sqrt(x) */
  GA_HF_FLOATS,        /* an array of numbers */
  GA_HF_FRACTION,      /* a number greater than 0 and at most 1 */
  GA_HF_INT_OR_NULL,   /* an integer; null counts as 0 */
  GA_HF_FLOAT_OR_NULL, /* a number; null counts as 0 */
  GA_HF_INT_OR_NONE,   /* an integer; null leaves the key out, without its fallback */
  GA_HF_BOOL,
  GA_HF_TEXT,
  GA_HF_ROPE_TYPE, /* a text: "none", "linear", "yarn", "llama3" or "longrope" */
  /* an array of "full_attention" and "sliding_attention"; becomes an array of bools, true = sliding */
  GA_HF_LAYER_TYPES,
  GA_HF_FULL_LAYERS, /* an array of "full_attention"; makes no key */
  GA_HF_DENSE_FIRST, /* an array of "dense", then of "sparse" alone; becomes the number of the first */
  GA_HF_BY_CODE,     /* the field is read by code of the model type, and makes no key by its row */
  GA_HF_FP8,         /* an object that describes e4m3 weights with scales; makes no key */
  /* Fields that change the mathematics in ways that GA does not support. They make no key. */
  GA_HF_REFUSED,    /* the field must be absent, null or false */
  GA_HF_LAST_LAYER, /* the field must be absent, null, -1 or the number of the last layer */
  GA_HF_ONLY        /* the field must be absent, null or equal `fallback`: a value, or an array of allowed values */
} ga_hf_kind;

/* Translation of one field of config.json to a metadata key. If several rows have the same key, the first row whose
 * field is present counts. */
typedef struct ga_hf_key {
  /* path of the field: names separated by dots. A path that begins with "rope." is a field of the object that
   * ga_hf_rope_view makes */
  const char *json;
  const char *key; /* metadata key; if it begins with '.', the architecture's name is put before it */
  ga_hf_kind kind;
  /* value as JSON text if no row with this key is present; GA_HF_REQUIRED: the field must be present; NULL: the key is
   * left out */
  const char *fallback;
} ga_hf_key;
#define GA_HF_REQUIRED "required"

/* One tensor's name in both formats, without its ".weight" or ".bias"; whole names where a folder's has neither. '%'
 * stands for a number: the first for the layer, the second for a head. */
typedef struct ga_hf_name {
  const char *hf, *gguf;
} ga_hf_name;

/* Which rows of a tensor of a folder a tensor of GGUF has, and how they lie there. */
typedef enum ga_hf_take {
  GA_HF_TAKE_ALL = 0,   /* the whole tensor, under another name */
  GA_HF_TAKE_FIRST = 1, /* the first half of each matrix's rows */
  GA_HF_TAKE_SECOND = 2,
  GA_HF_TAKE_EVEN = 3, /* rows 0, 2, 4 ... of each matrix */
  GA_HF_TAKE_ODD = 4,
  GA_HF_TAKE_PARTS = 7,    /* mask of the values above */
  GA_HF_TAKE_FLAT = 8,     /* dimensions of 1 are left out: a vector is left */
  GA_HF_TAKE_COLUMNS = 16, /* the folder's columns are the rows of GGUF */
  GA_HF_TAKE_MXFP4 = 32,   /* codes NAME_blocks and scales NAME_scales in Hugging Face's order */
  GA_HF_TAKE_MATRIX = 64   /* the folder's tensor is one matrix, not one for each expert */
} ga_hf_take;

/* A tensor of GGUF that a tensor of a folder becomes in a form of its own. A folder's tensor may have two rows. */
typedef struct ga_hf_form {
  const char *hf;   /* whole name after the prefix; '%' stands for the layer */
  const char *gguf; /* whole name; NULL: the tensor is a part of another one's form, and is left out */
  uint32_t take;    /* combination of ga_hf_take bits */
} ga_hf_form;

/* Differences between a checkpoint's layout and that of a GGUF file of the same model. ga/model_file.h describes the
 * keys. */
typedef enum ga_hf_layout {
  GA_HF_NEOX = 1,          /* RoPE rotates pairs (i, i + n/2): sets the metadata key ga.rope_layout to "neox" */
  GA_HF_NORM_PLUS_ONE = 2, /* norms have weights w where the model multiplies by 1 + w: sets ga.norm_plus_one */
  GA_HF_TRANSPOSED = 4,    /* weights of linear layers are [in, out], not [out, in]: sets ga.gpt2_transposed */
  GA_HF_QKV_BY_HEAD = 8,   /* rows of attn_qkv are q, k, v of head 0, then of head 1 and so on: sets ga.qkv_by_head */
  GA_HF_BOTH_WAYS = 16,    /* attention has no causal mask: sets <arch>.attention.causal to false */
  /* positions begin after the padding position: earlier rows of the table are cut off when the file is opened */
  GA_HF_PADDED_POSITIONS = 32,
  GA_HF_SIGMOID = 64,   /* scores of experts are sigmoids: sets <arch>.expert_gating_func to GGUF's number of them */
  GA_HF_BY_LAYER = 256, /* sizes differ between layers: hf_layers.c reads them */
  GA_HF_NTK_ALPHA = 128 /* rope type "dynamic" with alpha a: the base is raised by a^(D / (D - 2)), D elements a head */
} ga_hf_layout;

typedef struct ga_hf_arch {
  const char *model_type;  /* value of "model_type" in config.json */
  const char *arch;        /* name of the architecture in GGUF */
  const char *inside;      /* name of the object of config.json that has the fields; NULL = the top level */
  uint32_t layout;         /* combination of ga_hf_layout bits */
  const ga_hf_key *keys;   /* translated fields; this list, keys_2 and names end with a row of NULL */
  const ga_hf_key *keys_2; /* further translated fields; may be NULL */
  const ga_hf_name *names;
  const ga_hf_form
      *forms; /* tensors that change their form, before `names` count; ends with a row of NULL; may be NULL */
} ga_hf_arch;

/* Returns table number `at` of hf_tables.c, counted from 0; NULL past the last. */
const ga_hf_arch *ga_hf_arch_at(int at);

/* Appends the metadata that follows from config.json to the list (hf_config.c). Sets *arch to the table that was
 * used. */
GA_NODISCARD ga_status ga_hf_config_apply(ga_arena *arena, const char *label, const json_t *config, ga_meta_list *list,
                                          const ga_hf_arch **arch);
/* Metadata key of the number of rows that GA_HF_PADDED_POSITIONS cuts off the table of positions. */
#define GA_HF_POSITION_OFFSET "ga.position_offset"

/* Finds GGUF's name of a tensor (hf_names.c). *out is allocated in the arena, or is `name` itself if the table does not
 * have it. */
GA_NODISCARD ga_status ga_hf_tensor_name(ga_arena *arena, const ga_hf_arch *arch, const char *name, const char **out);

/* Finds GGUF's name of a tensor in a form: *matches says whether the form is of the tensor. *out is allocated in the
 * arena; NULL: the form has no tensor of its own. */
GA_NODISCARD ga_status ga_hf_form_name(ga_arena *arena, const ga_hf_form *form, const char *name, const char **out,
                                       bool *matches);

/* --- functions of hf_open.c --- */
GA_NODISCARD ga_status ga_hf_open_folder(ga_model_file *file, const char *path);
GA_NODISCARD ga_status ga_hf_open_index(ga_model_file *file, const char *path);
/* Opens a model of one safetensors file. file->shards[0] has mapped it already. */
GA_NODISCARD ga_status ga_hf_open_mapped(ga_model_file *file);

#endif
