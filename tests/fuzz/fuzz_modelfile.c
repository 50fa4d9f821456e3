/* Modelfiles: the text that is printed of one reads as the same, and prints as the same. */
#include <stdlib.h>
#include <string.h>

#include "cli/modelfile.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  modelfile m, again;
  sv_text first = {0}, second = {0};
  char *text = malloc(size + 1);
  if (!text) return 0;
  memcpy(text, data, size);
  text[size] = 0;
  if (modelfile_parse(text, size, "Modelfile", &m) == GA_OK) {
    modelfile_print(&m, &first);
    if (modelfile_parse(first.p, first.n, "again", &again) != GA_OK) abort();
    modelfile_print(&again, &second);
    if (first.n != second.n || memcmp(first.p, second.p, first.n) != 0) abort();
    modelfile_free(&again);
  }
  modelfile_free(&m);
  sv_text_free(&first);
  sv_text_free(&second);
  free(text);
  return 0;
}
