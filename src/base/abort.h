/* Polling of the caller's abort callback (ga_abort_set) in long loops. */
#ifndef GA_BASE_ABORT_H
#define GA_BASE_ABORT_H

#include "ga/base.h"

/* Returns GA_ERR_CANCELLED, with an error text, if this thread's callback asks to stop; otherwise GA_OK. A call takes
 * about 5 ns. Loops should call it every few thousand iterations. `what` names the work in the text. */
GA_NODISCARD ga_status ga_abort_poll(const char *what);

#endif
