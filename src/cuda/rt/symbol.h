/* Entry points of libraries that are loaded at run time. */
#ifndef GA_CUDA_RT_SYMBOL_H
#define GA_CUDA_RT_SYMBOL_H

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

/* POSIX lets an object pointer from dlsym be read as a function pointer through memory. False: no such symbol. */
static inline bool cuda_symbol(void *library, const char *symbol, void *entry) {
  void *p = dlsym(library, symbol);
  memcpy(entry, &p, sizeof p);
  return p != NULL;
}

#endif
