#!/usr/bin/env python3
"""Writes src/cuda/dev/ptx/wgmma.h: one function per wgmma shape and operand form. Usage: gen_wgmma.py > wgmma.h"""
SHAPES = [64, 80, 96, 112, 128, 160, 176, 192, 256]
BACKWARD = [32, 64, 96, 128] # shapes of the forms that attention backward needs
TYPES = ["bf16", "f16"]

HEAD = """/* Written by tools/gen_wgmma.py: do not edit.
 * d (64 x N, f32) = a (64 x 16) b (16 x N) + (acc ? d : 0), asynchronously, by a warpgroup. Wrap in wgmma_fence / wgmma_commit / wgmma_wait.
 *   _rs   a in registers, b in shared memory with k contiguous      _rst  the same, b with n contiguous
 *   _ss   a and b in shared memory, k contiguous in both            _sst  the same, b with n contiguous
 *   _ss0, _sst0   d = a b: what d held is dead, so that its registers are free until here
 * d[4j+2h+e] of a lane: row 16 warp + g + 8h, column 8j + 2q + e. a[0..3]: see mma_m16n8k16. Descriptors: smem_desc() in tile/smem.h. */
#pragma once
#ifdef GA_EMU
#include "cuda/dev/ptx/emu/wgmma.h"
#else
#include "cuda/dev/ptx/base.h"
"""


def lists(n):
    r = n // 2
    regs = ", ".join(f"%{i}" for i in range(r))
    outs = ", ".join(f'"+f"(d[{i}])' for i in range(r))
    return r, regs, outs


def register_a(n, t, name, trans):
    r, regs, outs = lists(n)
    return (f"GA_DEV void wgmma_m64n{n}k16_{t}_{name}(float *d, const uint32_t *a, uint64_t b, int acc)\n{{\n"
            f'    asm volatile("{{.reg .pred p; setp.ne.b32 p, %{r + 5}, 0; wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{t}.{t} '
            f'{{{regs}}}, {{%{r}, %{r + 1}, %{r + 2}, %{r + 3}}}, %{r + 4}, p, 1, 1, {trans};}}"\n'
            f'                 : {outs}\n                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(acc));\n}}\n')


def shared_a(n, t, name, trans):
    r, regs, outs = lists(n)
    return (f"GA_DEV void wgmma_m64n{n}k16_{t}_{name}(float *d, uint64_t a, uint64_t b, int acc)\n{{\n"
            f'    asm volatile("{{.reg .pred p; setp.ne.b32 p, %{r + 2}, 0; wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{t}.{t} '
            f'{{{regs}}}, %{r}, %{r + 1}, p, 1, 1, 0, {trans};}}"\n'
            f'                 : {outs}\n                 : "l"(a), "l"(b), "r"(acc));\n}}\n')


def shared_a_new(n, t, name, trans):
    r, regs, outs = lists(n)
    return (f"GA_DEV void wgmma_m64n{n}k16_{t}_{name}0(float *d, uint64_t a, uint64_t b)\n{{\n"
            f'    asm volatile("{{.reg .pred p; mov.pred p, 0; wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{t}.{t} '
            f'{{{regs}}}, %{r}, %{r + 1}, p, 1, 1, 0, {trans};}}"\n'
            f'                 : {outs.replace("+f", "=&f")}\n                 : "l"(a), "l"(b));\n}}\n')


print(HEAD)
for t in TYPES:
    for n in SHAPES:
        print(register_a(n, t, "rs", 0) + register_a(n, t, "rst", 1) + shared_a(n, t, "ss", 0), end="")
    for n in BACKWARD:
        if n not in SHAPES:
            print(shared_a(n, t, "ss", 0), end="")
        print(shared_a(n, t, "sst", 1) + shared_a_new(n, t, "ss", 0) + shared_a_new(n, t, "sst", 1), end="")
print("#endif")
