/* The CUDA driver, emulated. */
#ifndef GA_TESTS_EMU_EMU_DRIVER_H
#define GA_TESTS_EMU_EMU_DRIVER_H

#include "core/device.h"
#include "cuda/rt/driver.h"

extern ga_cu emu_driver;

/* Marks device memory as written. For libraries that write it without the driver: tests/nccl/stand_in.c. */
GA_API void emu_mark_received(void *p, size_t bytes);

/* The rows of the CUDA backend on the emulated driver: device "emu". */
extern const ga_backend ga_emu_backend;

#endif
