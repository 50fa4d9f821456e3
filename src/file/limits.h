/* Limits on model files. Each is far above any real file and far below a harmful size. */
#ifndef GA_FILE_LIMITS_H
#define GA_FILE_LIMITS_H

/* Largest number of tensors of a model. The largest mixture-of-experts checkpoints, with separate experts, have about
 * 10^5. */
#define GA_MODEL_MAX_TENSORS (1 << 20)
/* Largest number of metadata keys of a file. Real GGUF files have 20 to 60. */
#define GA_MODEL_MAX_KEYS (1 << 16)
/* Largest number of bytes of a metadata key, and of a tensor's name in safetensors. GGUF's names of tensors have their
 * own limit in file/gguf.h. */
#define GA_MODEL_MAX_NAME_BYTES 255
/* Largest number of bytes of a text value. The longest are chat templates, below 100 kB, and lists of calibration
 * files. */
#define GA_MODEL_MAX_TEXT_BYTES (16 << 20)
/* Largest number of elements of an array. Vocabularies have fewer than 300 000, lists of merges fewer than 600 000. A
 * token takes about 50 bytes of memory. */
#define GA_MODEL_MAX_ARRAY (1 << 22)
/* Largest number of bytes of a whole array of texts, because offsets of its texts have 32 bits. */
#define GA_MODEL_MAX_ARRAY_BYTES UINT32_MAX
/* Largest number of files of one model. Each needs a memory map, of which Linux allows a process 65 530 by default. */
#define GA_MODEL_MAX_SHARDS 1024
/* Largest number of bytes that GA allocates to describe a file's contents: 8 for a text, about 200 for a tensor. The
 * limit is for all of these bytes together. */
#define GA_MODEL_MAX_ARENA_BYTES ((size_t)1 << 30)
/* Largest number of digits of a layer's number in a tensor's name ("layers.N."). */
#define GA_MODEL_MAX_LAYER_DIGITS 5

#endif
