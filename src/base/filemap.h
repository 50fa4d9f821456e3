/* Read-only memory map of a whole file. */
#ifndef GA_BASE_FILEMAP_H
#define GA_BASE_FILEMAP_H

#include "ga/base.h"

typedef struct ga_filemap {
  const uint8_t *data; /* NULL for an empty file */
  size_t bytes;
  int fd; /* for ga_filemap_read; -1 = none */
} ga_filemap;

/* Maps `path`. The error text names the path and the reason. Release with ga_filemap_close. */
GA_NODISCARD ga_status ga_filemap_open(const char *path, ga_filemap *out);
/* Reads [offset, offset + bytes) without the map. A file that has been shortened, or a disk that fails, gives an error
 * with a text here; a read through the map would raise a signal. */
GA_NODISCARD ga_status ga_filemap_read(const ga_filemap *map, uint64_t offset, void *out, size_t bytes);
/* Frees the resident pages of [offset, offset + bytes), which is not needed again soon. */
void ga_filemap_forget(const ga_filemap *map, size_t offset, size_t bytes);
void ga_filemap_close(ga_filemap *map);

#endif
