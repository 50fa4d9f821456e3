#include "cmdline/interrupt.h"

#include <signal.h>
#include <stddef.h>

#include "ga/base.h"

static volatile sig_atomic_t flag, at_prompt;
static void (*cleanup)(void);

static void on_interrupt(int number) {
  if (flag && !at_prompt) { /* delivered when this handler returns */
    if (cleanup) cleanup();
    (void)signal(number, SIG_DFL);
    (void)raise(number);
  }
  flag = 1;
}

static int should_stop(void *user) {
  (void)user;
  return flag;
}

void stop_when_interrupted(void) { ga_abort_set(should_stop, NULL); }

void listen_for_interrupt(void) {
  struct sigaction action = {.sa_handler = on_interrupt}; /* no SA_RESTART: a blocked read returns */
  (void)sigaction(SIGINT, &action, NULL);
  stop_when_interrupted();
}

bool interrupted(void) { return flag; }
void clear_interrupt(void) { flag = 0; }
void interrupts_at_prompt(bool typing) { at_prompt = typing; }
void interrupt_cleanup(void (*fn)(void)) { cleanup = fn; }
