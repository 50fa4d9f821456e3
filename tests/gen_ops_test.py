#!/usr/bin/env python3
"""The generator of what follows from src/op/*.toml refuses declarations that are wrong, with a text that names file, field and value;
and a header whose block is another one than its op's. Usage: gen_ops_test.py ROOT"""
import shutil
import unittest

from generator_rig import ROOT, Generator

ACT, NORM, KV = "src/op/act.toml", "src/op/norm.toml", "src/op/kv_store.toml"
HEADER = "include/ga/layer.h"


class Tree(Generator):
    program, made = "gen_ops", "out"
    folders = ("include", "src/op", "src/opdef", "src/ref", "verify/check", "verify/bench")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.root / "tests").symlink_to(ROOT / "tests")

    def setUp(self):
        self.edited = {HEADER}


class Refusals(Tree):
    def test_unknown_field(self):
        self.edit(ACT, "moves =", "colour = 3\nmoves =")
        self.refuses(ACT, "unknown field colour", "allowed: number")

    def test_unknown_field_of_a_field(self):
        self.edit(ACT, 'enum = "ga_act_kind"', "colour = 3")
        self.refuses(ACT, "unknown field colour", "allowed: c, range")

    def test_field_of_another_kind(self):
        self.edit(ACT, "number = 5", 'number = "5"')
        self.refuses(ACT, "number is '5'", "allowed: a int")

    def test_missing_field(self):
        self.edit(ACT, 'shape = "{rows} x {width} {dtype}"\n', "")
        self.refuses(ACT, "shape is missing")

    def test_no_toml(self):
        self.edit(ACT, "number = 5", "number = = 5")
        self.refuses(ACT)

    def test_doubled_number(self):
        self.edit(ACT, "number = 5", "number = 6")
        self.refuses("number 6 is that of", "the first free one is 5")

    def test_number_that_leaves_a_hole(self):
        self.edit("src/op/act.toml", "number = 5", "number = 500")
        self.refuses("no op has number 5")

    def test_declaration_that_is_none(self):
        self.edit(ACT, "int64_t rows, width", "int64_t rows[, width")
        self.refuses(ACT, "allowed: a type, and names")

    def test_doubled_name(self):
        self.edit(ACT, "int64_t rows, width", "int64_t rows, rows")
        self.refuses(ACT, "rows is doubled")

    def test_range_that_is_none(self):
        self.edit(ACT, "[0, 2^40]", "0 to 40")
        self.refuses(ACT, "range is 0 to 40", "allowed: an interval")

    def test_two_rules(self):
        self.edit(ACT, 'enum = "ga_act_kind"', 'enum = "ga_act_kind", range = "[0, 5]"')
        self.refuses(ACT, "range and enum", "allowed: one of them")

    def test_rule_of_another_type(self):
        self.edit(ACT, "int32_t act", "int64_t act")
        self.refuses(ACT, "enum of a int64_t", "allowed: of int32_t")

    def test_unknown_enum(self):
        self.edit(ACT, "ga_act_kind", "ga_act_kinds")
        self.refuses(ACT, "ga_act_kinds is no enum", "ga_act_kind")

    def test_most_that_the_enum_lacks(self):
        self.edit("src/op/gemm.toml", "GA_ACT_GELU_ERF\"}", "GA_ACT_GELU\"}")
        self.refuses("src/op/gemm.toml", "most is GA_ACT_GELU", "GA_ACT_GELU_ERF")

    def test_enum_with_a_hole(self):
        self.edit(NORM, "GA_NORM_L2 = 2", "GA_NORM_L2 = 3")
        self.refuses(NORM, "numbers [0, 1, 3]", "allowed: consecutive")

    def test_versions_that_shrink(self):
        self.edit("src/op/attn.toml", "desc = 104", "desc = 90")
        self.refuses("src/op/attn.toml", "allowed: a larger description")

    def test_unknown_name_in_a_formula(self):
        self.edit(ACT, 'moves = "rows * width"', 'moves = "rows * columns"')
        self.refuses(ACT, "columns is no field", "allowed: rows, width")

    def test_unknown_name_in_the_shape(self):
        self.edit(ACT, "{width}", "{columns}")
        self.refuses(ACT, "columns is no field")

    def test_work_twice(self):
        self.edit(ACT, "moves =", 'by_hand = ["work"]\nmoves =')
        self.refuses(ACT, "the work is given by moves and by_hand")

    def test_missing_oracle(self):
        self.edit(ACT, 'oracle = {id = "act_any_scalar_ref_1"}\n', "")
        self.refuses(ACT, "oracle of act is missing")

    def test_missing_parts(self):
        for file in ("src/op/op_act.c", "src/ref/ref_act.c", "verify/check/check_act.c", "verify/bench/bench_act.c"):
            with self.subTest(file):
                (self.root / file).rename(self.root / "kept")
                self.refuses(ACT, f"{file} is missing")
                (self.root / "kept").rename(self.root / file)

    def test_part_that_is_there_after_all(self):
        self.edit(ACT, "moves =", 'without = {bench = "why"}\nmoves =')
        self.refuses(ACT, "verify/bench/bench_act.c is there")

    def test_part_that_every_op_has(self):
        self.edit(ACT, "moves =", 'without = {check = "why"}\nmoves =')
        self.refuses(ACT, "without has check", "allowed: bench, oracle")


class Headers(Tree):
    def check(self):
        return self.generate("--check")

    def test_good_tree(self):
        done = self.check()
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)

    def test_stale_block(self):
        for old, new in (("int32_t act; ", "int64_t act; "), ("may be x or g", "may be x"), ("0, GA_F32 }\n\ntypedef struct ga_act_io", "0, GA_F16 }\n\ntypedef struct ga_act_io")):
            with self.subTest(new):
                shutil.copy(ROOT / HEADER, self.root / HEADER)
                self.edit(HEADER, old, new)
                done = self.check()
                self.assertEqual(done.returncode, 1)
                self.assertIn("src/op/act.toml is not what that file says: make golden", done.stdout)

    def test_op_without_a_test(self):
        (self.root / "tests").unlink()
        found = self.check().stdout
        (self.root / "tests").symlink_to(ROOT / "tests")
        self.assertIn("src/op/act.toml: no tests/test_*.c calls ga_act", found)

    def test_build_refuses_a_stale_block(self):
        self.edit(ACT, "may be x or g", "must be x or g")
        self.refuses("src/op/act.toml is not what that file says: make golden")

    def test_missing_block(self):
        self.edit(HEADER, "/* --- src/op/act.toml: desc io functions --- */", "/* --- src/op/act.toml: desc io --- */")
        done = self.check()
        self.assertEqual(done.returncode, 1)
        self.assertIn("functions of src/op/act.toml must stand in one block", done.stdout)

    def test_piece_that_there_is_not(self):
        self.edit(HEADER, "src/op/act.toml: desc", "src/op/act.toml: colour desc")
        self.assertIn("src/op/act.toml has no colour", self.check().stdout)

    def test_written_block_is_the_old_one(self):
        """A header without the block gets it where new ones go; a changed field changes it."""
        text = (self.root / HEADER).read_text()
        begin, end = text.index("/* --- src/op/act.toml"), text.index("/* --- src/op/add.toml")
        (self.root / HEADER).write_text(text[:begin] + text[end:])
        self.assertEqual(self.check().returncode, 1)
        self.assertEqual(self.generate("--write").returncode, 0)
        self.assertIn("GA_DECLARE_OP(act)", (self.root / HEADER).read_text())
        self.assertEqual(self.check().returncode, 0)
        self.edit(ACT, "may be x or g", "must be x or g")
        self.assertEqual(self.check().returncode, 1)
        self.assertEqual(self.generate("--write").returncode, 0)
        self.assertIn("void *y;           /* output [rows, width]; must be x or g */", (self.root / HEADER).read_text())


class Sources(Tree):
    """Some of what is made."""

    def test_good_tree(self):
        done = self.generate()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        made = {path.name: path.read_text() for path in (self.root / "out").rglob("*.*")}
        self.assertIn("X(gemm) \\\n  X(pack) \\\n  X(attn)", made["op_list.h"])
        self.assertNotIn("pack", made["op_list.h"].split("#define GA_OPS_TIMED")[1].split("\n\n")[0])
        self.assertIn("X(attn, 104, 504)", made["op_list.h"])
        self.assertIn("opdef_moved((double)d->rows * (double)d->width)", made["op_table.c"])
        self.assertIn("opdef_moved((double)d->vocab * fmax((double)f->rows, 1))", made["op_table.c"])
        self.assertIn("fmin((double)d->n_experts, (double)d->tokens * (double)d->top_k)", made["op_table.c"])
        self.assertIn('"%lld x %lld %s%s%s", (long long)d->rows', made["op_table.c"])
        for text in ('"act: act is %d; must be 0 to 5 (ga_act_kind)"', '"gemm: act is %d; must be 0 to 3 (ga_act_kind)"', '"sample: top_p is %g; must be in (0, 1]"',
                     "if (d->v_dim == 0) d->v_dim = d->head_dim;", '"attn: v_dim is %d; must be 1 to 1024, or 0 = head_dim"',
                     '"attn_quant: reserved[%d] is %d; must be 0"', '"%s: ranks is %d; must be 1 to 4096", op, d->ranks'):
            self.assertIn(text, made["op_fields.c"])

    def test_abi(self):
        self.assertEqual(self.generate("--abi", self.root / "init.h").returncode, 0)
        text = (self.root / "init.h").read_text()
        self.assertIn("X(ga_act_desc, GA_ACT_DESC_INIT)", text)
        self.assertIn("static_ga_act_desc.dtype == GA_F32", text)
        self.assertIn("PLAN(act, GA_ACT_DESC_INIT, (d.rows = 4, d.width = 4, d.act = GA_ACT_SILU))", text)


if __name__ == "__main__":
    unittest.main()
