/* Modelfiles: texts that make a named model of another model, with a system message, a chat template and parameters. */
#ifndef GA_CLI_MODELFILE_H
#define GA_CLI_MODELFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ga/base.h"
#include "serve/text.h"

enum { MODELFILE_STOPS = 16, MODELFILE_BYTES = 1 << 20 };
#define MODELFILE_NONE INT64_MIN /* value of a whole number that is not given */

/* Texts are allocated with malloc; NULL = not given. */
typedef struct modelfile {
  char *from; /* name or path of the model that it is made of */
  char *system, *chat_template, *licence;
  double temperature, top_p, min_p, repeat, presence, frequency; /* NaN = not given */
  int64_t top_k, repeat_last, seed, max_tokens, context;         /* MODELFILE_NONE = not given */
  char *stop[MODELFILE_STOPS];
  size_t n_stop;
} modelfile;

/* Reads a Modelfile: FROM, SYSTEM, TEMPLATE, PARAMETER and LICENSE, in any case and order. Other instructions are
 * errors that name them and their line. label: name of the text in errors. The caller releases *out with
 * modelfile_free, also after a failure. */
ga_status modelfile_parse(const char *text, size_t bytes, const char *label, modelfile *out);
/* Makes a Modelfile without anything, for modelfile_inherit and modelfile_free. */
modelfile modelfile_empty(void);
void modelfile_free(modelfile *m);
/* Moves values from `base` that m does not have, and FROM in any case. */
void modelfile_inherit(modelfile *m, modelfile *base);
/* Writes the text that modelfile_parse reads as m. */
void modelfile_print(const modelfile *m, sv_text *out);
/* Writes the parameters alone, a line each: `before`, a name, a space and a value. */
void modelfile_print_parameters(const modelfile *m, const char *before, sv_text *out);

#endif
