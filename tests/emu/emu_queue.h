/* Streams of the emulated driver. Work is done as it is enqueued, unless its stream waits: for a value in memory, or
 * for a mark of a stream that does. What is behind is then kept, and done when the value is there, by whatever call of
 * any thread comes next. Another process may write the value. */
#ifndef GA_TESTS_EMU_QUEUE_H
#define GA_TESTS_EMU_QUEUE_H

#include <time.h>

#include "cuda/rt/driver.h"
#include "emu/emu.h"

/* The machine runs one launch at a time, and any thread may call. Held until the block ends. */
int emu_enter(void);
void emu_leave(const int *unused);
#define EMU_GUARD                                                     \
  const int guard_ __attribute__((cleanup(emu_leave))) = emu_enter(); \
  (void)guard_

struct emu_graph;
typedef struct emu_event {
  struct timespec at;
  size_t copies;   /* enqueued before it */
  uint64_t asked;  /* records enqueued, on whatever streams: they pass in any order */
  uint64_t *under; /* [n_under] those of them that have not passed */
  size_t n_under, room;
  bool is_captured;        /* its last record only orders work of a graph: it has no time */
  struct emu_graph *graph; /* that its last record is in; NULL: it was none */
  int users;               /* the owner, and work that is kept */
} emu_event;
/* A record was enqueued: false without memory. Passed: it was done. */
bool emu_event_ask(emu_event *event);
void emu_event_pass(emu_event *event, uint64_t turn);
bool emu_event_has_passed(const emu_event *event, uint64_t turn);

typedef enum emu_work_kind {
  EMU_COPY,   /* rows of `width` bytes */
  EMU_FILL,   /* rows = bytes to be set to value, or words with width 4 */
  EMU_FREE,   /* dst */
  EMU_WRITE,  /* *dst = value */
  EMU_AWAIT,  /* until *src - value, signed, is 0 or more */
  EMU_RECORD, /* event */
  EMU_FOLLOW, /* until event has reached `turn` */
  EMU_LAUNCH
} emu_work_kind;

typedef struct emu_work {
  struct emu_work *next;
  emu_work_kind kind;
  void *dst;
  const void *src;
  size_t dst_pitch, src_pitch, width, rows;
  uint32_t value;
  uint64_t turn;
  emu_event *event;
  emu_launch launch;
  void *owned; /* what src or the arguments of a launch are kept in */
  size_t own;  /* its bytes */
} emu_work;

/* Work that was recorded, in its order. */
typedef struct emu_graph {
  emu_work *first, **last;
  int users; /* a graph and what was made of it */
} emu_graph;

/* Does the work, or keeps a copy of it, of `own` bytes at src or at launch.args, too. */
CUresult emu_submit(CUstream stream, const emu_work *work, size_t own);
/* In between work of the stream is kept for the graph instead, and so is that of streams that follow an event of it. */
CUresult emu_record_begin(CUstream stream);
CUresult emu_record_end(CUstream stream, emu_graph **out);
bool emu_is_recording(CUstream stream);
CUresult emu_graph_run(const emu_graph *graph, CUstream stream);
void emu_graph_let_go(emu_graph *graph);
/* Does what can be done. */
void emu_pump(void);
/* The same; true when the stream keeps nothing. */
bool emu_is_drained(CUstream stream);
/* What emu_driver.c does with work whose turn has come. */
CUresult emu_do(const emu_work *work);

CUresult emu_stream_new(CUstream *out);
CUresult emu_stream_drop(CUstream stream);
void emu_event_let_go(emu_event *event);
/* Of work that was done later than enqueued, once. */
CUresult emu_late_fault(void);

#endif
