/* Allocations that fail on purpose, in everything that a test links statically: our own calls of malloc, calloc,
 * realloc, aligned_alloc and strdup (the linker's --wrap, set in tests/CMakeLists.txt), and jansson's after
 * faults_install. The allocations of other shared libraries do not fail. Included by one source of a program. */
#ifndef GA_TESTS_ALLOC_FAULTS_H
#define GA_TESTS_ALLOC_FAULTS_H

#include <dirent.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <jansson.h>

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t each);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t alignment, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t each);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t alignment, size_t n);
char *__wrap_strdup(const char *s);

static atomic_long faults_left; /* 0: none fails; 1: the next one does */
static atomic_bool faults_last; /* and all that follow */
static atomic_long faults_made;

/* The nth allocation from now on fails; `and_later`: all that follow, too. n = 0: none. */
static inline void faults_after(long n, bool and_later) {
  atomic_store(&faults_left, 0);
  atomic_store(&faults_last, and_later);
  atomic_store(&faults_made, 0);
  atomic_store(&faults_left, n);
}

/* Threads in which nothing fails. */
enum { FAULTS_EXEMPT = 64 };
static long faults_exempt[FAULTS_EXEMPT];
static int faults_n_exempt;

/* From now on allocations fail in threads alone that begin later. */
static inline void faults_exempt_threads(void) {
  DIR *dir = opendir("/proc/self/task");
  for (const struct dirent *entry; dir && (entry = readdir(dir));)
    if (atol(entry->d_name) && faults_n_exempt < FAULTS_EXEMPT) faults_exempt[faults_n_exempt++] = atol(entry->d_name);
  if (dir) closedir(dir);
}

static bool fault_is_exempt(void) {
  const long self = syscall(SYS_gettid);
  for (int i = 0; i < faults_n_exempt; i++)
    if (faults_exempt[i] == self) return true;
  return false;
}

static bool fault_is_due(void) {
  long left = atomic_load(&faults_left);
  if (!left || (faults_n_exempt && fault_is_exempt())) return false;
  while (left > 1 && !atomic_compare_exchange_weak(&faults_left, &left, left - 1)) {
  }
  if (left != 1 || (!atomic_load(&faults_last) && !atomic_compare_exchange_strong(&faults_left, &left, 0)))
    return false;
  (void)atomic_fetch_add(&faults_made, 1);
  return true;
}

void *__wrap_malloc(size_t n) { return fault_is_due() ? NULL : __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t each) { return fault_is_due() ? NULL : __real_calloc(n, each); }
void *__wrap_realloc(void *p, size_t n) { return fault_is_due() ? NULL : __real_realloc(p, n); }
void *__wrap_aligned_alloc(size_t alignment, size_t n) {
  return fault_is_due() ? NULL : __real_aligned_alloc(alignment, n);
}
char *__wrap_strdup(const char *s) {
  const size_t n = strlen(s) + 1;
  char *copy = __wrap_malloc(n);
  return copy ? memcpy(copy, s, n) : NULL;
}

static inline void faults_install(void) { json_set_alloc_funcs(__wrap_malloc, free); }

#endif
