#!/usr/bin/env python3
"""The generator of kernel tables refuses declarations that are wrong, with a text that names file, row, field and value.
Usage: gen_kernels_test.py ROOT"""
import shutil
import unittest

from generator_rig import ROOT, Generator

ADD = "src/cuda/kern/layer/add_sm80.toml"
FWD = "src/cuda/kern/attn/attn_fwd_sm90a.toml"
ROW = 'id = "add_f32_rows_sm80_256x4"'


class Refusals(Generator):
    program, made = "gen_kernels", "out/cuda_rows.c"
    folders, left_out = ("src", "verify"), ("jinja", "token", "file", "*.inc")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sources = [p for p in (ROOT / "src").rglob("*") if p.suffix in {".toml", ".cu", ".c"}]

    def tearDown(self):
        """Files that a test has written or moved by itself are as they were, too."""
        super().tearDown()
        for path in self.sources:
            copy = self.root / path.relative_to(ROOT)
            if copy.parent.is_dir() and (not copy.exists() or copy.stat().st_size != path.stat().st_size or copy.suffix == ".toml"):
                shutil.copy(path, copy)

    def test_good_tree(self):
        done = self.generate()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for name in ("cuda_rows.c", "cpu_rows.c", "ref_rows.c", "images.txt", "cuda/kernel_names.h"):
            self.assertTrue((self.root / "out" / name).stat().st_size > 500, name)
        self.assertIn("{GA_ISA_sm90a, 90, false,", (self.root / "out/cuda_targets.c").read_text())

    def test_bodies_of_the_cpu(self):
        """A body is compiled for each instruction set that a row of it names; what rows no longer name is gone."""
        made = self.root / "out/cpu"
        made.mkdir(parents=True)
        (made / "avx2_old.c").write_text("old")
        self.assertEqual(self.generate().returncode, 0)
        self.assertEqual(sorted(p.name for p in made.glob("*_act.c")), ["avx2_act.c", "avx512_act.c", "generic_act.c", "neon_act.c"])
        self.assertFalse((made / "avx2_old.c").exists())
        text = (made / "avx2_act.c").read_text()
        for part in ('#include "cpu/simd/simd_avx2.h"', "#define ISA(name) name##_avx2", '#include "cpu/body/act_tmpl.h"', '#include "cpu/cpu_layer.h"'):
            self.assertIn(part, text)
        declared = (made / "cpu_kernels.h").read_text()
        for part in ("GA_DECLARE_CPU(ga_cpu_act_neon);", "const char *ga_cpu_act_f32(", "uint64_t ga_cpu_attn_workspace(", "double ga_cpu_collective_shared_us("):
            self.assertEqual(declared.count(part), 1, part)

    def test_names_in_both_halves(self):
        """A row's features: the same names as 0 or 1 for the device half, as bits for the host half."""
        self.assertEqual(self.generate().returncode, 0)
        row = next(line for line in (self.root / "out/images.txt").read_text().splitlines() if line.startswith("attn_fwd_ext_bf16_d256v256_window_sm90a_128x64x2"))
        self.assertIn("EXTRAS=1,CARRY=0,PAGES=0,PACKS=1,STRETCHES=0", row)
        self.assertIn("MASK=2,MASK_FULL=0,MASK_CAUSAL=1,MASK_WINDOW=2", row)
        names = (self.root / "out/cuda/kernel_names.h").read_text()
        for text in ("ATTN_FWD_SM90A_EXTRAS = 1,", "ATTN_FWD_SM90A_PACKS = 8,", "CUDA_ATTN_MASK_WINDOW = 2,", "} cuda_attn_mask;"):
            self.assertIn(text, names)
        table = (self.root / "out/cuda_rows.c").read_text()
        self.assertIn(".features = ATTN_FWD_SM90A_EXTRAS | ATTN_FWD_SM90A_PACKS}", table)

    def test_op_without_a_kernel(self):
        for file in ("src/cpu/softmax.toml", "src/cuda/kern/layer/softmax_sm80.toml", "src/cuda/kern/layer/softmax_sm80.cu"):
            (self.root / file).unlink()
        self.refuses("src/op/softmax.toml", 'no kernel has op = "softmax"', "src/cpu/softmax.toml")

    def test_unknown_feature(self):
        self.edit(FWD, '["extras", "carry", "pages", "packs"]', '["extras", "colours"]')
        self.refuses(FWD, "attn_fwd_ext_bf16_d64v64_window", "features has colours", "allowed: extras, carry, pages, packs, stretches")

    def test_feature_that_the_device_half_lacks(self):
        self.edit(FWD, "[features]", '[features]\ncolours = "colours"')
        self.refuses(FWD, "GA_P_COLOURS", "attn_fwd_sm90a.cu does not name it")

    def test_feature_that_the_declaration_lacks(self):
        self.edit(FWD, 'stretches = "Q, K and V as lists of stretches"\n', "")
        self.refuses(FWD, "features has stretches")
        self.edit(FWD, 'features = ["stretches"], ', "", 6)
        self.refuses(FWD, "GA_P_STRETCHES", "do not give it")

    def test_feature_named_as_a_parameter(self):
        self.edit(FWD, "[features]", '[features]\nstages = "stages"')
        self.refuses(FWD, "[features]: stages", "allowed")

    def test_one_host_half_has_one_list_of_features(self):
        self.edit("src/cuda/kern/attn_bwd/attn_bwd_cluster2_sm90a.toml", "[features]", '[features]\ncolours = "colours"')
        self.refuses("[features] is", "allowed: as in", "host half")

    def test_unknown_field(self):
        self.edit(ADD, ROW, ROW + ", colour = 3")
        self.refuses(ADD, "add_f32_rows_sm80_256x4", "colour", "allowed")

    def test_unknown_top_field(self):
        self.edit(ADD, "position =", "colour = 3\nposition =")
        self.refuses(ADD, "colour")

    def test_unknown_host_field(self):
        self.edit(ADD, "[host]", "[host]\ncolour = 3")
        self.refuses(ADD, "[host]", "colour")

    def test_host_field_of_another_kind(self):
        for field, good, bad in (("include", '["cuda/kern/layer/layer.h"]', '"cuda/kern/layer/layer.h"'), ("dtypes", '["{dtype}", "{dtype}"]', '"{dtype}"'),
                                 ("include", '["cuda/kern/layer/layer.h"]', "[3]")):
            with self.subTest(bad):
                self.edit(ADD, f"{field} = {good}", f"{field} = {bad}")
                self.refuses(ADD, "[host]", f"{field} is {bad.replace(chr(34), chr(39))}", "allowed: a list of texts")
                self.edit(ADD, f"{field} = {bad}", f"{field} = {good}")
        self.edit(ADD, 'launch = "cuda_add"', 'launch = ["cuda_add"]')
        self.refuses(ADD, "launch is ['cuda_add']", "allowed: a text")
        file = "src/cuda/kern/attn_bwd/attn_bwd_sm90a.toml"
        self.edit(ADD, 'launch = ["cuda_add"]', 'launch = "cuda_add"')
        self.edit(file, 'same = ["dtype"]', 'same = "dtype"')
        self.refuses(file, "steps.pre.same is 'dtype'", "allowed: a list of texts")

    def test_missing_field(self):
        self.edit(ADD, "threads = 256\n", "")
        self.refuses(ADD, "threads", "missing")

    def test_missing_smem(self):
        self.edit(ADD, "smem = 0\n", "")
        self.refuses(ADD, "smem", "missing")

    def test_costs_with_other_fields(self):
        costs = self.root / "src/cuda/costs"
        other = costs / "other.toml"
        other.write_text((costs / "h200.toml").read_text().replace("mhz = 1980", "ghz = 1.98"))
        self.refuses("other.toml", "clock_ghz, clock_mhz")
        other.unlink()

    def test_doubled_id(self):
        self.edit(ADD, 'rows = [', 'rows = [\n  {id = "add_f32_rows_sm80_256x4", dtype = "f32", vector = 4},')
        self.refuses("add_f32_rows_sm80_256x4", "doubled")

    def test_id_that_contradicts_its_fields(self):
        self.edit(ADD, 'dtype = "f16"', 'dtype = "bf16"')
        self.refuses(ADD, "add_f16_rows_sm80_256x8", "contradicts", "add_bf16_rows_sm80_256x8")

    def test_value_of_another_kind(self):
        self.edit(ADD, "threads = 256", 'threads = "many"')
        self.refuses(ADD, "threads", "many")

    def test_value_out_of_range(self):
        self.edit(ADD, "smem = 0", "smem = 240000")
        self.refuses(ADD, "240000", "232448")

    def test_unknown_arch_and_dtype(self):
        self.edit(ADD, 'arch = "sm80"', 'arch = "sm42"')
        self.refuses(ADD, "sm42", "sm90a")
        self.edit(ADD, 'arch = "sm42"', 'arch = "avx2"')
        self.refuses(ADD, "arch is avx2", "allowed for CUDA: sm80, sm90a")
        self.edit(ADD, 'arch = "avx2"', 'arch = "sm80"')
        self.edit(ADD, 'dtype = "f16"', 'dtype = "f17"')
        self.refuses(ADD, "f17", "bf16")

    def test_more_shared_memory_than_there_is(self):
        file = "src/cuda/kern/attn/attn_fallback_sm80.toml"
        self.edit(file, "blocks = 3", "blocks = 16")
        self.refuses(file, "blocks 16")

    def test_source_without_declaration(self):
        (self.root / ADD).unlink()
        self.refuses("add_sm80.cu", "add_sm80.toml")

    def test_declaration_without_source(self):
        (self.root / ADD).with_suffix(".cu").unlink()
        self.refuses(ADD, "add_sm80.cu")

    def test_declaration_without_host_half(self):
        (self.root / ADD).with_suffix(".c").unlink()
        self.refuses(ADD, "add_sm80.c")

    def test_parameter_that_the_device_half_does_not_name(self):
        self.edit(ADD, "[device]", '[device]\nCOLOUR = "3"')
        self.refuses(ADD, "GA_P_COLOUR", "add_sm80.cu")

    def test_parameter_that_the_declaration_does_not_give(self):
        self.edit(ADD, 'DTYPE = "{dtype}"\n', "")
        self.refuses(ADD, "GA_P_DTYPE")

    def test_step_that_is_missing(self):
        file = "src/cuda/kern/attn_bwd/attn_bwd_sm90a.toml"
        self.edit(file, '"attn_bwd_sink_sm80"', '"attn_bwd_drain_sm80"')
        self.refuses(file, "sink", "attn_bwd_drain_sm80")

    def test_broken_text(self):
        self.edit(ADD, "[device]", "[device")
        self.refuses(ADD)


if __name__ == "__main__":
    unittest.main()
