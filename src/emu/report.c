/* Reports: one per rule and place, with the kernel, the block and the threads. */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu/machine.h"

enum { MAX_REPORTS = 64, MAX_SITES = 65535, TEXT = 6000 };

typedef struct report {
  emu_rule rule;
  emu_site at;
  char text[TEXT];
} report;

static report reports[MAX_REPORTS];
static size_t n_reports;
static report *last; /* NULL: the last call was a repeat */

static emu_site sites[MAX_SITES + 1];
static uint16_t site_table[1 << 17]; /* open addressing */
static uint32_t n_sites;

const char *emu_rule_name(emu_rule rule) {
  static const char *const names[] = {
#define X(id, name) name,
      EMU_RULES(X)
#undef X
  };
  return names[rule];
}

size_t emu_n_reports(void) { return n_reports; }
emu_rule emu_report_rule(size_t i) { return reports[i].rule; }
const char *emu_report_text(size_t i) { return reports[i].text; }
void emu_clear_reports(void) {
  n_reports = 0;
  last = NULL;
}

/* --- places --- */

uint16_t emu_site_id(emu_site at) {
  uint64_t h = ((uint64_t)(uintptr_t)at.file ^ (uint64_t)at.line * 0x9E3779B97F4A7C15u) * 0xD6E8FEB86659FD93u;
  for (uint64_t i = h >> 47;; i = (i + 1) & 0x1ffff) {
    uint16_t id = site_table[i];
    if (id && sites[id].file == at.file && sites[id].line == at.line) return id;
    if (id) continue;
    if (n_sites == MAX_SITES) return 0;
    site_table[i] = (uint16_t)++n_sites;
    sites[n_sites] = at;
    return (uint16_t)n_sites;
  }
}

emu_site emu_site_of(uint16_t id) { return sites[id]; }

/* What follows the last "src/cuda/" or "tests/emu/", with it: paths in debug information begin with the build's folder.
 * */
static const char *from_root(const char *path) {
  static const char *const roots[] = {"src/cuda/", "tests/emu/"};
  const char *found = path;
  for (int i = 0; i < 2; i++)
    for (const char *p = path; (p = strstr(p, roots[i])); p++) found = p;
  return found;
}

/* A program counter inside of a kernel, by the debug information of the file that holds it. */
static void site_of_pc(uintptr_t pc, char *text, size_t capacity) {
  Dl_info info;
  char command[600], line[300] = "";
  void *p = (void *)pc;
  (void)snprintf(text, capacity, "pc %#zx", (size_t)pc);
  if (!dladdr(p, &info) || !info.dli_fname) return;
  (void)snprintf(command, sizeof command, "addr2line -e '%s' %#zx 2>/dev/null", info.dli_fname,
                 (size_t)(pc - 1 - (uintptr_t)info.dli_fbase));
  FILE *f = popen(command, "r");
  if (!f) return;
  if (fgets(line, sizeof line, f) && line[0] != '?') {
    line[strcspn(line, " \n")] = 0;
    (void)snprintf(text, capacity, "%s", from_root(line));
  }
  (void)pclose(f);
}

const char *emu_site_text(emu_site at) {
  static char text[2][400];
  static int turn;
  char *t = text[turn ^= 1];
  if (at.file)
    (void)snprintf(t, sizeof text[0], "%s:%ld", at.file, (long)at.line);
  else if (at.line)
    site_of_pc((uintptr_t)at.line, t, sizeof text[0]);
  else
    (void)snprintf(t, sizeof text[0], "the host");
  return t;
}

/* --- who --- */

const char *emu_agent_text(uint16_t agent) {
  static char text[2][80];
  static int turn;
  char *t = text[turn ^= 1];
  (void)snprintf(t, sizeof text[0], "agent %d", agent);
  for (int b = 0; b < emu_now.n_blocks; b++) {
    const emu_block *k = &emu_now.blocks[b];
    int i = agent - k->agent0;
    if (i >= 0 && i < k->n_threads)
      (void)snprintf(t, sizeof text[0], "block %d thread %d (warp %d)", k->index, i, i / EMU_LANES);
    for (int g = 0; g < k->n_groups; g++)
      if (k->groups[g].agent == agent) (void)snprintf(t, sizeof text[0], "wgmma of block %d warpgroup %d", k->index, g);
  }
  if (agent >= emu_now.copy0 && agent < emu_now.copy0 + EMU_COPIES)
    (void)snprintf(t, sizeof text[0], "the copy engine");
  return t;
}

/* --- text --- */

static void append_line(report *r, const char *format, va_list list) {
  size_t n = strlen(r->text);
  (void)vsnprintf(r->text + n, TEXT - n, format, list);
}

void emu_report(emu_rule rule, emu_site at, const char *format, ...) {
  last = NULL;
  for (size_t i = 0; i < n_reports; i++)
    if (reports[i].rule == rule && reports[i].at.file == at.file && reports[i].at.line == at.line) return;
  if (n_reports == MAX_REPORTS) return;
  report *r = last = &reports[n_reports++];
  r->rule = rule;
  r->at = at;
  char what[TEXT / 2];
  va_list list;
  va_start(list, format);
  (void)vsnprintf(what, sizeof what, format, list);
  va_end(list);
  const char *id = emu_now.launch ? emu_now.launch->kernel->id : "(no launch)";
  (void)snprintf(r->text, TEXT, "%s: %s at %s: %s", id, emu_rule_name(rule), emu_site_text(at), what);
  if (emu_opt.verbose) (void)fprintf(stderr, "\n%s", r->text);
  if (emu_me)
    emu_report_more("\n  thread: block %d thread %d, seed %llu", emu_me->block->index, emu_me->tid,
                    (unsigned long long)emu_opt.seed);
}

void emu_report_more(const char *format, ...) {
  if (!last) return;
  va_list list;
  size_t n = strlen(last->text);
  va_start(list, format);
  append_line(last, format, list);
  va_end(list);
  if (emu_opt.verbose) (void)fprintf(stderr, "%s", last->text + n);
}
