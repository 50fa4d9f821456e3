/* A fuzz target: runs the parser on the bytes, uses what it gives, cleans up. A finding is a crash or a sanitizer
 * report; refusing the input is no finding. Returns 0. */
#ifndef GA_TESTS_FUZZ_FUZZ_H
#define GA_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
