/* Which rank a process is: the variables of launchers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/sized.h"
#include "ga/comm.h"

typedef struct launcher {
  const char *name, *rank, *ranks, *host_ranks;
  const char *run[4]; /* together they name the run; those that are not set are left out */
} launcher;

static const launcher launchers[] = {
    {"ga", "GA_RANK", "GA_RANKS", NULL, {"GA_RUN"}},
    {"torchrun",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_WORLD_SIZE",
     {"TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"}},
    {"mpirun",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}},
    {"srun", "SLURM_PROCID", "SLURM_NTASKS", NULL, {"SLURM_JOB_ID", "SLURM_STEP_ID"}}};

static bool is_set(const char *name) { return name && getenv(name); }

static ga_status read_place(const char *name, int64_t least, int64_t most, int32_t *out) {
  const char *text = getenv(name);
  GA_REQUIRE(text, GA_ERR_ARG, "comm: %s is not set, though its launcher's other variable is", name);
  char *end;
  errno = 0;
  const long long x = strtoll(text, &end, 10);
  GA_REQUIRE(end != text && !*end && !errno && x >= least && x <= most, GA_ERR_ARG,
             "comm: %s is '%.40s'; must be a whole number from %lld to %lld", name, text, (long long)least,
             (long long)most);
  *out = (int32_t)x;
  return GA_OK;
}

/* The one launcher whose variables are set. */
static ga_status find_launcher(const launcher **out) {
  const char *chosen = getenv("GA_LAUNCHER");
  *out = NULL;
  for (size_t i = 0; i < GA_COUNT_OF(launchers); i++) {
    const launcher *l = &launchers[i];
    if (chosen && strcmp(chosen, l->name) != 0) continue;
    if (!chosen && !is_set(l->rank) && !is_set(l->ranks)) continue;
    GA_REQUIRE(!*out, GA_ERR_ARG,
               "comm: %s and %s are set by %s, %s and %s by %s: who started this process? GA_LAUNCHER=%s or "
               "GA_LAUNCHER=%s says which counts",
               (*out)->rank, (*out)->ranks, (*out)->name, l->rank, l->ranks, l->name, (*out)->name, l->name);
    *out = l;
  }
  GA_REQUIRE(!chosen || *out, GA_ERR_ARG, "comm: GA_LAUNCHER is '%.40s'; must be ga, torchrun, mpirun or srun", chosen);
  return GA_OK;
}

static void add_to_run(const char *text, char *run, size_t capacity, size_t *n, uint64_t *hash) {
  const size_t more = strlen(text);
  *hash = ga_fnv64(*hash, text, more);
  if (*n + more < capacity) memcpy(run + *n, text, more + 1);
  *n += more;
}

/* A text that does not fit is told from others by a hash of all of it. */
static void name_run(const launcher *l, char *run, size_t capacity) {
  size_t n = 0;
  uint64_t hash = GA_FNV64_START;
  for (size_t i = 0; i < GA_COUNT_OF(l->run); i++) {
    if (!is_set(l->run[i])) continue;
    if (n) add_to_run(".", run, capacity, &n, &hash);
    add_to_run(getenv(l->run[i]), run, capacity, &n, &hash);
  }
  if (n >= capacity) (void)snprintf(run, capacity, "%016llx", (unsigned long long)hash);
}

ga_status ga_comm_place_find(ga_comm_place *place) {
  GA_TRY(ga_sized_check_out("comm: place", place, ga_comm_place_first));
  ga_comm_place p = GA_COMM_PLACE_INIT;
  const launcher *l;
  GA_TRY(find_launcher(&l));
  if (l) {
    GA_TRY(read_place(l->ranks, 1, 1 << 20, &p.ranks));
    GA_TRY(read_place(l->rank, 0, p.ranks - 1, &p.rank));
    if (is_set(l->host_ranks)) GA_TRY(read_place(l->host_ranks, 1, p.ranks, &p.host_ranks));
    (void)snprintf(p.launcher, sizeof p.launcher, "%s", l->name);
    name_run(l, p.run, sizeof p.run);
  }
  ga_sized_give(&p, sizeof p, place);
  return GA_OK;
}
