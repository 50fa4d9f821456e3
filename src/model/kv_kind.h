/* Kinds of layers, as far as their KV cache goes. */
#ifndef GA_MODEL_KV_KIND_H
#define GA_MODEL_KV_KIND_H

typedef enum kv_kind {
  KV_FULL,   /* every token sees all before it */
  KV_WINDOW, /* a token sees the last few */
  KV_KINDS
} kv_kind;

#endif
