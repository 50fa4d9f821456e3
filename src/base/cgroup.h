/* CPU quotas of Linux control groups, which containers use: cgroups(7), kernel docs admin-guide/cgroup-v2. */
#ifndef GA_BASE_CGROUP_H
#define GA_BASE_CGROUP_H

/* Returns the number of whole CPUs that the quotas of this process's group and of all its parents allow, at least 1. 0:
 * there is no quota. `list` is the path /proc/self/cgroup and `mount` is /sys/fs/cgroup; tests pass other paths. Both
 * versions of cgroups are read. */
int ga_cgroup_cpus(const char *list, const char *mount);

#endif
