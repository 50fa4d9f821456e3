/* Functions for a folder with all its contents. */
#ifndef GA_CLI_TREES_H
#define GA_CLI_TREES_H

#include <stdbool.h>

/* Calls `each` for every regular file below the folder `path`. Symbolic links are not followed. */
void tree_files(const char *path, void (*each)(const char *file, void *user), void *user);
/* Removes a file or a folder, as rm -r does. Returns false if something could not be removed; errno has the reason. A
 * path that does not exist counts as removed. */
bool tree_remove(const char *path);

#endif
