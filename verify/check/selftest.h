/* ga check --selftest: rows built to fail. A checker that nobody has seen fail is no evidence. */
#ifndef GA_VERIFY_CHECK_SELFTEST_H
#define GA_VERIFY_CHECK_SELFTEST_H

#include "verify/check/internal.h"

/* Prints one line for each row; EXIT_CHECK unless each was caught by the detector meant for it and the clean pass. */
int check_selftest(const check_options *o);

/* More self-tests of a program that is built with them: kernels with planted defects, in the program with the CUDA
 * emulator. Prints its lines; the number of failures. */
GA_WEAK int check_selftest_plants(void);

#endif
