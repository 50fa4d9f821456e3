#include "base/cgroup.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 4096
#define LINE_BYTES 4096

/* The first line of mount/group/file without its newline; false: there is no such file. */
static bool read_line(const char *mount, const char *group, const char *file, char line[LINE_BYTES]) {
  char path[PATH_BYTES];
  const int n = snprintf(path, sizeof path, "%s%s/%s", mount, group, file);
  if (n < 0 || (size_t)n >= sizeof path) return false;
  FILE *in = fopen(path, "re");
  if (!in) return false;
  const bool read = fgets(line, LINE_BYTES, in) != NULL;
  (void)fclose(in);
  if (read) line[strcspn(line, "\n")] = 0;
  return read;
}

/* Whole CPUs of a quota; 0: none. Less than one CPU is one: a thread has to run. */
static int cpus_of(long long quota, long long period) {
  if (quota <= 0 || period <= 0) return 0;
  const long long cpus = quota / period;
  return cpus < 1 ? 1 : cpus > 1 << 20 ? 1 << 20 : (int)cpus;
}

/* Version 2: "QUOTA PERIOD", or "max PERIOD". */
static int quota_v2(const char *mount, const char *group) {
  char line[LINE_BYTES];
  long long quota, period;
  if (!read_line(mount, group, "cpu.max", line) || sscanf(line, "%lld %lld", &quota, &period) != 2) return 0;
  return cpus_of(quota, period);
}

/* Version 1: a file each; a quota of -1 is none. */
static int quota_v1(const char *mount, const char *group) {
  char quota[LINE_BYTES], period[LINE_BYTES];
  if (!read_line(mount, group, "cpu.cfs_quota_us", quota) || !read_line(mount, group, "cpu.cfs_period_us", period))
    return 0;
  return cpus_of(strtoll(quota, NULL, 10), strtoll(period, NULL, 10));
}

/* The smallest of the group's quota and of those above it. `group` is cut up on the way. */
static int smallest(int (*quota)(const char *, const char *), const char *mount, char *group) {
  int least = 0;
  for (;;) {
    const int cpus = quota(mount, group);
    if (cpus && (!least || cpus < least)) least = cpus;
    char *slash = strrchr(group, '/');
    if (!slash) return least;
    *slash = 0;
  }
}

static bool has_cpu(const char *controllers) {
  for (const char *p = controllers; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
    if (!strncmp(p, "cpu", 3) && (p[3] == ',' || p[3] == 0)) return true;
  return false;
}

/* A line is ID:CONTROLLERS:GROUP; version 2 has no controllers. */
static int cpus_of_line(char *line, const char *mount) {
  char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
  if (!group) return 0;
  *controllers++ = 0;
  *group++ = 0;
  if (!*controllers) return smallest(quota_v2, mount, group);
  if (!has_cpu(controllers)) return 0;
  char hierarchy[PATH_BYTES];
  const int n = snprintf(hierarchy, sizeof hierarchy, "%s/%s", mount, controllers);
  return n > 0 && (size_t)n < sizeof hierarchy ? smallest(quota_v1, hierarchy, group) : 0;
}

int ga_cgroup_cpus(const char *list, const char *mount) {
  char line[LINE_BYTES];
  int least = 0;
  FILE *in = fopen(list, "re");
  if (!in) return 0;
  while (fgets(line, sizeof line, in)) {
    line[strcspn(line, "\n")] = 0;
    const int cpus = cpus_of_line(line, mount);
    if (cpus && (!least || cpus < least)) least = cpus;
  }
  (void)fclose(in);
  return least;
}
