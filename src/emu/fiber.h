/* Stack switching: a fiber is a saved stack pointer. */
#ifndef GA_EMU_FIBER_H
#define GA_EMU_FIBER_H

#include <stddef.h>

/* Saves the running context in *from and continues `to`. */
void emu_switch(void **from, void *to);
/* A context that will call entry() on a stack whose top is `top`; entry never returns. */
void *emu_fiber_make(char *top, void (*entry)(void));

#endif
