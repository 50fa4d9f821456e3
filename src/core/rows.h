/* How a backend writes its rows: GA_ROW(op, dtypes, mode, arch, tile, fields...). The id is made of the first five. */
#ifndef GA_CORE_ROWS_H
#define GA_CORE_ROWS_H

#include "core/kernel.h"

#define GA_ROW(op_, dtypes_, mode_, arch_, tile_, ...) \
  { .id = #op_ "_" #dtypes_ "_" #mode_ "_" #arch_ "_" #tile_, .op = GA_OP_##op_, .arch = GA_ARCH_##arch_, __VA_ARGS__ }

#endif
