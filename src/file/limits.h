/* Bounds of model files. Each is far above any real file and far below a harmful size. */
#ifndef GA_FILE_LIMITS_H
#define GA_FILE_LIMITS_H

/* The most tensors of a model. The largest mixture-of-experts checkpoints, unfused, have about 10^5. */
#define GA_MODEL_MAX_TENSORS (1 << 20)
/* The most metadata keys of a file. Real GGUF files have 20 to 60. */
#define GA_MODEL_MAX_KEYS (1 << 16)
/* The most bytes of metadata keys and safetensors names. GGUF tensor names have their own bound in file/gguf.h. */
#define GA_MODEL_MAX_NAME_BYTES 255
/* The most bytes of a text value. The longest are chat templates, below 100 kB, and sets of calibration files. */
#define GA_MODEL_MAX_TEXT_BYTES (16 << 20)
/* The most elements of an array. Vocabularies have fewer than 300 000, lists of merges fewer than 600 000. A token
 * takes about 50 bytes of memory. */
#define GA_MODEL_MAX_ARRAY (1 << 22)
/* The most bytes of a whole array of texts: positions of elements are kept in 32 bits. */
#define GA_MODEL_MAX_ARRAY_BYTES UINT32_MAX
/* The most files of one model. Each needs a memory map, of which Linux allows a process 65 530 by default. */
#define GA_MODEL_MAX_SHARDS 1024
/* The most bytes of GA's records about a file: 8 for a text, about 200 for a tensor. It bounds them together,
 * besides the limits above. */
#define GA_MODEL_MAX_ARENA_BYTES ((size_t)1 << 30)
/* The most digits of a layer's number in a tensor name ("layers.N."). */
#define GA_MODEL_MAX_LAYER_DIGITS 5

#endif
