/* Read-only memory map of a whole file. */
#ifndef GA_BASE_FILEMAP_H
#define GA_BASE_FILEMAP_H

#include "ga/base.h"

typedef struct ga_filemap {
  const uint8_t *data; /* First byte of the file. NULL: the file is empty. */
  size_t bytes;
  /* File descriptor for ga_filemap_read. -1: none. */
  int fd;
} ga_filemap;

/* Maps the file `path`. The error text names the path and the reason. Release with ga_filemap_close. */
GA_NODISCARD ga_status ga_filemap_open(const char *path, ga_filemap *out);
/* Reads bytes [offset, offset + bytes) without the map. If the file has been shortened or the disk fails, the call
 * returns an error with a text. A read through the map would raise a signal. */
GA_NODISCARD ga_status ga_filemap_read(const ga_filemap *map, uint64_t offset, void *out, size_t bytes);
/* Releases the memory pages of [offset, offset + bytes), which are not needed again soon. The map stays valid. */
void ga_filemap_forget(const ga_filemap *map, size_t offset, size_t bytes);
void ga_filemap_close(ga_filemap *map);

#endif
