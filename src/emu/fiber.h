/* Stack switching: a fiber is a saved stack pointer. */
#ifndef GA_EMU_FIBER_H
#define GA_EMU_FIBER_H

#include <stddef.h>

/* Saves the running context in *from and continues the context `to`. */
void emu_switch(void **from, void *to);
/* Returns a context that will call entry() on the stack whose top is `top`. entry must never return. */
void *emu_fiber_make(char *top, void (*entry)(void));

#endif
