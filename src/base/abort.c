#include "base/abort.h"

#include "base/status.h"

static GA_THREAD_LOCAL ga_abort_fn abort_fn;
static GA_THREAD_LOCAL void *abort_user;

static GA_THREAD_LOCAL ga_abort_fn ops_fn;
static GA_THREAD_LOCAL void *ops_user;
static GA_THREAD_LOCAL bool ops_asked;

void ga_abort_ops_set(ga_abort_fn fn, void *user) {
  ops_fn = fn;
  ops_user = user;
  ops_asked = false;
}

bool ga_abort_ops_asked(void) {
  if (!ops_fn) return false;
  if (!ops_asked) ops_asked = ops_fn(ops_user) != 0;
  return ops_asked;
}

bool ga_abort_ops_listens(void) { return ops_fn != NULL; }

ga_status ga_abort_skipped(const char *what) {
  if (!ops_asked) return GA_OK;
  ops_asked = false;
  return ga_fail(GA_ERR_CANCELLED, "%s: stopped", what);
}

void ga_abort_set(ga_abort_fn fn, void *user) {
  abort_fn = fn;
  abort_user = user;
}

ga_status ga_abort_poll(const char *what) {
  return abort_fn && abort_fn(abort_user) ? ga_fail(GA_ERR_CANCELLED, "%s: stopped", what) : GA_OK;
}
