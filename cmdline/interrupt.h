/* Ctrl-C. */
#ifndef GA_CMDLINE_INTERRUPT_H
#define GA_CMDLINE_INTERRUPT_H

#include <stdbool.h>

/* Listens for SIGINT. The first one sets a flag and stops long calls of the library on this thread; a second one
 * ends the process at once. */
void listen_for_interrupt(void);
/* Makes the flag also stop long calls of the library on this thread. */
void stop_when_interrupted(void);
bool interrupted(void);
/* Clears the flag, for a program that goes on: the next SIGINT counts as the first. */
void clear_interrupt(void);
/* Sets whether a person is typing. While that is so, any number of SIGINT only set the flag. */
void interrupts_at_prompt(bool typing);
/* Sets a function that is called before a second SIGINT ends the process. It must be safe in a signal handler. */
void interrupt_cleanup(void (*fn)(void));

#endif
