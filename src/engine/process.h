/* Forks: an engine's thread runs in the process that made it, and in no fork of it. */
#ifndef GA_ENGINE_PROCESS_H
#define GA_ENGINE_PROCESS_H

#include <sys/types.h>

#include "ga/base.h"

/* Returns GA_ERR_STATE in a fork of the process that made the engine: nothing would ever answer there. */
GA_NODISCARD ga_status engine_check_process(pid_t process, const char *what);

#endif
