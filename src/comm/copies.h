/* Ways in which blocks are copied from one device to another. */
#ifndef GA_COMM_COPIES_H
#define GA_COMM_COPIES_H

#include "core/comm.h"
#include "core/device.h"

typedef enum dist_copies {
  DIST_COPIES_AUTO, /* PEER where the devices can, otherwise HOST */
  DIST_COPIES_PEER, /* each device writes into the memory of the others */
  DIST_COPIES_HOST, /* through page-locked host memory, and messages of the communicator */
  /* the backend's library for messages, such as NCCL, sends them; the kind is named after the library */
  DIST_COPIES_LINK
} dist_copies;

const char *dist_copies_name(const ga_device *device, dist_copies copies);
/* Sets *out to the kind of copies named `asked`, or by $GA_DIST_COPIES where `asked` is NULL or "". All ranks call it,
 * and get the same kind or an error. */
GA_NODISCARD ga_status dist_copies_wanted(ga_comm *comm, const ga_device *device, const char *asked, dist_copies *out);
enum { DIST_WORD = 24 };
/* Compares a word of at most DIST_WORD - 1 letters over all ranks, which all call it. GA_ERR_COMM on all if two
 * differ. */
GA_NODISCARD ga_status dist_copies_same(ga_comm *comm, const char *what, const char *word);
/* Exchanges the results of all ranks' attempts. All ranks call it. Returns GA_OK when all have succeeded, otherwise the
 * status of the first failed rank with its text. An error of the communicator is in *comm_status. */
GA_NODISCARD ga_status dist_copies_agree(ga_comm *comm, ga_status mine, ga_status *comm_status);

#endif
