#!/bin/sh
# Compiles the CPU backend for AArch64 and runs tests/test_gemm.c on it under qemu-user, which knows the dot product.
# Needs the Debian packages gcc-aarch64-linux-gnu and qemu-user. Usage: tools/check_neon.sh [OUTPUT-FOLDER]
set -eu
cd "$(dirname "$0")/.."
out=${1:-build-neon}
mkdir -p "$out"
python3 tools/gen_ops.py . "$out/kernels"
python3 tools/gen_kernels.py . "$out/kernels"
made=$out/kernels
aarch64-linux-gnu-gcc -std=c11 -D_GNU_SOURCE -O2 -ffp-contract=off -Wall -Wextra -Wpedantic -Wshadow -Wconversion \
  -Wsign-conversion -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef -Werror -march=armv8.2-a+dotprod+fp16 \
  -Iinclude -Isrc -I. -I"$made" -Itests/cross -static -o "$out/test_gemm" \
  $(ls src/base/*.c | grep -v /json.c) src/core/*.c src/opdef/*.c src/ref/*.c src/op/*.c src/cpu/*.c src/cpu/generic/*.c src/cpu/arm_neon/*.c \
  "$made"/opdef/op_table.c "$made"/op/op_fields.c "$made"/cpu_rows.c "$made"/ref_rows.c "$made"/cpu/generic_*.c "$made"/cpu/neon_*.c \
  tests/cross/backends.c \
  tests/test_gemm.c -lm -lpthread
qemu-aarch64 -cpu max "$out/test_gemm"
