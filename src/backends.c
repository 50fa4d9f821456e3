/* The one file that names backends. */
#include "ga/base.h"

typedef int ga_backends_pending;
