#include "verify/dist/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "verify/dist/words.h"

static bool is_host_name(const char *name) { return !strcmp(name, "cpu") || !strcmp(name, "ref"); }

bool dist_is_on_host(const char *devices) { return is_host_name(devices); }

static int32_t count_devices(const char *devices) {
  int32_t n = 1;
  for (const char *p = devices; *p; p++) n += *p == ',';
  return n;
}

void dist_device_of(const char *devices, int32_t rank, char name[DIST_DEVICE_BYTES]) {
  const char *at = devices;
  for (int32_t i = rank % count_devices(devices); i > 0; i--) at = strchr(at, ',') + 1;
  (void)snprintf(name, DIST_DEVICE_BYTES, "%.*s", (int)strcspn(at, ","), at);
}

ga_status dist_check_devices(const char *devices) {
  char name[DIST_DEVICE_BYTES];
  const int32_t n = count_devices(devices);
  for (int32_t r = 0; r < n; r++) {
    dist_device_of(devices, r, name);
    const bool host = is_host_name(name);
    const bool known = host || !strncmp(name, "cuda:", 5) || !strcmp(name, "emu") || !strncmp(name, "emu:", 4);
    GA_REQUIRE(known && (n == 1 || !host), GA_ERR_ARG, "--device '%.100s': must be cpu, or GPUs such as cuda:0,cuda:1",
               devices);
  }
  return GA_OK;
}

void dist_prepare_devices(const char *devices) {
  if (dist_is_on_host(devices)) return;
  /* Streams that wait must not share a queue of the device with others, and no code may be loaded meanwhile. */
  (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  (void)setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

static bool are_ways(const char *copies, bool several) {
  static const char *const ways[] = {"auto", "peer", "host", "nccl"};
  char word[DIST_WORD_BYTES];
  bool seen[GA_COUNT_OF(ways)] = {false};
  size_t n = 0;
  if (!copies) return true;
  if (!*copies || copies[strlen(copies) - 1] == ',') return false;
  for (size_t at = 0; dist_next_word(copies, &at, word); n++) {
    const int32_t i = dist_word_index(ways, GA_COUNT_OF(ways), word);
    if (i < 0 || seen[i]) return false;
    seen[i] = true;
  }
  return several || n == 1;
}

ga_status dist_check_copies(const char *copies, bool several) {
  GA_REQUIRE(are_ways(copies, several), GA_ERR_ARG, "--copies '%.100s': must be auto, peer, host or nccl%s", copies,
             several ? ", each once, with commas between" : "");
  return GA_OK;
}
