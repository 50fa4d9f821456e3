/* One row of the table as an emulated kernel: compiled once a row with the row's GA_P_* macros and
 *   -DGA_EMU -DGA_KERNEL_ID=<id> -DGA_EMU_SOURCE="\"path.cu\""
 * and with thread instrumentation, whose calls src/emu/hooks.c answers. */
#include GA_EMU_SOURCE

#include <cstring>
#include <new>

namespace {
template <class A> void call(void (*kernel)(A), const void *args) {
  alignas(64) unsigned char copy[sizeof(A)];
  std::memcpy(copy, args, sizeof(A));
  kernel(*reinterpret_cast<const A *>(copy));
}
template <class A> constexpr uint32_t bytes_of(void (*)(A)) { return sizeof(A); }
void run(const void *args) { call(GA_KERNEL_ID, args); }
} // namespace

struct emu_kernel {
  const char *id;
  void (*run)(const void *args);
  uint32_t args_bytes, threads, blocks_per_sm;
};
#define GA_EMU_STRING_(x) #x
#define GA_EMU_STRING(x)  GA_EMU_STRING_(x)
extern "C" {
extern const emu_kernel GA_CAT(emu_kernel_, GA_KERNEL_ID);
const emu_kernel GA_CAT(emu_kernel_, GA_KERNEL_ID) = {GA_EMU_STRING(GA_KERNEL_ID), run, bytes_of(GA_KERNEL_ID),
                                                      EMU_LAUNCH_THREADS, EMU_LAUNCH_BLOCKS};
}
