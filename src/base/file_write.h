/* Files that are written whole or not at all: under a temporary name, flushed, renamed. */
#ifndef GA_BASE_FILE_WRITE_H
#define GA_BASE_FILE_WRITE_H

#include <stdbool.h>
#include <stddef.h>

/* Makes the folders that a file's path names. False: errno says why the last is not there. */
bool ga_make_folders_of(const char *path);

/* Writes all n bytes, however many calls that takes. False: errno says why. */
bool ga_write_all(int fd, const void *from, size_t n);

/* A rename lasts only once the file's folder is on disk. Some file systems cannot do this, and say so: no error. */
void ga_sync_folder_of(const char *path);

#endif
