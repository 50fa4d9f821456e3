/* Bounds of model files. Each is far above any real file and far below a harmful size. */
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
/* Bytes of a whole array of texts: element positions are kept in 32 bits. */
#define GA_MODEL_MAX_ARRAY_BYTES UINT32_MAX
/* Files of one model. Each needs a memory map, of which Linux allows a process 65 530 by default. */
#define GA_MODEL_MAX_SHARDS 1024
/* GA's records about a file: 8 bytes for a text, about 200 for a tensor. A second limit in addition to the ones
 * above. */
#define GA_MODEL_MAX_ARENA_BYTES ((size_t)1 << 30)
/* Layers in a tensor name ("layers.N."): five digits. */
#define GA_MODEL_MAX_LAYER_DIGITS 5

#endif
