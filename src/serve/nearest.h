/* The route that a client may have meant. */
#ifndef GA_SERVE_NEAREST_H
#define GA_SERVE_NEAREST_H

#include "serve/http.h"

/* Returns the route that is nearest to a path without a route. In this order: a slip of two letters; the
 * end of the path, as in /v1/v1/models; a route that continues it, as for /v1/chat; the fewest changed letters. */
const sv_route *sv_nearest_route(const sv_route *routes, const char *url);

#endif
