#include "core/kernel.h"

#include <string.h>

static const char *const isa_names[] = {
    [GA_ISA_ref] = "ref", [GA_ISA_generic] = "generic", [GA_ISA_avx2] = "avx2", [GA_ISA_avx512] = "avx512",
    [GA_ISA_amx] = "amx", [GA_ISA_neon] = "neon",       [GA_ISA_sm80] = "sm80", [GA_ISA_sm90a] = "sm90a",
};

static ga_work no_work(const void *desc) {
  (void)desc;
  return (ga_work){0};
}
static void no_shape(const void *desc, char *text, size_t capacity) {
  (void)desc;
  if (capacity) text[0] = 0;
}
static const ga_op_info no_op = {.name = "none", .work = no_work, .shape = no_shape};

const ga_op_info *ga_op_info_of(ga_op op) { return op >= 0 && op < ga_n_ops ? ga_ops[op] : &no_op; }
const char *ga_isa_name(ga_isa isa) { return (unsigned)isa < GA_ISA_COUNT ? isa_names[isa] : "none"; }

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
