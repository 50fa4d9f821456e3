/* Modules of sentence-transformers: modules.json and the configs that it names. */
#ifndef GA_FILE_HF_MODULES_H
#define GA_FILE_HF_MODULES_H

#include "base/parts.h"
#include "file/model_store.h"

extern const ga_part_table ga_hf_module_parts, ga_hf_sentence_parts, ga_hf_pooling_parts, ga_hf_dense_parts;

/* Adds the modules of a folder to the metadata. Pooling by the mean, the CLS token or the last token becomes
 * <arch>.pooling_type, with GGUF's numbers. If there are other modules, or other modes of pooling, the whole list
 * becomes GA_EMBEDDING_MODULES. Without modules.json the pooling of the folder 1_Pooling counts. GA_ERR_UNSUPPORTED: a
 * module or a field that GA does not have; the text names it. */
GA_NODISCARD ga_status ga_hf_modules(ga_model_file *file, const char *folder, const char *arch);

/* Metadata key of the modules as JSON text, an array: {"pooling": [mode, ...]} once, then {"normalize": true} and
 * {"dense": folder, "activation": name, "in": n, "out": n, "bias": bool} in the order in which they are applied. */
#define GA_EMBEDDING_MODULES "ga.embedding_modules"

#endif
