/* How alike two names are, for suggestions after a name that is not known. */
#ifndef GA_CMDLINE_LIKENESS_H
#define GA_CMDLINE_LIKENESS_H

#include <stdbool.h>
#include <stddef.h>

enum { LIKENESS_MOST = 16 }; /* longer names are like no other; scores are below it */

/* Returns a score of how unlike two names are, lower for names that are more alike. The score is twice the number of
 * different letters, plus 1, and 3 more where the first letters differ. It is 0 for names that are too different. */
size_t likeness(const char *name, const char *other);

#endif
