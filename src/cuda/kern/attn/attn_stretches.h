/* Part of attn_tiles.h: columns of stretches. */
#include "cuda/kern/attn/attn_stretches_args.h"

GA_DEV const ga_kargs_attn_stretch *stretch_kargs(args a) { return (const ga_kargs_attn_stretch *)a; }
/* documents: stretches of keys of a document, as in ga_kattn_q_stretch; there may be none. */
GA_DEV int document_begin(const ga_kargs_attn_stretch *x, int documents) {
  return (documents & 0xffff) < documents >> 16 ? x->kv[documents & 0xffff].column : 0;
}
/* The column behind the document's last key that stands before `position`. */
GA_DEV int columns_before(args a, int documents, int position) {
  const ga_kargs_attn_stretch *x = stretch_kargs(a);
  GA_ROLL for (int i = (documents >> 16) - 1; i >= (documents & 0xffff); i--) {
    const int keys = position - x->kv[i].position;
    if (keys > 0) return x->kv[i].column + (keys < x->kv[i].rows ? keys : x->kv[i].rows);
  }
  return document_begin(x, documents);
}
