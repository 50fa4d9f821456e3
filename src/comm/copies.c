#include "comm/copies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"

static const char *const names[] = {"auto", "peer", "host"};

const char *dist_copies_name(const ga_device *device, dist_copies copies) {
  return copies == DIST_COPIES_LINK ? device->links->name : names[copies];
}

static ga_status read_copies(const ga_device *device, const char *asked, dist_copies *out) {
  const bool is_asked = asked && *asked;
  const char *s = is_asked ? asked : getenv("GA_DIST_COPIES"), *link = device->links ? device->links->name : NULL;
  *out = DIST_COPIES_AUTO;
  if (!s || !*s) return GA_OK;
  for (size_t i = 0; i < GA_COUNT_OF(names); i++)
    if (!strcmp(s, names[i])) {
      *out = (dist_copies)i;
      return GA_OK;
    }
  *out = DIST_COPIES_LINK;
  GA_REQUIRE(link && !strcmp(s, link), GA_ERR_ARG, "dist: %s is '%.40s'; allowed on %s: auto, peer, host%s%s",
             is_asked ? "copies" : "GA_DIST_COPIES", s, device->name, link ? ", " : "", link ? link : "");
  return GA_OK;
}

ga_status dist_copies_same(ga_comm *comm, const char *what, const char *word) {
  char mine[DIST_WORD] = "";
  void *p;
  (void)snprintf(mine, sizeof mine, "%s", word);
  GA_TRY(ga_mem_zalloc((size_t)comm->size, sizeof mine, "ranks", &p));
  const char(*const all)[DIST_WORD] = p;
  ga_status status = ga_comm_all_gather(comm, mine, sizeof mine, p);
  for (int32_t r = 1; r < comm->size && status == GA_OK; r++)
    if (strcmp(all[r], all[0]) != 0)
      status = ga_fail(GA_ERR_COMM, "dist: %s is %s on rank %d and %s on rank 0; all ranks must have the same", what,
                       all[r], r, all[0]);
  ga_mem_free(p);
  return status;
}

ga_status dist_copies_wanted(ga_comm *comm, const ga_device *device, const char *asked, dist_copies *out) {
  GA_TRY(read_copies(device, asked, out));
  return dist_copies_same(comm, "the kind of copies (--copies, GA_DIST_COPIES)", dist_copies_name(device, *out));
}

typedef struct rank_outcome {
  int32_t status;
  char text[400];
} rank_outcome;

ga_status dist_copies_agree(ga_comm *comm, ga_status mine, ga_status *comm_status) {
  rank_outcome own = {.status = (int32_t)mine};
  void *p;
  if (mine != GA_OK) (void)snprintf(own.text, sizeof own.text, "%s", ga_error_text());
  *comm_status = ga_mem_zalloc((size_t)comm->size, sizeof own, "ranks", &p);
  if (*comm_status != GA_OK) return *comm_status;
  const rank_outcome *all = p;
  *comm_status = ga_comm_all_gather(comm, &own, sizeof own, p);
  ga_status status = *comm_status;
  for (int32_t r = 0; r < comm->size && status == GA_OK; r++)
    if (all[r].status != GA_OK) status = ga_fail((ga_status)all[r].status, "rank %d: %s", r, all[r].text);
  ga_mem_free(p);
  return status;
}
