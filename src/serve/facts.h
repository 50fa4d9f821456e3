/* Facts about a model from its files, for clients that list and describe models. */
#ifndef GA_SERVE_FACTS_H
#define GA_SERVE_FACTS_H

#include <time.h>

#include "ga/llm.h"
#include "serve/text.h"

typedef struct sv_facts {
  char family[32];       /* value of general.architecture, such as "llama" */
  char format[16];       /* "gguf" or "safetensors" */
  char quantization[16]; /* name of the type of most weights, as in names of files: "Q4_K_M", "BF16" */
  char parameters[16];   /* number of the model's parameters, such as "134.5M"; "" = not known */
  char digest[65];       /* hex digits that differ for files of another path, size or time */
  uint64_t bytes;        /* size of all files together, in bytes */
  bool has_template;     /* the files have a chat template */
  time_t modified;       /* time of the first file's last change */
} sv_facts;

/* Reads the facts of the model in the file or folder `path`. */
GA_NODISCARD ga_status sv_facts_read(const char *path, sv_facts *out);
/* Writes the object "details" of a model, as Ollama's interface has it. */
void sv_put_details(sv_text *t, const sv_facts *facts);
/* Writes the metadata of a file as a JSON object; arrays are null unless with_arrays is true. */
GA_NODISCARD ga_status sv_put_metadata(sv_text *t, const char *path, bool with_arrays);
/* Writes a time as a JSON string in the format of RFC 3339. */
void sv_put_time(sv_text *t, const struct timespec *when);

#endif
