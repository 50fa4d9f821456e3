/* The table of all routes. */
#ifndef GA_SERVE_ROUTES_H
#define GA_SERVE_ROUTES_H

#include "serve/http.h"

extern const sv_route sv_routes[]; /* ended by an entry with method NULL */

#endif
