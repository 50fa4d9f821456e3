#!/bin/sh
# attn_build.sh OUT [pattern]: compiles the rows of attn.def whose id matches, one cubin each, into OUT, with list.txt and libattn.so for the scripts here.
# Short rows are another source: `ga check` has them.
# Fails on spills and on every C75xx note (serialised or ignored instructions).
set -e
one() {
    id=$1; log=$OUT/$id.log
    nvcc -gencode=arch=compute_90a,code=sm_90a -O3 --use_fast_math -Xptxas -v -cubin -I"$ROOT/src" -I"$ROOT/include" -DGA_KERNEL_ID="$id" -DGA_P_DTYPE="$2" -DGA_P_D="$3" -DGA_P_DV="$4" -DGA_P_MASK="$5" \
        -DGA_P_BM="$6" -DGA_P_BN="$7" -DGA_P_STAGES="$8" -DGA_P_TURN="$9" -DGA_P_QREG="${10}" -DGA_P_STORE="${11}" -DGA_P_RESIDENT="${12}" -DGA_P_BLOCKS="${13}" \
        -DGA_P_FEATURES="${14}" -DGA_P_SMEM="$(shift 14; echo "$*")" -o "$OUT/$id.cubin" "$ROOT/src/cuda/kern/attn/attn_fwd_sm90a.cu" > "$log" 2>&1 || { cat "$log"; exit 255; }
    if grep -q C75 "$log" || ! grep -q ' 0 bytes spill stores, 0 bytes spill loads' "$log"; then echo "$id:"; grep -E 'C75|spill' "$log"; exit 255; fi
}
if [ -n "$ATTN_ONE" ]; then set -f; shift; one $*; exit; fi
here=$(cd "$(dirname "$0")" && pwd); root=$here/../..; out=$1; mkdir -p "$out"
cc -E -P -x c -I "$root/src" "$here/attn_list.h" | grep attn_ | grep -vE '_(short|tile|ahead) ' | grep -E "${2:-.}" > "$out/rows.txt"
cut -d' ' -f1-14 "$out/rows.txt" > "$out/list.txt"
ATTN_ONE=1 OUT=$out ROOT=$root; export ATTN_ONE OUT ROOT
xargs -P "$(nproc)" -d '\n' -I{} sh "$here/attn_build.sh" - "{}" < "$out/rows.txt"
cc -std=c11 -O2 -Wall -Wextra -shared -fPIC -I"$root/src" -I"${CUDA_HOME:-/usr/local/cuda}/include" -o "$out/libattn.so" "$here/attn_launch.c" -ldl
cp "$here"/attn_*.py "$out/"
echo "$(wc -l < "$out/list.txt") kernels built"
