/* See mpi_api.h. */
#include "comm/mpi_api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static mpi_api api;
static const char *missing; /* NULL = all was found */

static void find_symbol(void *library, const char *name, void *where) {
  void *p = dlsym(library, name);
  if (!p && !missing) missing = name;
  memcpy(where, &p, sizeof p);
}

/* Its modules look for its symbols among those of the program: RTLD_GLOBAL. */
static void load_library(void) {
  static const char *const names[] = {"libmpi.so.40", "libmpi.so"};
  void *library = NULL;
  for (size_t i = 0; i < GA_COUNT_OF(names) && !library; i++) library = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
  if (!library) {
    missing = "libmpi.so";
    return;
  }
  find_symbol(library, "ompi_mpi_comm_world", &api.world);
  find_symbol(library, "ompi_mpi_byte", &api.byte);
  find_symbol(library, "ompi_request_null", &api.null_request);
  find_symbol(library, "ompi_mpi_errors_return", &api.errors_return);
  find_symbol(library, "MPI_Initialized", &api.Initialized);
  find_symbol(library, "MPI_Finalized", &api.Finalized);
  find_symbol(library, "MPI_Init_thread", &api.Init_thread);
  find_symbol(library, "MPI_Query_thread", &api.Query_thread);
  find_symbol(library, "MPI_Is_thread_main", &api.Is_thread_main);
  find_symbol(library, "MPI_Finalize", &api.Finalize);
  find_symbol(library, "MPI_Abort", &api.Abort);
  find_symbol(library, "MPI_Comm_idup", &api.Comm_idup);
  find_symbol(library, "MPI_Comm_set_errhandler", &api.Comm_set_errhandler);
  find_symbol(library, "MPI_Comm_rank", &api.Comm_rank);
  find_symbol(library, "MPI_Comm_size", &api.Comm_size);
  find_symbol(library, "MPI_Isend", &api.Isend);
  find_symbol(library, "MPI_Issend", &api.Issend);
  find_symbol(library, "MPI_Irecv", &api.Irecv);
  find_symbol(library, "MPI_Iprobe", &api.Iprobe);
  find_symbol(library, "MPI_Recv", &api.Recv);
  find_symbol(library, "MPI_Test", &api.Test);
  find_symbol(library, "MPI_Cancel", &api.Cancel);
}

ga_status mpi_api_load(const mpi_api **out) {
  (void)pthread_once(&once, load_library);
  GA_REQUIRE(!missing, GA_ERR_UNSUPPORTED, "comm: no OpenMPI here: %s is not found", missing);
  *out = &api;
  return GA_OK;
}
