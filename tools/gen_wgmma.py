#!/usr/bin/env python3
"""Writes the headers of dev/ptx that hold one function per wgmma shape and operand form.
Usage: gen_wgmma.py 16 > src/cuda/dev/ptx/wgmma.h; gen_wgmma.py 8 > src/cuda/dev/ptx/wgmma8.h; gen_wgmma.py t > src/cuda/dev/ptx/wgmma_t.h"""
import sys

SHAPES = {16: [8, 16, 32, 48, 64, 80, 96, 112, 128, 160, 176, 192, 256], 8: [8, 16, 32, 64, 72, 96, 128, 160, 192, 224, 256]}
ACROSS = [64, 128, 256]  # shapes of products of operands stored across
FORWARD_8 = [64, 72, 128, 192]  # shapes that attention forward in 8 bits begins anew
BACKWARD = [32, 64, 96, 128]  # shapes of the forms that attention backward needs
TYPES = {16: ["bf16", "f16"], 8: ["e4m3", "e5m2", "s8"]}

HEAD_16 = """/* Written by tools/gen_wgmma.py: do not edit.
 * Products of a warpgroup: d (64 x N, f32) = a (64 x 16) b (16 x N) + (acc ? d : 0). They are asynchronous: a call stands between wgmma_fence and
 * wgmma_commit, and d is ready after wgmma_wait. The suffix says where the 16-bit operands a and b are:
 *   _rs   a in registers, b in shared memory with k contiguous      _rst  a in registers, b in shared memory with n contiguous
 *   _ss   a and b in shared memory, k contiguous in both            _sst  a and b in shared memory, k contiguous in a, n in b
 *   _ss0, _sst0   as _ss, _sst, but d = a b: d is only written, so that its registers are free until this call
 * Element d[4j+2h+e] of a lane is row 16 warp + g + 8h, column 8j + 2q + e, with g = lane / 4 and q = lane % 4. Registers a[0..3] are as in
 * mma_m16n8k16_* (mma.h). Operands in shared memory are given by descriptors, made by desc() of tile/smem.h. */
"""
HEAD_8 = """/* Written by tools/gen_wgmma.py: do not edit.
 * Products of a warpgroup: d (64 x N) = a (64 x 32) b (32 x N) + (acc ? d : 0), of 8-bit numbers with k contiguous. They are asynchronous: a call stands
 * between wgmma_fence and wgmma_commit, and d is ready after wgmma_wait. The suffix says where the operands a and b are:
 *   _rs   a in registers, b in shared memory      _ss   a and b in shared memory
 *   _rs0, _ss0   as _rs, _ss, but d = a b: d is only written, so that its registers are free until this call
 * e4m3, e5m2: d is f32, but the hardware adds with 13 fraction bits and truncates d to 13 fraction bits after each step of 32
 * (docs/log/sums.md). Kernels therefore keep such sums short and add them in f32. s8: d is int32, and sums are exact.
 * Element d[4j+2h+e] of a lane is row 16 warp + g + 8h, column 8j + 2q + e, with g = lane / 4 and q = lane % 4. Registers a[0..3] are as in
 * mma_m16n8k32_* (mma.h). Operands in shared memory are given by descriptors, made by desc() of tile/smem.h. */
"""
HEAD_T = """/* Written by tools/gen_wgmma.py: do not edit.
 * Further forms of the products in wgmma.h, for transposed operands:
 *   _sst   a and b in shared memory, b with n contiguous, in shapes that wgmma.h lacks
 *   _sstt  a and b in shared memory, a with m contiguous, b with n contiguous */
"""
GUARD = """#pragma once
#ifdef GA_EMU
#include "cuda/dev/ptx/emu/{}.h"
#else
#include "cuda/dev/ptx/base.h"
"""


def lists(n, letter):
    r = n // 2
    regs = ", ".join(f"%{i}" for i in range(r))
    outs = ", ".join(f'"+{letter}"(d[{i}])' for i in range(r))
    return r, regs, outs


def fresh(outs):
    return outs.replace('"+', '"=&')


def forms(t):
    """k, C type of d, its letter, types in the instruction, text behind the predicate for one and two transposable operands"""
    if t == "s8":
        return 32, "int", "r", "s32.s8.s8", "", ""
    if t in ("e4m3", "e5m2"):
        return 32, "float", "f", f"f32.{t}.{t}", ", 1, 1", ", 1, 1"
    return 16, "float", "f", f"f32.{t}.{t}", ", 1, 1, {}", ", 1, 1, {}"


def register_a(n, t, name, trans):
    k, real, letter, types, tail, _ = forms(t)
    r, regs, outs = lists(n, letter)
    return (f"GA_DEV void wgmma_m64n{n}k{k}_{t}_{name}({real} *d, const uint32_t *a, uint64_t b, int acc)\n{{\n"
            f'    asm volatile("{{.reg .pred p; setp.ne.b32 p, %{r + 5}, 0; wgmma.mma_async.sync.aligned.m64n{n}k{k}.{types} '
            f'{{{regs}}}, {{%{r}, %{r + 1}, %{r + 2}, %{r + 3}}}, %{r + 4}, p{tail.format(trans)};}}"\n'
            f'                 : {outs}\n                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(acc));\n}}\n')


def shared_a(n, t, name, trans):
    k, real, letter, types, _, tail = forms(t)
    r, regs, outs = lists(n, letter)
    return (f"GA_DEV void wgmma_m64n{n}k{k}_{t}_{name}({real} *d, uint64_t a, uint64_t b, int acc)\n{{\n"
            f'    asm volatile("{{.reg .pred p; setp.ne.b32 p, %{r + 2}, 0; wgmma.mma_async.sync.aligned.m64n{n}k{k}.{types} '
            f'{{{regs}}}, %{r}, %{r + 1}, p{tail.format(trans)};}}"\n'
            f'                 : {outs}\n                 : "l"(a), "l"(b), "r"(acc));\n}}\n')


def shared_a_new(n, t, name, trans):
    k, real, letter, types, _, tail = forms(t)
    r, regs, outs = lists(n, letter)
    return (f"GA_DEV void wgmma_m64n{n}k{k}_{t}_{name}0({real} *d, uint64_t a, uint64_t b)\n{{\n"
            f'    asm volatile("{{.reg .pred p; mov.pred p, 0; wgmma.mma_async.sync.aligned.m64n{n}k{k}.{types} '
            f'{{{regs}}}, %{r}, %{r + 1}, p{tail.format(trans)};}}"\n'
            f'                 : {fresh(outs)}\n                 : "l"(a), "l"(b));\n}}\n')


def register_a_new(n, t, name):
    k, real, letter, types, tail, _ = forms(t)
    r, regs, outs = lists(n, letter)
    return (f"GA_DEV void wgmma_m64n{n}k{k}_{t}_{name}0({real} *d, const uint32_t *a, uint64_t b)\n{{\n"
            f'    asm volatile("{{.reg .pred p; mov.pred p, 0; wgmma.mma_async.sync.aligned.m64n{n}k{k}.{types} '
            f'{{{regs}}}, {{%{r}, %{r + 1}, %{r + 2}, %{r + 3}}}, %{r + 4}, p{tail.format(0)};}}"\n'
            f'                 : {fresh(outs)}\n                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));\n}}\n')


def near(bits, t):
    """Operands as their headers say, by shape."""
    for n in SHAPES[bits]:
        print(register_a(n, t, "rs", 0) + (register_a(n, t, "rst", 1) if bits == 16 else "") + shared_a(n, t, "ss", "0, 0"), end="")
    for n in FORWARD_8 if t in ("e4m3", "s8") else []:
        print((register_a_new(n, t, "rs") if t == "e4m3" else "") + shared_a_new(n, t, "ss", "0, 0"), end="")
    for n in BACKWARD if bits == 16 else []:
        if n not in SHAPES[bits]:
            print(shared_a(n, t, "ss", "0, 0"), end="")
        print(shared_a(n, t, "sst", "0, 1") + shared_a_new(n, t, "ss", "0, 0") + shared_a_new(n, t, "sst", "0, 1"), end="")


def across(t):
    for n in ACROSS:
        print((shared_a(n, t, "sst", "0, 1") if n not in BACKWARD else "") + shared_a(n, t, "sstt", "1, 1"), end="")


which = sys.argv[1]
if which == "t":
    print(HEAD_T + GUARD.format("wgmma_t"))
    for t in TYPES[16]:
        across(t)
else:
    print((HEAD_16 if which == "16" else HEAD_8) + GUARD.format("wgmma"))
    for t in TYPES[int(which)]:
        near(int(which), t)
print("#endif")
