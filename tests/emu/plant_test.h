/* Kernels with planted defects, run. */
#ifndef GA_TESTS_EMU_PLANT_TEST_H
#define GA_TESTS_EMU_PLANT_TEST_H

int plant_all(int seeds, const char *only); /* only NULL: all of them. Number of failures */
int plant_speed(void);                      /* prints GFLOP/s of products */
int check_selftest_plants(void);            /* what ga check --selftest calls */

#endif
