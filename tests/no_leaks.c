/* Linked into each test program: when it has passed and returns from main, no memory of ga_mem_alloc is left. A child
 * that leaves by _exit is not looked at. */
#include <stdio.h>
#include <unistd.h>

#include "base/mem.h"

__attribute__((destructor)) static void count_leaks(void) {
  const long n = ga_mem_living();
  if (!n) return;
  (void)fflush(stdout);
  (void)fprintf(stderr, "%ld allocations of ga_mem_alloc were not freed\n", n);
  _exit(1);
}
