/* Read-only memory map of a whole file. */
#ifndef GA_BASE_FILEMAP_H
#define GA_BASE_FILEMAP_H

#include "ga/base.h"

typedef struct ga_filemap {
  const uint8_t *data; /* NULL for an empty file */
  size_t bytes;
} ga_filemap;

/* Maps `path`. The error text names the path and the reason. Release with ga_filemap_close. */
GA_NODISCARD ga_status ga_filemap_open(const char *path, ga_filemap *out);
/* Tells the kernel that [offset, offset + bytes) is not needed again soon: frees its resident pages. */
void ga_filemap_forget(const ga_filemap *map, size_t offset, size_t bytes);
void ga_filemap_close(ga_filemap *map);

#endif
