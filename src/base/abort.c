#include "base/abort.h"

#include "base/status.h"

static GA_THREAD_LOCAL ga_abort_fn abort_fn;
static GA_THREAD_LOCAL void *abort_user;

void ga_abort_set(ga_abort_fn fn, void *user) {
  abort_fn = fn;
  abort_user = user;
}

ga_status ga_abort_poll(const char *what) {
  return abort_fn && abort_fn(abort_user) ? ga_fail(GA_ERR_CANCELLED, "%s: stopped", what) : GA_OK;
}
