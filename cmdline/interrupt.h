/* Ctrl-C. */
#ifndef GA_CMDLINE_INTERRUPT_H
#define GA_CMDLINE_INTERRUPT_H

#include <stdbool.h>

/* The first SIGINT from now on sets a flag, and long calls of the library on this thread stop; a second one ends the
 * process at once. */
void listen_for_interrupt(void);
/* Long calls of the library on this thread stop, too. */
void stop_when_interrupted(void);
bool interrupted(void);
/* For a program that goes on: the next SIGINT is a first one again. */
void clear_interrupt(void);
/* While a person types (true), any number of them only set the flag. */
void interrupts_at_prompt(bool typing);
/* Called before a second SIGINT ends the process; it must be safe in a signal handler. */
void interrupt_cleanup(void (*fn)(void));

#endif
