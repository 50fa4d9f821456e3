/* Runs a fuzz target over every file of a folder, and over each cut in half: what a build without libFuzzer can do. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"

static int replay_file(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f || fseek(f, 0, SEEK_END)) return 1;
  long bytes = ftell(f);
  rewind(f);
  /* Of exactly this size, so that a sanitizer sees a read past the end. */
  uint8_t *data = malloc(bytes > 0 ? (size_t)bytes : 1);
  int bad = bytes < 0 || !data || fread(data, 1, (size_t)bytes, f) != (size_t)bytes;
  if (!bad) {
    (void)LLVMFuzzerTestOneInput(data, (size_t)bytes);
    (void)LLVMFuzzerTestOneInput(data, (size_t)bytes / 2);
  }
  free(data);
  (void)fclose(f);
  return bad;
}

int main(int argc, char **argv) {
  DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
  if (!folder) {
    (void)fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  int files = 0, bad = 0;
  for (struct dirent *entry; (entry = readdir(folder));) {
    char path[4096];
    if (entry->d_name[0] == '.') continue;
    (void)snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
    bad += replay_file(path);
    files++;
  }
  (void)closedir(folder);
  (void)printf("%d files replayed, %d unreadable\n", files, bad);
  return bad || files == 0;
}
