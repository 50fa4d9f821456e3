/* emu_plants [SEEDS [NAME]]; emu_plants speed */
#include <stdlib.h>
#include <string.h>

#include "tests/emu/plant_test.h"

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "speed")) return plant_speed();
  return plant_all(argc > 1 ? atoi(argv[1]) : 20, argc > 2 ? argv[2] : NULL) != 0;
}
