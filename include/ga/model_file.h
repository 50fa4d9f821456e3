/* GA, model files: weights and metadata of a GGUF file (v2, v3, split or whole) or of a safetensors model.
 *
 * Files are memory-mapped and never copied: tensor data and texts point into the map and must not be written. Do not
 * shorten a file while it is open: reading a page that is gone kills a process (SIGBUS), as with any map.
 * (ga_model_options.no_mmap is for models whose file may change while they are loaded.)
 *
 * One vocabulary. Whatever the format, metadata keys and tensor names are GGUF's: "llama.embedding_length",
 * "blk.0.attn_q.weight". For safetensors they come from config.json by the tables of src/file/hf_tables.c; a tensor
 * that no table names keeps its name. Differences between the formats have keys of GA's own, which GGUF files do not
 * have. A GGUF file with norm_plus_one, gpt2_transposed, qkv_by_head, no_rope_every, embedding_modules,
 * chat_template_error or a rope_ key other than rope_layout is refused:
 *   ga.rope_layout      text   "neox": pairs (i, i + n/2), always so in safetensors. GGUF: "norm" for some,
 *                              as llama.cpp has them. Absent where both formats have one layout (cohere2)
 *   ga.norm_plus_one    bool   true: RMS norm weights hold w where the model multiplies by 1 + w (gemma, nemotron)
 *   ga.gpt2_transposed  bool   true: attn_qkv, attn_output, ffn_up, ffn_down hold [in, out], not [out, in] (gpt2)
 *   ga.qkv_by_head      bool   true: rows of attn_qkv are q, k, v of head 0, then those of head 1 (gptneox)
 *   ga.fp8_scales       bool   true: quantization_config is of method fp8, so each e4m3 matrix must have a scale
 *   ga.rope_fraction    float  the leading part of a head that is rotated. GGUF files have rope.dimension_count instead
 *   ga.rope_layers      array  smollm3: for each layer 1 if it has RoPE, else 0
 *   ga.no_rope_every    int    smollm3, without ga.rope_layers: every n-th layer has no RoPE
 *   ga.rope_{short,long}_factors  array  longrope's divisors of frequencies. GGUF files have tensors instead
 *   ga.rope_truncate    bool   false: YaRN does not round the bounds of its ramp to whole pairs (gpt-oss). GGUF files
 *                              that GA writes have it, too
 *   ga.activation       text   config.json's own word: "silu", "gelu", "gelu_new", "gelu_pytorch_tanh"
 *   ga.tied_embeddings  bool   as config.json says; where it is absent a missing output.weight means tied
 *   ga.eos_token_ids    array  every end id of config.json and generation_config.json; the first is also
 *                              tokenizer.ggml.eos_token_id
 *   ga.embedding_modules text  JSON: pooling and modules of modules.json, where <arch>.pooling_type cannot say them
 *   ga.chat_template_error text  why the folder's chat template cannot be read; tokenizer.chat_template is absent then
 *   <arch>.rope.scaling.{low,high}_freq_factor  float  for rope.scaling.type "llama3", which GGUF bakes into a tensor
 *   safetensors.<key>   text   the entries of __metadata__ (of the first file)
 *
 * Everything in a file is checked when it is opened: extents, names, duplicates, sizes. Nothing hostile crashes; the
 * error text names the file, the field, the value seen and what is allowed. A handle may be read by many threads.
 */
#ifndef GA_MODEL_FILE_H
#define GA_MODEL_FILE_H

#include "ga/base.h"
#include "ga/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ga_model_file ga_model_file;

typedef enum ga_model_format { GA_MODEL_GGUF = 1, GA_MODEL_SAFETENSORS = 2 } ga_model_format;

/* Opens a model. `path` is one of: a .gguf file; the first shard of a split model, whose other shards are found by
 * name; a .safetensors file; a model.safetensors.index.json; a directory with config.json and one of the last two. A
 * config.json in the folder of safetensors is read where there is one. GA_ERR_IO: a file cannot be read. GA_ERR_FORMAT:
 * a file breaks its format. GA_ERR_UNSUPPORTED: a legal file has a type or an architecture that GA does not have.
 * GA_ERR_NOMEM: memory is exhausted. *out is NULL on failure. Release *out with ga_model_file_destroy. */
GA_API GA_NODISCARD ga_status ga_model_file_open(const char *path, ga_model_file **out);
GA_API void ga_model_file_destroy(ga_model_file *file); /* NULL is fine */

GA_API ga_model_format ga_model_file_format(const ga_model_file *file);
/* Returns the number of mapped files (shards), at least 1. */
GA_API int32_t ga_model_file_shards(const ga_model_file *file);
/* Returns the path of a shard; NULL if there is no such shard. */
GA_API const char *ga_model_file_shard_path(const ga_model_file *file, int32_t shard);
/* Returns the bytes of a shard; 0 if there is no such shard. */
GA_API uint64_t ga_model_file_shard_bytes(const ga_model_file *file, int32_t shard);
/* Returns the path of a file in the folder of safetensors weights; NULL if there is no such file. Known names:
 * tokenizer.json, tokenizer_config.json, tokenizer.model, special_tokens_map.json, added_tokens.json,
 * chat_template.jinja, chat_template.json, additional_chat_templates/tool_use.jinja, vocab.txt, vocab.json, merges.txt,
 * generation_config.json, config.json. Always NULL for GGUF,
 * which holds all of these. */
GA_API const char *ga_model_file_side_path(const ga_model_file *file, const char *name);

/* --- tensors --------------------------------------------------------------------------------------------------- */

typedef struct ga_model_tensor {
  const char *name;        /* name in GGUF's vocabulary */
  const char *source_name; /* name in the file */
  ga_tensor view;          /* row-major, slowest dimension first (GGUF's ne reversed), contiguous, read-only */
  /* number of the shard that has the tensor. -1: GA makes the tensor of others, as a stack of the matrices of experts:
   * view.data is NULL, source_name is the first source's, and ga_model_file_read makes the bytes */
  int32_t part;
  /* the data begins at a multiple of the element size (GGUF: always; safetensors: nearly always) */
  bool is_aligned;
  uint64_t offset,
      bytes; /* the tensor has bytes [offset, offset + bytes) of its shard; `offset` is of no use with -1 */
} ga_model_tensor;

GA_API int64_t ga_model_file_tensor_count(const ga_model_file *file);
/* Returns tensor `index`, in the order of the files; NULL if index is not in [0, count). Owned by the file. */
GA_API const ga_model_tensor *ga_model_file_tensor_at(const ga_model_file *file, int64_t index);
/* Returns the tensor of a name; NULL if there is none. Owned by the file. */
GA_API const ga_model_tensor *ga_model_file_find(const ga_model_file *file, const char *name);
/* Finds a tensor and checks its dimensions. GA_ERR_FORMAT: there is no tensor of that name. GA_ERR_SHAPE: the tensor
 * has other dimensions. */
GA_API GA_NODISCARD ga_status ga_model_file_tensor(const ga_model_file *file, const char *name, int32_t n_dims,
                                                   const int64_t *dims, const ga_model_tensor **out);
/* Reads bytes [offset, offset + bytes) of a tensor from the file. GA_ERR_IO: the file has been shortened or the disk
 * fails; a read through the map would then end the process. */
GA_API GA_NODISCARD ga_status ga_model_file_read(const ga_model_file *file, const ga_model_tensor *tensor,
                                                 uint64_t offset, void *out, size_t bytes);
/* Frees the resident memory pages of a tensor, once it has been packed or copied to a device. A later read loads them
 * from disk again. */
GA_API void ga_model_file_forget(const ga_model_file *file, const ga_model_tensor *tensor);
/* Frees the resident memory pages of bytes [offset, offset + bytes) of a tensor, otherwise like
 * ga_model_file_forget. */
GA_API void ga_model_file_forget_shard(const ga_model_file *file, const ga_model_tensor *tensor, uint64_t offset,
                                       uint64_t bytes);

/* --- metadata -------------------------------------------------------------------------------------------------- */

/* Types of metadata. Their numbers never change; each is GGUF's number plus 1. */
typedef enum ga_meta_type {
  GA_META_NONE = 0,
  GA_META_U8 = 1,
  GA_META_I8 = 2,
  GA_META_U16 = 3,
  GA_META_I16 = 4,
  GA_META_U32 = 5,
  GA_META_I32 = 6,
  GA_META_F32 = 7,
  GA_META_BOOL = 8,
  GA_META_TEXT = 9,
  GA_META_ARRAY = 10,
  GA_META_U64 = 11,
  GA_META_I64 = 12,
  GA_META_F64 = 13
} ga_meta_type;

/* Kinds of values that a reader of metadata asks for. Any type of the kind is accepted. */
typedef enum ga_meta_kind { GA_META_INTS = 1, GA_META_FLOATS = 2, GA_META_BOOLS = 3, GA_META_TEXTS = 4 } ga_meta_kind;

/* A text: bytes in a file or in memory of the library. They may have any values, NUL and broken UTF-8 included, and no
 * NUL follows them. */
typedef struct ga_text {
  const char *data;
  size_t bytes;
} ga_text;

typedef struct ga_meta ga_meta;

GA_API int64_t ga_model_file_meta_count(const ga_model_file *file);
/* Returns metadata entry `index`, in the order of the file; NULL if index is not in [0, count). */
GA_API const ga_meta *ga_model_file_meta_at(const ga_model_file *file, int64_t index);
/* Returns the metadata entry of a key; NULL if there is no such key. */
GA_API const ga_meta *ga_model_file_meta(const ga_model_file *file, const char *key);

GA_API const char *ga_meta_key(const ga_meta *meta);
GA_API ga_meta_type ga_meta_type_of(const ga_meta *meta);
/* Returns the type of an array's elements; for other values the same as ga_meta_type_of. */
GA_API ga_meta_type ga_meta_elem_type(const ga_meta *meta);
GA_API int64_t ga_meta_count(const ga_meta *meta); /* Returns the number of elements of an array; 1 for other values. */
GA_API const char *ga_meta_type_name(ga_meta_type type); /* Returns "u32", "text", ...; never NULL. */

/* Read element `index` of an array, or another value at index 0. GA_ERR_FORMAT: the type is of another kind, or an
 * integer does not fit in 64 signed bits. GA_ERR_ARG: the index is out of range. */
GA_API GA_NODISCARD ga_status ga_meta_int(const ga_meta *meta, int64_t index, int64_t *out);
GA_API GA_NODISCARD ga_status ga_meta_float(const ga_meta *meta, int64_t index, double *out);
GA_API GA_NODISCARD ga_status ga_meta_bool(const ga_meta *meta, int64_t index, bool *out);
GA_API GA_NODISCARD ga_status ga_meta_text(const ga_meta *meta, int64_t index, ga_text *out);

/* Read the value of a key. If the key is absent, the plain form fails, and the `_or` form writes `fallback`. Both fail
 * if the value is of another kind. An array of equal numbers or bools counts as its element, since files may have one
 * number for each layer. An integer must be in [least, most], but the fallback need not be; floats must be finite. On
 * failure *out is unchanged. */
GA_API GA_NODISCARD ga_status ga_model_file_int(const ga_model_file *file, const char *key, int64_t least, int64_t most,
                                                int64_t *out);
GA_API GA_NODISCARD ga_status ga_model_file_int_or(const ga_model_file *file, const char *key, int64_t fallback,
                                                   int64_t least, int64_t most, int64_t *out);
GA_API GA_NODISCARD ga_status ga_model_file_float(const ga_model_file *file, const char *key, double *out);
GA_API GA_NODISCARD ga_status ga_model_file_float_or(const ga_model_file *file, const char *key, double fallback,
                                                     double *out);
GA_API GA_NODISCARD ga_status ga_model_file_bool(const ga_model_file *file, const char *key, bool *out);
GA_API GA_NODISCARD ga_status ga_model_file_bool_or(const ga_model_file *file, const char *key, bool fallback,
                                                    bool *out);
GA_API GA_NODISCARD ga_status ga_model_file_text(const ga_model_file *file, const char *key, ga_text *out);
GA_API GA_NODISCARD ga_status ga_model_file_text_or(const ga_model_file *file, const char *key, const char *fallback,
                                                    ga_text *out);

/* Reads n integers in [least, most], such as head counts of layers: an array of exactly n, or a single value for all.
 * Booleans count as 0 and 1. On failure out[] is unchanged. */
GA_API GA_NODISCARD ga_status ga_model_file_ints(const ga_model_file *file, const char *key, int64_t n, int64_t least,
                                                 int64_t most, int64_t *out);

/* Find the array of a key, with elements of `kind`; its elements are read with ga_meta_int and so on. If the key is
 * absent, the plain form fails, and the `_or_null` form writes NULL. */
GA_API GA_NODISCARD ga_status ga_model_file_array(const ga_model_file *file, const char *key, ga_meta_kind kind,
                                                  const ga_meta **out);
GA_API GA_NODISCARD ga_status ga_model_file_array_or_null(const ga_model_file *file, const char *key, ga_meta_kind kind,
                                                          const ga_meta **out);

#ifdef __cplusplus
}
#endif
#endif
