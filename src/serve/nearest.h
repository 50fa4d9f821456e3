/* A search for the route that a client may have meant by a path without a route. */
#ifndef GA_SERVE_NEAREST_H
#define GA_SERVE_NEAREST_H

#include "serve/http.h"

/* Returns the route that is nearest to a path. It tries, in this order: routes that differ in at most two letters,
 * routes that the path ends with (/v1/v1/models), routes that begin with the path (/v1/chat). Otherwise the route with
 * the fewest changed letters counts. */
const sv_route *sv_nearest_route(const sv_route *routes, const char *url);

#endif
