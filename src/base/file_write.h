/* Parts of atomic file writes: write under a temporary name, flush, rename. */
#ifndef GA_BASE_FILE_WRITE_H
#define GA_BASE_FILE_WRITE_H

#include <stdbool.h>
#include <stddef.h>

/* Makes the folders of a file's path. False: errno has the reason why the last one could not be made. */
bool ga_make_folders_of(const char *path);

/* Writes all n bytes, in several calls if needed. False: errno has the reason. */
bool ga_write_all(int fd, const void *from, size_t n);

/* Flushes the folder of a file to disk, without which a rename is not durable. File systems that refuse this are no
 * error. */
void ga_sync_folder_of(const char *path);

#endif
