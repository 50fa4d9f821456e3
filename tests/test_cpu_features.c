/* Which instruction sets a chip of x86 gets: bits of leaf 1 and 7 as their makers document them, for named chips. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cpu/cpu.h"

#if defined(__x86_64__)
/* Leaf 1 ECX; leaf 7 EBX, ECX, EDX; leaf 7.1 EAX; XCR0. */
enum {
  FMA = 1 << 12,
  XSAVED = 1 << 27,
  AVX = 1 << 28,
  F16C = 1 << 29,
  AVX2 = 1 << 5,
  BMI2 = 1 << 8,
  F512 = 1 << 16,
  DQ512 = 1 << 17,
  BW512 = 1 << 30,
  VBMI = 1 << 1,
  VBMI2 = 1 << 6,
  VNNI512 = 1 << 11,
  AMX_BF16 = 1 << 22,
  AMX_TILE = 1 << 24,
  AMX_INT8 = 1 << 25,
  AVX_VNNI = 1 << 4,
  BF16_512 = 1 << 5
};
#define VL512 (1u << 31)

#define LAPTOP   (FMA | XSAVED | AVX | F16C)
#define HASWELL  ((uint32_t)(AVX2 | BMI2))
#define SKYLAKE  (HASWELL | (uint32_t)(F512 | DQ512 | BW512) | VL512)
#define ICE_LAKE ((uint32_t)(VBMI | VBMI2 | VNNI512))
#define TILES    ((uint32_t)(AMX_BF16 | AMX_TILE | AMX_INT8))

#define GENERIC_ISA (1u << GA_ISA_generic)
#define AVX2_ISA    (GENERIC_ISA | 1u << GA_ISA_avx2)
#define AVX512_ISA  (AVX2_ISA | 1u << GA_ISA_avx512)
#define AMX_ISA     (AVX512_ISA | 1u << GA_ISA_amx)

static void test_named_chips(void **state) {
  (void)state;
  static const struct {
    const char *name;
    ga_cpuid r;
    uint32_t isas;
  } chips[] = {
      {"Ivy Bridge: AVX without FMA and AVX2", {XSAVED | AVX | F16C, 0, 0, 0, 0, 7}, GENERIC_ISA},
      {"Haswell, Zen", {LAPTOP, HASWELL, 0, 0, 0, 7}, AVX2_ISA},
      {"Haswell under a system that saves no AVX", {LAPTOP, HASWELL, 0, 0, 0, 3}, GENERIC_ISA},
      {"Skylake-X: AVX-512 without VNNI", {LAPTOP, SKYLAKE, 0, 0, 0, 0xe7}, AVX2_ISA},
      {"Cascade Lake: VNNI without VBMI", {LAPTOP, SKYLAKE, VNNI512, 0, 0, 0xe7}, AVX2_ISA},
      {"Ice Lake: no bf16", {LAPTOP, SKYLAKE, ICE_LAKE, 0, 0, 0xe7}, AVX2_ISA},
      {"Alder Lake: AVX-VNNI, no AVX-512", {LAPTOP, HASWELL, 0, 0, AVX_VNNI, 7}, AVX2_ISA},
      {"Zen 4", {LAPTOP, SKYLAKE, ICE_LAKE, 0, BF16_512, 0xe7}, AVX512_ISA},
      {"Zen 4 under a system that saves no AVX-512", {LAPTOP, SKYLAKE, ICE_LAKE, 0, BF16_512, 7}, AVX2_ISA},
      {"Sapphire Rapids", {LAPTOP, SKYLAKE, ICE_LAKE, TILES, BF16_512 | AVX_VNNI, 0x600e7}, AMX_ISA},
      {"Sapphire Rapids without tiles", {LAPTOP, SKYLAKE, ICE_LAKE, TILES, BF16_512 | AVX_VNNI, 0xe7}, AVX512_ISA},
  };
  for (size_t i = 0; i < sizeof chips / sizeof *chips; i++)
    if (ga_cpu_isas_of(&chips[i].r) != chips[i].isas)
      fail_msg("%s: instruction sets %#x; want %#x", chips[i].name, ga_cpu_isas_of(&chips[i].r), chips[i].isas);
}
#else
static void test_named_chips(void **state) {
  (void)state;
  skip();
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_named_chips)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
