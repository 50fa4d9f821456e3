#include "engine/process.h"

#include <unistd.h>

#include "base/status.h"

ga_status engine_check_process(pid_t process, const char *what) {
  GA_REQUIRE(process == getpid(), GA_ERR_STATE,
             "%s: process %d was forked from process %d, whose engine this is; allowed is an engine that is made after "
             "fork()",
             what, (int)getpid(), (int)process);
  return GA_OK;
}
