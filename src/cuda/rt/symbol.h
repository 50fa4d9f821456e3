/* Look-up of functions of libraries that are loaded at run time. */
#ifndef GA_CUDA_RT_SYMBOL_H
#define GA_CUDA_RT_SYMBOL_H

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

/* Writes the address of `symbol` to the function pointer at `entry`. Returns false if the library has no such symbol.
 * The address is copied as bytes, which POSIX allows for pointers from dlsym. */
static inline bool cuda_symbol(void *library, const char *symbol, void *entry) {
  void *p = dlsym(library, symbol);
  memcpy(entry, &p, sizeof p);
  return p != NULL;
}

#endif
