/* A check for forks: the thread of an engine runs in the process that made the engine, and in no fork of that
 * process. */
#ifndef GA_ENGINE_PROCESS_H
#define GA_ENGINE_PROCESS_H

#include <sys/types.h>

#include "ga/base.h"

/* Returns GA_ERR_STATE if the caller is not `process`, the process that made an engine. In a fork the engine has no
 * thread, and would never answer. `what` names the call in the error text. */
GA_NODISCARD ga_status engine_check_process(pid_t process, const char *what);

#endif
