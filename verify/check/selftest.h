/* ga check --selftest: rows built to fail. A checker that has never been seen to fail is no evidence. */
#ifndef GA_VERIFY_CHECK_SELFTEST_H
#define GA_VERIFY_CHECK_SELFTEST_H

#include "verify/check/internal.h"

/* Prints one line for each row. Returns EXIT_OK if the intended detector caught each faulty row and the clean rows
 * passed; else EXIT_CHECK. */
int check_selftest(const check_options *o);

/* Runs further self-tests in the program with the CUDA emulator: kernels with planted defects. Prints a line for
 * each and returns the number of failures. */
GA_WEAK int check_selftest_plants(void);

#endif
