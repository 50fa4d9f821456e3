/* The models of tests/data/arch: folders as Hugging Face has them, or with a model.gguf. */
#ifndef GA_TESTS_ARCH_MODEL_H
#define GA_TESTS_ARCH_MODEL_H

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ARCH_PATH_BYTES 600

/* The path that ga_model_load takes. Hyphens of the name are underscores in the folder's (nomic_bert). */
static inline const char *arch_model_path(const char *name, char path[ARCH_PATH_BYTES]) {
  const int n = snprintf(path, ARCH_PATH_BYTES, "%s/arch/%s", GA_TEST_DATA, name);
  for (char *at = strrchr(path, '/'); at && *at; at++)
    if (*at == '-') *at = '_';
  (void)snprintf(path + n, ARCH_PATH_BYTES - (size_t)n, "/model.gguf");
  if (access(path, R_OK)) path[n] = 0;
  return path;
}

#endif
