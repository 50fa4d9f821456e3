/* Linked into each test program, before the system's calls: a thread unlocks only a mutex that it has locked. The
 * system says nothing of others. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);

enum { MOST_LOCKS = 64 };
static _Thread_local const pthread_mutex_t *held[MOST_LOCKS];
static _Thread_local int n_held;

static void stop_with(const char *what) {
  (void)fprintf(stderr, "%s\n", what);
  abort();
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex) {
  const int rc = __real_pthread_mutex_lock(mutex);
  if (rc) return rc;
  if (n_held == MOST_LOCKS) stop_with("a thread holds more than 64 locks");
  held[n_held++] = mutex;
  return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex) {
  int i = n_held - 1;
  while (i >= 0 && held[i] != mutex) i--;
  if (i < 0) stop_with("a thread unlocks a mutex that it has not locked");
  held[i] = held[--n_held];
  return __real_pthread_mutex_unlock(mutex);
}
