/* The ways in which blocks can be copied from one device to another. */
#ifndef GA_COMM_COPIES_H
#define GA_COMM_COPIES_H

#include "core/comm.h"
#include "core/device.h"

typedef enum dist_copies {
  DIST_COPIES_AUTO, /* PEER where the devices can access each other's memory, otherwise HOST */
  DIST_COPIES_PEER, /* each device writes into the memory of the others */
  DIST_COPIES_HOST, /* through page-locked host memory, and messages of the communicator */
  /* through the backend's library for messages, such as NCCL; this kind has the library's name */
  DIST_COPIES_LINK
} dist_copies;

const char *dist_copies_name(const ga_device *device, dist_copies copies);
/* Sets *out to the kind of copies named `asked`. NULL or "" stands for the value of the variable GA_DIST_COPIES. All
 * ranks call it, and get the same kind or an error. */
GA_NODISCARD ga_status dist_copies_wanted(ga_comm *comm, const ga_device *device, const char *asked, dist_copies *out);
enum { DIST_WORD = 24 };
/* Checks that all ranks have the same word, of at most DIST_WORD - 1 letters. All ranks call it. If two words differ,
 * all ranks get GA_ERR_COMM; `what` names the word in the error's text. */
GA_NODISCARD ga_status dist_copies_same(ga_comm *comm, const char *what, const char *word);
/* Exchanges the results of an attempt between the ranks; `mine` is this rank's result. All ranks call it. Returns GA_OK
 * if all have succeeded, otherwise the status and text of the first rank that failed. *comm_status is set to the
 * communicator's own status. */
GA_NODISCARD ga_status dist_copies_agree(ga_comm *comm, ga_status mine, ga_status *comm_status);

#endif
