/* Packed weights of the row under test, made by the device's own pack row. */
#ifndef GA_VERIFY_CHECK_PACKED_H
#define GA_VERIFY_CHECK_PACKED_H

#include "verify/check/check.h"

/* Makes an argument of the row, which is native so far, the packed form that *p describes: bytes, 256-byte aligned. */
void check_packed_arg(const check_case *c, check_arg *arg, const ga_pack_desc *p);
/* Packs the oracle's argument i into the row's, for check_op.derive. */
GA_NODISCARD ga_status check_pack_weights(check_case *c, int i, const ga_pack_desc *p);

#endif
