/* Where the program keeps things. */
#ifndef GA_CLI_FOLDERS_H
#define GA_CLI_FOLDERS_H

#include <sys/types.h>

#include "ga/base.h"

/* $XDG_STATE_HOME/ga, else ~/.local/state/ga. */
ga_status state_dir(char *path, size_t capacity);
/* mkdir -p */
ga_status make_dirs(const char *path, mode_t mode);

#endif
