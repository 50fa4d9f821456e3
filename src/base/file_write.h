/* Functions for atomic file writes: write under a temporary name, flush, rename. */
#ifndef GA_BASE_FILE_WRITE_H
#define GA_BASE_FILE_WRITE_H

#include <stdbool.h>
#include <stddef.h>

/* Creates the folders of a file's path. Returns false if the last one could not be created; errno has the reason. */
bool ga_make_folders_of(const char *path);

/* Writes all n bytes to fd, in several calls if needed. Returns false on failure; errno has the reason. */
bool ga_write_all(int fd, const void *from, size_t n);

/* Flushes the folder of a file to disk; without it a rename is not durable. File systems that refuse the flush cause no
 * error. */
void ga_sync_folder_of(const char *path);

#endif
