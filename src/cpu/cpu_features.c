/* Which instruction sets may be used: the chip has them and the system saves their registers. */
#include "cpu/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* XCR0 by xgetbv; bits: 1 SSE, 2 AVX, 5-7 AVX-512, 17-18 AMX (Intel SDM vol. 1, 13.3). */
static uint64_t enabled_state(void) {
  uint32_t lo, hi;
  __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
  return (uint64_t)hi << 32 | lo;
}

/* Linux gives a process the AMX registers only when it asks (arch_prctl ARCH_REQ_XCOMP_PERM, feature 18). */
static bool amx_allowed(void) { return syscall(SYS_arch_prctl, 0x1023, 18) == 0; }

static bool has_all(uint32_t reg, uint32_t bits) { return (reg & bits) == bits; }

/* AMX without leave of the system is none: the caller asks. */
uint32_t ga_cpu_isas_of(const ga_cpuid *r) {
  uint32_t isas = 1u << GA_ISA_generic;
  const uint32_t base = bit_OSXSAVE | bit_FMA | bit_F16C | bit_AVX;
  if (!has_all(r->ecx1, base) || (r->state & 6) != 6 || !has_all(r->ebx7, bit_AVX2 | bit_BMI2)) return isas;
  isas |= 1u << GA_ISA_avx2;
  const uint32_t f512 = bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ;
  const uint32_t v512 = bit_AVX512VBMI | bit_AVX512VBMI2 | bit_AVX512VNNI, bf16 = 1u << 5;
  if ((r->state & 0xe6) != 0xe6 || !has_all(r->ebx7, f512) || !has_all(r->ecx7, v512) || !has_all(r->eax71, bf16))
    return isas;
  isas |= 1u << GA_ISA_avx512;
  const uint32_t amx = 1u << 22 | 1u << 24 | 1u << 25; /* AMX_BF16, AMX_TILE, AMX_INT8 */
  if ((r->state & 0x60000) == 0x60000 && has_all(r->edx7, amx)) isas |= 1u << GA_ISA_amx;
  return isas;
}

uint32_t ga_cpu_isas(void) {
  ga_cpuid r = {0};
  uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &r.ecx1, &d)) return 1u << GA_ISA_generic;
  if (r.ecx1 & bit_OSXSAVE) r.state = enabled_state();
  if (!__get_cpuid_count(7, 0, &a, &r.ebx7, &r.ecx7, &r.edx7)) return 1u << GA_ISA_generic;
  if (!__get_cpuid_count(7, 1, &r.eax71, &b, &c, &d)) r.eax71 = 0;
  const uint32_t isas = ga_cpu_isas_of(&r), amx = 1u << GA_ISA_amx;
  return isas & amx && !amx_allowed() ? isas & ~amx : isas;
}

#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

uint32_t ga_cpu_isas(void) {
  unsigned long caps = getauxval(AT_HWCAP);
  uint32_t isas = 1u << GA_ISA_generic;
  if (caps & HWCAP_ASIMDDP && caps & HWCAP_ASIMDHP) isas |= 1u << GA_ISA_neon;
  return isas;
}

#else
uint32_t ga_cpu_isas(void) { return 1u << GA_ISA_generic; }
#endif
