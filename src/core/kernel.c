#include "core/kernel.h"

#include <string.h>

static const char *const op_names[] = {
#define X(name) #name,
    GA_OPS(X)
#undef X
};

static const char *const arch_names[] = {
    [GA_ARCH_ref] = "ref", [GA_ARCH_generic] = "generic", [GA_ARCH_avx2] = "avx2", [GA_ARCH_avx512] = "avx512",
    [GA_ARCH_amx] = "amx", [GA_ARCH_neon] = "neon",       [GA_ARCH_sm80] = "sm80", [GA_ARCH_sm90a] = "sm90a",
};

const char *ga_op_name(ga_op op) { return (unsigned)op < GA_OP_COUNT ? op_names[op] : "none"; }
const char *ga_arch_name(ga_arch arch) { return (unsigned)arch < GA_ARCH_COUNT ? arch_names[arch] : "none"; }

/* One pattern [p, end) against the whole of s. Iterative: backtracks to the last star only, so linear in practice. */
static bool match_one(const char *p, const char *end, const char *s) {
  const char *star = NULL, *retry = NULL;
  while (*s) {
    if (p < end && *p == '*') {
      star = p++;
      retry = s;
    } else if (p < end && (*p == '?' || *p == *s)) {
      p++;
      s++;
    } else if (star) {
      p = star + 1;
      s = ++retry;
    } else {
      return false;
    }
  }
  while (p < end && *p == '*') p++;
  return p == end;
}

bool ga_pattern_match(const char *patterns, const char *text) {
  for (const char *p = patterns; *p;) {
    const char *end = strchr(p, ',');
    if (!end) end = p + strlen(p);
    if (end > p && match_one(p, end, text)) return true;
    p = *end ? end + 1 : end;
  }
  return false;
}
