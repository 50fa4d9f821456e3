/* Folders with all that is in them. */
#ifndef GA_CLI_TREES_H
#define GA_CLI_TREES_H

#include <stdbool.h>

/* Calls `each` for every regular file under `path`. Symbolic links are not followed. */
void tree_files(const char *path, void (*each)(const char *file, void *user), void *user);
/* rm -r; false with errno when something stays. A path that is not there is fine. */
bool tree_remove(const char *path);

#endif
