/* Memory of the emulated driver that several addresses and processes map: files without a name. */
#ifndef GA_TESTS_EMU_SHARE_H
#define GA_TESTS_EMU_SHARE_H

#include <stdbool.h>

#include "cuda/rt/driver.h"

#define EMU_SHARE_GRAIN ((size_t)64 << 10)

CUresult emu_share_create(CUmemory *out, size_t bytes, int device);
/* The device that made it, in this process or another. */
int emu_share_owner(CUmemory memory);
CUresult emu_share_release(CUmemory memory);
CUresult emu_share_export(void *fd, CUmemory memory);
CUresult emu_share_import(CUmemory *out, int fd);
/* Addresses that count as device memory. NULL: none left. */
void *emu_share_reserve(size_t bytes);
bool emu_share_holds(const void *p, size_t bytes); /* in reserved addresses */
CUresult emu_share_unreserve(void *p, size_t bytes);
CUresult emu_share_map(void *p, size_t bytes, CUmemory memory);
CUresult emu_share_unmap(void *p, size_t bytes);

#endif
