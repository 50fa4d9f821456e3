/* Macros for the compiler extensions that host code uses. No other host file uses an extension directly. */
#ifndef GA_BASE_COMPILER_H
#define GA_BASE_COMPILER_H

#define GA_LIKELY(x)    __builtin_expect(!!(x), 1)
#define GA_UNLIKELY(x)  __builtin_expect(!!(x), 0)
#define GA_INLINE       static inline __attribute__((always_inline))
#define GA_UNUSED       __attribute__((unused))
#define GA_WEAK         __attribute__((weak)) /* lets a declared function be undefined: its address is then NULL */
#define GA_NOINLINE     __attribute__((noinline))
#define GA_CTZ(x)       __builtin_ctz(x) /* number of zero bits below the lowest set bit; x must not be 0 */
#define GA_PREFETCH(p)  __builtin_prefetch((p), 0, 3)
#define GA_THREAD_LOCAL _Thread_local
#define GA_ALIGNED(n)   __attribute__((aligned(n)))
/* Unrolls the loop that follows the macro, which has a constant number of iterations. Arrays indexed in the loop can
 * then be in registers. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GA_UNROLL /* empty under sanitizers: gcc would warn that it cannot unroll, and speed does not matter there */
#elif defined(__clang__)
#define GA_UNROLL _Pragma("clang loop unroll(full)")
#else
#define GA_UNROLL _Pragma("GCC unroll 16")
#endif
/* Keeps the loop that follows the macro from being unrolled, so that the compiler vectorises it. */
#if defined(__clang__)
#define GA_KEEP_LOOP _Pragma("clang loop vectorize(enable)")
#else
#define GA_KEEP_LOOP _Pragma("GCC unroll 1")
#endif
/* Unrolls the loop that follows the macro by 2, for loops whose bodies use most of the CPU's registers. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GA_UNROLL_2
#elif defined(__clang__)
#define GA_UNROLL_2 _Pragma("clang loop unroll_count(2)")
#else
#define GA_UNROLL_2 _Pragma("GCC unroll 2")
#endif
/* Compiles the function that follows the macro for AVX2 too; the loader selects a version when the program starts. Both
 * versions give the same bits, because multiplications and additions are not fused. The macro is empty under
 * sanitizers, whose code runs before the loader selects. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
#define GA_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define GA_CLONES
#endif
#define GA_COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

__extension__ typedef unsigned __int128 ga_u128;

#endif
