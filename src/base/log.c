#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

/* Lock order: leaf. The callback runs outside the lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ga_log_fn log_fn;
static void *log_user;
static ga_log_level log_least;

void ga_log_set(ga_log_fn fn, void *user, ga_log_level least) {
  (void)pthread_mutex_lock(&lock);
  log_fn = fn;
  log_user = user;
  log_least = least;
  (void)pthread_mutex_unlock(&lock);
}

void ga_log(ga_log_level level, const char *fmt, ...) {
  (void)pthread_mutex_lock(&lock);
  ga_log_fn fn = level >= log_least ? log_fn : NULL;
  void *user = log_user;
  (void)pthread_mutex_unlock(&lock);
  if (!fn) return;
  char text[1024];
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  fn(user, level, text);
}
