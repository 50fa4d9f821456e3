/* `ga check --selftest`: checks rows that are built to fail. A checker that has never been seen to fail is no
 * evidence. */
#ifndef GA_VERIFY_CHECK_SELFTEST_H
#define GA_VERIFY_CHECK_SELFTEST_H

#include "verify/check/internal.h"

/* Checks the rows and prints a line for each. Returns EXIT_OK if the intended check caught each faulty row and the
 * correct rows passed; otherwise EXIT_CHECK. */
int check_selftest(const check_options *o);

/* Runs further self-tests, in the program with the CUDA emulator only: kernels with planted defects. Prints a line for
 * each and returns the number of failures. */
GA_WEAK int check_selftest_plants(void);

#endif
