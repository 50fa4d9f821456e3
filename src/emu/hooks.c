/* Kernels are compiled with -fsanitize=thread; its calls end here instead of in its run-time library, so that every
 * plain load and store of a kernel is seen without a change to the source. The names are the instrumentation's, not
 * ours. */
#include <stdbool.h>
#include <stddef.h>

void emu_hook(void *p, size_t n, bool write, void *pc);

/* clang-format off */
#define HOOK(name, n, write) \
  void __tsan_##name(void *p); \
  void __tsan_##name(void *p) { emu_hook(p, n, write, __builtin_return_address(0)); }
#define HOOKS(n) \
  HOOK(read##n, n, false) HOOK(write##n, n, true) HOOK(unaligned_read##n, n, false) HOOK(unaligned_write##n, n, true)
HOOKS(1) HOOKS(2) HOOKS(4) HOOKS(8) HOOKS(16)

#define RANGE(name, write) \
  void __tsan_##name(void *p, size_t n); \
  void __tsan_##name(void *p, size_t n) { emu_hook(p, n, write, __builtin_return_address(0)); }
RANGE(read_range, false) RANGE(write_range, true)

#define NOTHING(name, params) \
  void __tsan_##name params; \
  void __tsan_##name params {}
NOTHING(init, (void))
NOTHING(func_exit, (void))
    /* clang-format on */
    void __tsan_func_entry(void *p);
void __tsan_func_entry(void *p) { (void)p; }
