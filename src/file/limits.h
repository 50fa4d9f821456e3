/* What a model file may hold. Each bound is far above any real file and far below what would hurt. */
#ifndef GA_FILE_LIMITS_H
#define GA_FILE_LIMITS_H

/* The largest mixture-of-experts checkpoints, unfused, have about 10^5 tensors. */
#define GA_MODEL_MAX_TENSORS (1 << 20)
/* Real GGUF files have 20 to 60 keys. */
#define GA_MODEL_MAX_KEYS (1 << 16)
/* Metadata keys and safetensors names. GGUF tensor names have their own bound in file/gguf.h. */
#define GA_MODEL_MAX_NAME_BYTES 255
/* A text value: the longest are chat templates, below 100 kB, and sets of calibration files. */
#define GA_MODEL_MAX_TEXT_BYTES (16 << 20)
/* Elements of an array: vocabularies are below 300 000, merges below 600 000. A token takes about 50
 * bytes of memory. */
#define GA_MODEL_MAX_ARRAY (1 << 22)
/* All bytes of an array of texts: element positions are kept in 32 bits. */
#define GA_MODEL_MAX_ARRAY_BYTES UINT32_MAX
/* Files of one model. Each takes a map; the kernel's default is 65 530 a process. */
#define GA_MODEL_MAX_SHARDS 1024
/* Our own records about a file: 8 bytes a text, about 200 a tensor. A second fence behind the ones above. */
#define GA_MODEL_MAX_ARENA_BYTES ((size_t)1 << 30)
/* Layers in a tensor name ("layers.N."): five digits. */
#define GA_MODEL_MAX_LAYER_DIGITS 5

#endif
