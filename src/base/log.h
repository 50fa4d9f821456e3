/* Log lines. ga_log passes one line of text to the process-wide callback; without a callback it does nothing. */
#ifndef GA_BASE_LOG_H
#define GA_BASE_LOG_H

#include "ga/base.h"

void ga_log(ga_log_level level, const char *fmt, ...) GA_PRINTF(2, 3);

#endif
