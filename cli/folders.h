/* The folder in which the program ga keeps its state, such as histories. */
#ifndef GA_CLI_FOLDERS_H
#define GA_CLI_FOLDERS_H

#include <stddef.h>
#include <sys/types.h>

#include "ga/base.h"

/* Writes the path of the folder for state: $XDG_STATE_HOME/ga, or ~/.local/state/ga without that variable. */
ga_status state_dir(char *path, size_t capacity);
/* Makes a folder and its missing parents, as mkdir -p does. */
ga_status make_dirs(const char *path, mode_t mode);
/* Writes a file of this mode. A file that is there stays as it was until the new one is whole. */
ga_status replace_file(const char *path, const char *text, size_t bytes, mode_t mode);

#endif
