/* Addresses of Hugging Face's hub, or of a mirror of it ($HF_ENDPOINT), and the token for it. */
#ifndef GA_CLI_HUB_WEB_H
#define GA_CLI_HUB_WEB_H

#include <stddef.h>

#include "ga/base.h"

/* Reads the token: $HF_TOKEN, else the file where other programs of the hub keep it. "" if there is none. */
ga_status hub_token(char token[512]);
/* Writes the address of `rest`, a path with its query, on the hub. */
ga_status hub_url(const char *rest, char *url, size_t capacity);

#endif
