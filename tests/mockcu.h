/* A CUDA driver without a GPU: the table of src/cuda/rt/driver.h over host memory. It counts what lives, checks what
 * the driver would refuse (and some that it would not), and fails the call it is told to. Kernels do not run. */
#ifndef GA_TESTS_MOCKCU_H
#define GA_TESTS_MOCKCU_H

#include "cuda/rt/driver.h"

#define MOCK_ARGS_BYTES 4096

typedef struct mock_launch {
  char id[96];
  unsigned grid[3], block[3], shared_bytes, n_attributes;
  bool captured;
  CUstream stream;
  unsigned char args[MOCK_ARGS_BYTES];
} mock_launch;

typedef struct mock_driver {
  /* --- set by a test after mockcu_reset --- */
  int devices, version, major, minor;
  size_t memory_bytes;   /* of each device */
  bool no_peers;         /* devices do not reach one another */
  bool no_sharing;       /* memory of no device can be shared */
  size_t args_bytes;     /* of the kernels launched */
  int init_rc;           /* what cuInit returns */
  long fail_call;        /* the n-th call from reset returns fail_rc; 0 = none */
  bool fails_on;         /* and every call after it */
  const char *fail_name; /* every call of this name returns fail_rc; NULL = none */
  CUresult fail_rc;
  bool has_default_stream; /* a NULL stream is the default one; else it is misuse */
  bool caller_records;     /* calls that touch the device, but for launches, are misuse */
  /* --- seen --- */
  long calls;
  long live;                    /* contexts, modules, streams, events, pools, buffers, host buffers, graphs */
  size_t used_bytes, used_peak; /* of all devices */
  int loads, launches, graph_launches, nodes; /* nodes: captured launches */
  int peer_copies;
  mock_launch last;
  const void *loaded_image;
  char misuse[256]; /* the first breach of the driver's rules, "" if none */
  char last_call[48];
} mock_driver;

extern mock_driver mockcu;
extern ga_cu mockcu_table;

void mockcu_reset(void);
/* What the owner of a stream does; false when the mock refuses. */
CUstream mockcu_caller_stream(void);
bool mockcu_caller_begins(CUstream stream);
void mockcu_caller_ends(CUstream stream);
void mockcu_caller_drops(CUstream stream);
/* Bytes of the live buffer that p lies in, from p on; 0 when it is none. */
size_t mockcu_extent(const void *p);

#endif
