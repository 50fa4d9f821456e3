/* Threads that read large bodies, so that HTTP threads never parse for long and short requests are answered meanwhile.
 * One thread takes small tasks only: a few huge bodies hold back huge ones alone. */
#ifndef GA_SERVE_CREW_H
#define GA_SERVE_CREW_H

#include <stdbool.h>
#include <stddef.h>

#include "ga/base.h"

enum {
  SV_CREW_BYTES = 8192,        /* bodies from this size on are read by the crew */
  SV_CREW_HUGE_BYTES = 1 << 20 /* bodies from this size on are read by one thread, one after another */
};

typedef struct sv_crew sv_crew;

/* The owner keeps a task in place until `run` begins. */
typedef struct sv_task {
  void (*run)(struct sv_task *task);
  size_t bytes; /* size of the body */
  struct sv_task *next;
} sv_task;

GA_NODISCARD ga_status sv_crew_start(sv_crew **out);
/* Queues a task; urgent: before all others of its size. False: the crew has been stopped. */
bool sv_crew_put(sv_crew *crew, sv_task *task, bool is_urgent);
/* Runs the tasks that are queued and ends the threads; sv_crew_put fails from now on. NULL is fine. */
void sv_crew_stop(sv_crew *crew);
void sv_crew_destroy(sv_crew *crew); /* the crew has been stopped; NULL is fine */
/* Returns whether the calling thread is one of a crew's. */
bool sv_is_crew_thread(void);

#endif
