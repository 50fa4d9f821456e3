/* The functions of OpenMPI that ranks need. They are found at run time, because GA is not linked against OpenMPI.
 * OpenMPI's handles are addresses of structs in the library. Its MPI_Status has the layout of mpi_status below (OpenMPI
 * 4 and 5: mpi.h). */
#ifndef GA_COMM_MPI_API_H
#define GA_COMM_MPI_API_H

#include "base/status.h"

typedef void *mpi_handle; /* MPI_Comm, MPI_Datatype or MPI_Request */

typedef struct mpi_status {
  int source, tag, error, cancelled;
  size_t bytes;
} mpi_status;

/* MPI_THREADS_SERIAL has the value of MPI_THREAD_SERIALIZED, MPI_ANY the value of MPI_ANY_SOURCE and MPI_ANY_TAG, and
 * MPI_TOO_LONG the value of MPI_ERR_TRUNCATE. */
enum { MPI_THREADS_SERIAL = 2, MPI_ANY = -1, MPI_TOO_LONG = 15 };

typedef struct mpi_api {
  mpi_handle world, byte, null_request, errors_return;
  int (*Initialized)(int *);
  int (*Finalized)(int *);
  int (*Init_thread)(int *, char ***, int, int *);
  int (*Query_thread)(int *);
  int (*Is_thread_main)(int *);
  int (*Finalize)(void);
  int (*Abort)(mpi_handle, int);
  int (*Comm_idup)(mpi_handle, mpi_handle *, mpi_handle *);
  int (*Comm_set_errhandler)(mpi_handle, mpi_handle);
  int (*Comm_rank)(mpi_handle, int *);
  int (*Comm_size)(mpi_handle, int *);
  int (*Isend)(const void *, int, mpi_handle, int, int, mpi_handle, mpi_handle *);
  int (*Issend)(const void *, int, mpi_handle, int, int, mpi_handle, mpi_handle *);
  int (*Irecv)(void *, int, mpi_handle, int, int, mpi_handle, mpi_handle *);
  int (*Iprobe)(int, int, mpi_handle, int *, mpi_status *);
  int (*Recv)(void *, int, mpi_handle, int, int, mpi_handle, mpi_status *);
  int (*Test)(mpi_handle *, int *, mpi_status *);
  int (*Cancel)(mpi_handle *);
} mpi_api;

/* Loads OpenMPI and sets *out to its functions. Returns GA_ERR_UNSUPPORTED with a text if OpenMPI is not found. */
GA_NODISCARD ga_status mpi_api_load(const mpi_api **out);

#endif
