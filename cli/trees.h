/* Folders with all their contents. */
#ifndef GA_CLI_TREES_H
#define GA_CLI_TREES_H

#include <stdbool.h>

/* Calls `each` for every regular file under `path`. Symbolic links are not followed. */
void tree_files(const char *path, void (*each)(const char *file, void *user), void *user);
/* Removes a file or folder, as rm -r does. False: something could not be removed; errno has the reason. A path that
 * does not exist is fine. */
bool tree_remove(const char *path);

#endif
