/* Facts about a model from its files, for clients that list and describe models. */
#ifndef GA_SERVE_FACTS_H
#define GA_SERVE_FACTS_H

#include <time.h>

#include "ga/llm.h"
#include "serve/text.h"

typedef struct sv_facts {
  char family[32];       /* general.architecture: "llama" */
  char format[16];       /* "gguf" or "safetensors" */
  char quantization[16]; /* type of most weights, as files are named: "Q4_K_M", "BF16" */
  char parameters[16];   /* number of weights: "134.5M"; "" = not known */
  char digest[65];       /* hex digits that differ for files of another path, size or time */
  uint64_t bytes;        /* bytes of all files */
  time_t modified;       /* time of the first file's last change */
} sv_facts;

/* Reads the facts from the file or folder at a path. */
GA_NODISCARD ga_status sv_facts_read(const char *path, sv_facts *out);
/* Writes Ollama's "details" of a model. */
void sv_put_details(sv_text *t, const sv_facts *facts);
/* Writes the metadata of a file as a JSON object; arrays are null unless with_arrays is true. */
GA_NODISCARD ga_status sv_put_metadata(sv_text *t, const char *path, bool with_arrays);
/* Writes a time as RFC 3339 has it, in quotes. */
void sv_put_time(sv_text *t, const struct timespec *when);

#endif
