/* The table of all HTTP routes of the server. */
#ifndef GA_SERVE_ROUTES_H
#define GA_SERVE_ROUTES_H

#include "serve/http.h"

extern const sv_route sv_routes[]; /* table of the routes; the last entry has method NULL */

#endif
