/* Sizes that differ between the layers of a model, as a folder states them. Only hf_config.c includes this file. */
#ifndef GA_FILE_HF_LAYERS_H
#define GA_FILE_HF_LAYERS_H

#include "file/hf.h"

/* Appends the keys of Gemma 4 whose values depend on the kinds of its layers: heads, widths, numbers of experts.
 * config: the object with the model's fields. */
GA_NODISCARD ga_status ga_hf_put_layers(ga_arena *arena, const char *label, const json_t *config,
                                        const ga_hf_arch *arch, ga_meta_list *list);

#endif
