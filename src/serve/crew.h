/* A crew: threads that parse large request bodies, so that HTTP threads stay free for short requests. One thread takes
 * no huge bodies, so that huge bodies delay only other huge bodies. */
#ifndef GA_SERVE_CREW_H
#define GA_SERVE_CREW_H

#include <stdbool.h>
#include <stddef.h>

#include "ga/base.h"

enum {
  SV_CREW_BYTES = 8192,        /* size in bytes from which on the crew reads a body */
  SV_CREW_HUGE_BYTES = 1 << 20 /* size in bytes from which on one thread reads bodies, one after the other */
};

typedef struct sv_crew sv_crew;

/* A task of a crew. The owner keeps it in place until `run` begins. */
typedef struct sv_task {
  void (*run)(struct sv_task *task);
  size_t bytes; /* size of the body */
  struct sv_task *next;
} sv_task;

GA_NODISCARD ga_status sv_crew_start(sv_crew **out);
/* Queues a task. is_urgent: it runs before all queued tasks of its size class (huge or not). Returns false if the crew
 * has been stopped. */
bool sv_crew_put(sv_crew *crew, sv_task *task, bool is_urgent);
/* Runs the tasks that are queued, then ends the threads. Later calls of sv_crew_put return false. NULL is fine. */
void sv_crew_stop(sv_crew *crew);
void sv_crew_destroy(sv_crew *crew); /* frees the crew, which must have been stopped; NULL is fine */
/* Returns whether the calling thread is a thread of a crew. */
bool sv_is_crew_thread(void);

#endif
