/* Polling of the caller's abort callback (ga_abort_set) in long loops. */
#ifndef GA_BASE_ABORT_H
#define GA_BASE_ABORT_H

#include "ga/base.h"

/* Returns GA_ERR_CANCELLED, with an error text, if this thread's callback asks to stop; otherwise GA_OK. A call takes
 * about 5 ns. Loops should call it every few thousand iterations. `what` names the work in the text. */
GA_NODISCARD ga_status ga_abort_poll(const char *what);

/* Returns true when the callback that this thread has set by ga_abort_ops_set asks to stop. The answer stays true until
 * ga_abort_skipped has returned an error. */
bool ga_abort_ops_asked(void);
/* Returns true when this thread has set a callback by ga_abort_ops_set. */
bool ga_abort_ops_listens(void);
/* Returns GA_ERR_CANCELLED once after ga_abort_ops_asked has returned true, otherwise GA_OK. `what` names the work in
 * the error text. */
GA_NODISCARD ga_status ga_abort_skipped(const char *what);

#endif
