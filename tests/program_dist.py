#!/usr/bin/env python3
"""ga dist: plans against figures worked out here, runs against one rank, wrong command lines. Usage: program_dist.py GA"""
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from trace_rig import read_spans

GA = os.path.abspath(sys.argv.pop(1))


class Dist(unittest.TestCase):
    @staticmethod
    def ga(*args, rc=0):
        env = {k: v for k, v in os.environ.items() if not k.startswith("GA_")}
        p = subprocess.run([GA, "dist", *args], capture_output=True, text=True, env=env)
        assert p.returncode == rc, f"{args}: {p.returncode}: {p.stderr}"
        return p.stdout if rc == 0 else p.stderr

    def plan(self, *args):
        return json.loads(self.ga("plan", "--json", *args))

    def sent(self, *args):
        return [rank["sent_bytes"] for rank in self.plan(*args)["ranks"]]

    def test_balance(self):
        """What is left when all wait for the slowest of each stage: ring P / (2P - 1), DistFlashAttn P / (P + 1), zigzag 1."""
        size = ("--tokens", "65536", "--ranks")
        for ranks in (2, 4, 8):
            for method, want in (("ring", ranks / (2 * ranks - 1)), ("distflash", ranks / (ranks + 1)), ("zigzag", 1)):
                self.assertAlmostEqual(self.plan(*size, str(ranks), "-m", method)["stage_balance"], want, 3)

    def test_bytes(self):
        """Chunks of c tokens, f32: ring 2 Hkv (P - 1), need-only 3/4 of it on average, Ulysses (1 - 1/P)(2 Hq + 2 Hkv)
        and 4 bytes of LSE for each row and head, mesh 2 Hq (q - 1) + 2 Hkv (kv - 1) and the same."""
        ranks, tokens, hq, hkv, dim = 8, 8192, 16, 8, 32
        c, unit = tokens // ranks, tokens // ranks * dim * 4
        size = ("--tokens", str(tokens), "-n", str(ranks), "--heads", str(hq), "--kv-heads", str(hkv), "--head-dim", str(dim))
        ring = 2 * hkv * (ranks - 1) * unit
        self.assertEqual(self.sent(*size, "-m", "zigzag"), [ring] * ranks)
        self.assertEqual(sum(self.sent(*size, "-m", "zigzag-direct")), 0.75 * ring * ranks)
        ulysses = (2 * hq + 2 * hkv) * (ranks - 1) // ranks * unit + hq * (ranks - 1) // ranks * c * 4
        self.assertEqual(self.sent(*size, "-m", "ulysses"), [ulysses] * ranks)
        mesh = (2 * hq * 1 + 2 * hkv * 3) * unit + hq * c * 4
        self.assertEqual(self.sent(*size, "-m", "mesh", "--grid", "1x2x4"), [mesh] * ranks)
        back = self.sent(*size, "-m", "zigzag", "--backward")  # K, V and the sums of dK, dV
        self.assertEqual(back, [2 * ring] * ranks)

    def test_window(self):
        """Tiles outside of the window are neither computed nor sent: 2 of 8 chunks see each other."""
        size = ("--tokens", "8192", "-n", "8", "-m", "ring", "--kv-heads", "2", "--head-dim", "64")
        chunk = 8192 // 8 * 2 * 2 * 64 * 4
        self.assertEqual(self.sent(*size, "--window", "1000"), [chunk] * 7 + [0])
        self.assertEqual(self.sent(*size), [7 * chunk] * 8)

    def test_balanced(self):
        """Packed documents of random lengths: equal work where others leave a rank half idle."""
        draw = random.Random(3)
        tokens = ",".join(str(draw.randint(1, 2000)) for _ in range(64))
        size = ("--tokens", tokens, "-n", "8")
        self.assertGreater(self.plan(*size, "-m", "balanced")["rank_balance"], 0.97)
        self.assertLess(self.plan(*size, "-m", "ring")["rank_balance"], 0.9)

    def test_documents(self):
        """Whole documents: equal work, and nothing is sent; one that is too long for a rank is cut."""
        draw = random.Random(3)
        lengths = [str(draw.randint(1, 2000)) for _ in range(64)]
        for more, sends in ([], False), (["90000"], True):
            size = ("--tokens", ",".join(lengths + more), "-n", "4", "-m", "llama3", "--order", "documents")
            self.assertGreater(self.plan(*size)["rank_balance"], 0.97)
            self.assertEqual(sum(self.sent(*size)) > 0, sends)

    def timeline(self, *args):
        """The run's JSON, and spans of each rank and stream in the order of their beginnings."""
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/t.json"
            found = json.loads(self.ga("run", "--json", "--timeline", path, *args))
            self.assertEqual(os.listdir(folder), ["t.json"])
            return found, *read_spans(self, path)

    def test_timeline(self):
        """Ranks are processes of the trace. Its bytes are those of the run, whose bits it leaves as they are; its sums are the spans'."""
        for args in (("-n", "3", "-m", "zigzag", "--tokens", "300,31"), ("-n", "2", "-m", "llama3", "--tokens", "200", "--backward", "--runs", "3"),
                     ("-n", "2", "-m", "ring", "--tokens", "200", "--transport", "processes", "--timeout", "60")):
            with self.subTest(args=args):
                want = json.loads(self.ga("run", "--json", *args))
                found, spans, names = self.timeline(*args)
                self.assertEqual((found["bits"], found["sent_bytes"]), (want["bits"], want["sent_bytes"]))
                self.assertEqual(names, {(r, "host") for r in range(found["ranks"])})
                self.assertEqual(sum(e["args"]["bytes"] for stream in spans.values() for e in stream), want["sent_bytes"])
                for rank, told in enumerate(found["timeline"]["ranks"]):
                    for key, cat in (("attention", "attention"), ("communication", "push")):
                        self.assertAlmostEqual(told[key], sum(e["dur"] for e in spans[rank, 0] if e["cat"] == cat) * 1e-6, 7)
                    self.assertEqual(told["overlapped"], 0)  # one stream
                    self.assertLess(told["attention"], told["seconds"])
                    self.assertGreater(told["gaps"][0]["seconds"], 0)
        text = self.ga("run", "-n", "2", "--tokens", "200", "--timeline", "/dev/stdout", rc=1)
        self.assertIn("--timeline /dev/stdout: it is no regular file", text)

    @unittest.skipIf(os.path.exists("/dev/nvidiactl"), "there is a GPU here")
    def test_error_of_the_only_rank(self):
        text = self.ga("run", "-n", "1", "--transport", "processes", "--device", "cuda:0", "--type", "bf16", "--tokens", "64", rc=1)
        self.assertIn("ga dist: no CUDA driver on this machine", text)

    def test_timeline_errors(self):
        """Before the run, which would fail here for another reason."""
        for transport in ("threads", "processes"):
            text = self.ga("run", "-n", "2", "--transport", transport, "--tokens", "6000", "--timeout", "0.01", "--timeline", "/nowhere/t.json", rc=1)
            self.assertEqual(text, "ga dist: --timeline /nowhere/t.json: No such file or directory\n")
        self.assertIn("--timeline '': it must be the name of a file", self.ga("run", "-n", "2", "--timeline", "", rc=2))
        with tempfile.TemporaryDirectory() as folder:
            text = self.ga("run", "-n", "2", "--tokens", "64", "--timeline", os.fsencode(folder) + b"/\xff.json", rc=1)
            self.assertIn("the name must be UTF-8", text)
            self.assertEqual(os.listdir(folder), [])
        self.assertIn("must be a file, not a stream", self.ga("run", "-n", "2", "--timeline", "-", rc=2))
        self.assertIn("--timeline is for run; this is bench", self.ga("bench", "-n", "2", "--timeline", "t.json", rc=2))

    def test_same_plan(self):
        one, two = self.plan("-n", "6"), self.plan("-n", "6")
        self.assertEqual(one, two)
        for other in (("-n", "6", "--full"), ("-n", "6", "--heads", "16"), ("-n", "6", "--tokens", "4095")):
            self.assertNotEqual(self.plan(*other)["plan"], one["plan"])

    def test_all(self):
        found = json.loads(self.ga("plan", "--json", "-m", "all", "-n", "5", "--tokens", "100,3,200"))
        self.assertGreaterEqual(len(found), 17)
        self.assertEqual([m["method"] for m in found if not m.get("verified")], [])
        text = self.ga("verify", "-m", "all", "-n", "16", "--heads", "8")
        self.assertIn("ulysses        refused: dist ulysses: 16 groups of heads; must be 1 to q_heads, 8", text)

    def test_text(self):
        text = self.ga("plan", "-n", "3", "-m", "ring")
        self.assertIn("q2 k1 100%", text)
        self.assertIn("balance 60.0 % of perfect", text)
        self.assertIn("tile: stretch 0 of rank 1 (slot 0)", self.ga("plan", "-n", "3", "--steps", "1"))
        self.assertIn("deadlock, memory, bytes", self.ga("verify", "-n", "3"))

    def simulate(self, *args):
        return json.loads(self.ga("simulate", "--json", "--tokens", "65536", "--latency", "0", "--launch", "0", *args))

    def test_simulate(self):
        """Without bytes to wait for, what is left is the balance. A link so slow that nothing hides it adds its bytes."""
        fast = ("--gbytes", "1000000", "--tflops", "0.001")
        for method, want in (("ring", 8 / 15), ("zigzag", 1), ("distflash", 8 / 9), ("ulysses", 1)):
            self.assertAlmostEqual(self.simulate("-n", "8", "-m", method, *fast)["efficiency"], want, 3)
        slow = ("--gbytes", "0.001", "--tflops", "1000000", "-n", "4", "-m", "zigzag")
        bytes_ = 3 * (65536 // 4) * 2 * 2 * 64 * 4
        self.assertAlmostEqual(self.simulate(*slow)["seconds"] / (bytes_ / 1e6), 1, 3)
        text = self.ga("simulate", "-m", "all", "-n", "4")
        self.assertIn("zigzag-direct", text)

    def test_gathered(self):
        """On GPUs keys come in four groups of heads: one is waited for. A merged tile is as slow as its rate says."""
        size = ("-n", "4", "--heads", "32", "--kv-heads", "8", "--head-dim", "128", "--type", "bf16", "--tflops", "600", "--merged-tflops", "300",
                "--backward-tflops", "600", "--start-keys", "0", "--start-queries", "0")
        keys, work = 3 * (65536 // 4) * 8 * 2 * 128 * 2, 2 * 65536 * 65537 // 2 * 32 * 256 / 4 / 600e12
        gathered = self.simulate(*size, "-m", "llama3")
        self.assertAlmostEqual(gathered["seconds"] / (work + keys / 4 / 370e9), 1, 3)
        self.assertAlmostEqual(self.simulate(*size, "-m", "zigzag")["seconds"] / (2 * work), 1, 3)
        slow = self.simulate(*size, "-m", "llama3", "--gbytes", "1")
        self.assertAlmostEqual(slow["seconds"] / (keys / 1e9 + work / 4), 1, 3)
        back = self.simulate(*size, "-m", "llama3", "--backward")  # one group: keys before, and f32 gradients behind
        self.assertAlmostEqual(back["seconds"] / (2.5 * work + 3 * keys / 370e9), 1, 3)

    def test_auto(self):
        """The fastest by the model; where results are not merged for less, that which waits least."""
        size = ("-n", "4", "--tokens", "65536", "--heads", "32", "--kv-heads", "8", "--head-dim", "128", "--type", "bf16")
        text = self.ga("plan", "-m", "auto", *size, "--merged-tflops", "300")
        self.assertRegex(text, r"^auto: llama3 .*\nnext: ulysses ")
        self.assertIn("llama3 is chosen: its ranks wait less", text)
        text = self.ga("plan", "-m", "auto", *size, "--merged-tflops", "300", "--kv-heads", "2")  # fewer than ranks
        self.assertTrue(text.startswith("auto: llama3 "), text)
        self.assertIn("llama3 is chosen: its calls are faster: no result is merged", text)
        self.assertEqual(json.loads(self.ga("plan", "-m", "auto", "--json", *size, "--merged-tflops", "300"))["method"], "llama3")
        self.assertNotEqual(json.loads(self.ga("plan", "-m", "auto", "--json", *size))["method"], "llama3")
        out = json.loads(self.ga("run", "-m", "auto", "-n", "3", "--tokens", "300", "--transport", "processes", "--json"))
        self.assertLess(out["difference"], 1e-5)

    def test_auto_grid(self):
        """Grids are searched, too, where the command line has none: the chosen one is the fastest, and ranks run it."""
        size = ("-n", "6", "--tokens", "600", "--gbytes", "1", "--latency", "1000", "--tflops", "1")
        text = self.ga("plan", "-m", "auto", *size)
        self.assertRegex(text, r"auto: mesh 1x2x3 ")
        self.assertIn("of 3 grids of mesh; its own takes ", text)
        self.assertIn("6 ranks as 1 x 2 x 3 ", text)
        seconds = {(m, g): self.simulated(*size, "-m", m, "--grid", g) for m, g in (("usp", "2x1x3"), ("attention2d", "1x2x3"),
                   ("wallfacer", "1x3x2"), ("mesh", "1x6x1"), ("mesh", "1x1x6"), ("mesh", "1x3x2"), ("mesh", "1x2x3"))}
        self.assertEqual(min(seconds.values()), self.simulated(*size, "-m", "auto"))
        self.assertEqual(seconds["mesh", "1x2x3"], min(seconds.values()))
        self.assertNotIn("1x2x3", self.ga("plan", "-m", "auto", *size, "--grid", "1x1x6"))
        self.assertEqual(json.loads(self.ga("plan", "-m", "auto", "--json", *size))["grid"], [1, 2, 3])
        out = json.loads(self.ga("run", "-m", "auto", *size, "--transport", "processes", "--json"))
        self.assertEqual(out["method"], "mesh")
        self.assertEqual(out["sent_bytes"], sum(self.sent("-m", "mesh", "--grid", "1x2x3", *size[:4])))

    def simulated(self, *args):
        return json.loads(self.ga("simulate", "--json", *args))["seconds"]

    def test_run(self):
        for args in (("-m", "zigzag", "-n", "3"), ("-m", "ulysses", "-n", "4", "--seed", "5"),
                     ("-m", "mesh", "-n", "6", "--grid", "1x2x3", "--backward", "--tokens", "70,0,201"),
                     ("-m", "tree", "-n", "5", "--tokens", "900,31", "--queries", "1,2"),
                     ("-m", "striped", "-n", "2", "--window", "40", "--buffered"),
                     ("-m", "balanced", "-n", "4", "--tokens", "130,7,90,400", "--backward"),
                     ("-m", "llama3", "-n", "3", "--tokens", "130,7,90,400", "--order", "documents")):
            out = json.loads(self.ga("run", "--json", "--tokens", "300", *args))
            self.assertLess(out["difference"], 1e-5, args)

    def test_stages(self):
        """Every rank of a causal zigzag computes in every stage, rank 1 and up in the first one, too."""
        for n in (2, 4, 5):
            plan = json.loads(self.ga("plan", "-m", "zigzag", "-n", str(n), "--json"))
            for rank in plan["ranks"]:
                self.assertTrue(all(stage["tiles"] > 0 for stage in rank["stages"]), (n, rank))

    def test_types(self):
        """bf16 halves what is sent of keys; results are those of f32 within the type's rounding. Partials stay f32."""
        size = ("--tokens", "300", "-n", "3")
        f32, bf16 = (self.sent(*size, "--type", t) for t in ("f32", "bf16"))
        self.assertEqual([2 * b for b in bf16], f32)
        for args in (("--type", "bf16"), ("--type", "f16", "--backward"), ("--type", "bf16", "-m", "ulysses")):
            self.assertLess(json.loads(self.ga("run", "--json", *size, *args))["difference"], 1e-2, args)
        back = ("-m", "zigzag", "--backward", "--type", "bf16")
        self.assertLess(sum(self.sent(*size, *back, "--partials", "type")), sum(self.sent(*size, *back)))

    def test_verifier_is_apart(self):
        """The verifier names no function of the builder, nor what plan.h works out for it."""
        source = Path(__file__).resolve().parents[1] / "src" / "dist"
        built = "".join((source / f"{f}.c").read_text() for f in ("geometry", "method", "assign", "balance", "route", "emit"))
        names = set(re.findall(r"^(?!static)\w[\w *]*?\b(dist_\w+)\(", built, re.MULTILINE))
        names |= set(re.findall(r"^static inline .*?\b(dist_\w+)\(", (source / "plan.h").read_text(), re.MULTILINE))
        self.assertGreaterEqual(len(names), 15)
        self.assertIn("dist_sees", names)
        for file in source.glob("verify*.[ch]"):
            self.assertEqual([n for n in names if re.search(rf"\b{n}\b", file.read_text())], [], file.name)

    def test_usage(self):
        for args, said in (
            ((), "nothing to do; must be one of plan, verify, simulate, run"),
            (("draw",), "draw; must be one of plan, verify, simulate, run"),
            (("plan", "-m", "rings"), "--method 'rings' is none of these"),
            (("plan", "-n", "0"), "--ranks '0': must be a whole number from 1 to 4096"),
            (("plan", "--order", "random"), "--order 'random': must be contiguous,"),
            (("plan", "--need", "some"), "--need 'some': must be all,"),
            (("plan", "--tokens", "4,x"), "--tokens '4,x': must be lengths of documents"),
            (("plan", "--tokens", "4,5", "--queries", "1"), "--queries has 1 lengths, --tokens 2; must be equal"),
            (("plan", "--grid", "2x2"), "--grid '2x2': must be heads x q x kv"),
            (("plan", "--grid", "4294967297x1x4"), "--grid '4294967297x1x4': must be heads x q x kv"),
            (("plan", "--grid", "1x1x99999999999999999999"), "--grid '1x1x99999999999999999999': must be heads x q x kv"),
            (("plan", "--grid", "1x-1x4"), "--grid '1x-1x4': must be heads x q x kv"),
            (("plan", "--grid", "1x1x4x"), "--grid '1x1x4x': must be heads x q x kv"),
            (("plan", "--grid", "1x1x"), "--grid '1x1x': must be heads x q x kv"),
            (("plan", "--grid", "3x1x1"), "grid of 3 heads x 1 q x 1 kv; their product must be the rank count, 4"),
            (("plan", "--heads", "7"), "q_heads 7, kv_heads 2; must be 1 to 65536, q_heads a multiple of kv_heads"),
            (("plan", "-m", "distflash", "--full"), "queries of rank 0 see keys of rank 1"),
            (("plan", "-m", "ulysses", "-n", "9"), "9 groups of heads; must be 1 to q_heads, 8"),
            (("plan", "--steps", "4"), "--steps 4: must be a rank, 0 to 3"),
            (("plan", "--tokens", str(2**40), "-n", "2", "--heads", "65536", "--kv-heads", "65536", "--head-dim", "1024"),
             "1099511627776 queries, 1099511627776 keys, 65536 heads"),
            (("plan", "--type", "q4_0"), "--type 'q4_0': must be f32, f16 or bf16"),
            (("simulate", "--device", "foo"), "--device 'foo': must be cpu, or GPUs such as cuda:0,cuda:1"),
            (("run", "--device", "foo"), "--device 'foo': must be cpu, or GPUs such as cuda:0,cuda:1"),
            (("run", "--device", "cpu,cuda:0"), "--device 'cpu,cuda:0': must be cpu, or GPUs such as cuda:0,cuda:1"),
            (("run", "--device", "cuda:0"), "--type f32: on cuda:0 it must be bf16 or f16"),
            (("run", "--device", "cuda:0", "--type", "bf16", "--seed", "1"), "--seed and --buffered are for --device cpu"),
            (("plan", "--partials", "f16"), "--partials 'f16': must be f32 or type"),
            (("run", "--transport", "pigeons"), "--transport 'pigeons': must be threads, processes or mpi"),
            (("run", "--transport", "mpi"), "no launcher's variables are set; it is started by mpirun"),
            (("run", "-n", "65"), "run takes at most 64"),
            (("run", "-m", "all"), "run takes one method"),
            (("bench", "-m", "ring,foo"), "--method 'foo' is no method"),
            (("bench", "-m", ""), "--method '': must be names with commas between, or all"),
            (("bench", "-m", "ring,,zigzag"), "--method '' is no method"),
            (("bench", "--type", "bf16"), "--type bf16: on cpu bench takes f32"),
            (("bench", "--runs", "-1"), "--runs"),
            (("bench", "-n", "65"), "bench takes at most 64"),
            (("bench", "-m", "all", "--tokens", "9,x"), "--tokens '9,x'"),
            (("bench", "-n", "9", "-m", "ulysses"), "9 groups of heads; must be 1 to q_heads, 8"),
            (("reduce", "--bytes", "4096,x"), "--bytes '4096,x': must be multiples of 16, such as 8192 or 4096,131072"),
            (("reduce", "--bytes", "24"), "--bytes 24: must be a multiple of 16, 16 to 67108864 for f32"),
            (("reduce", "--bytes", "33554448", "--type", "bf16"), "16 to 33554432 for bf16"),
            (("reduce", "--type", "i8"), "--type 'i8': must be f32, f16 or bf16"),
            (("reduce", "-n", "9", "--device", "cuda:0"), "--ranks 9: on cuda:0 reduce takes at most 8"),
            (("reduce", "-n", "2", "--device", "cuda:0", "--transport", "mpi"), "no launcher's variables are set"),
            (("links", "-n", "1"), "--ranks 1: links are between 2 ranks or more"),
            (("links", "--bytes", "0"), "--bytes 0: must be 1 to 17179869184"),
            (("links", "--runs", "65"), "--runs 65: links takes 1 to 64"),
            (("links", "--copies", "host"), "--copies host: it is for run, bench and links on GPUs; --device is cpu"),
            (("links", "--copies", "peer,host", "--device", "cuda:0"), "--copies 'peer,host': must be auto, peer, host or nccl"),
            (("run", "--copies", "tcp"), "--copies 'tcp': must be auto, peer, host or nccl"),
            (("run", "--copies", "peer,host"), "--copies 'peer,host': must be auto, peer, host or nccl"),
            (("bench", "--copies", "peer,peer"), "--copies 'peer,peer': must be auto, peer, host or nccl, each once"),
            (("run", "--copies", "host"), "--copies host: it is for run, bench and links on GPUs; --device is cpu"),
            (("reduce", "--copies", "host", "--device", "cuda:0"), "--copies host: it is for run, bench and links on GPUs"),
        ):
            self.assertIn(said, self.ga(*args, rc=2), args)

    def test_options_of_verbs(self):
        """A verb takes the options of its help, which `ga help` prints, too; it names others as its own or as another verb's."""
        verbs = re.findall(r"^  ([a-z]+) ", self.ga("--help"), re.M)
        self.assertEqual(verbs, ["plan", "verify", "simulate", "run", "bench", "reduce", "links"])
        tables = {}
        for verb in verbs:
            text = self.ga(verb, "--help")
            self.assertTrue(text.startswith(f"usage: ga dist {verb} [options]\n"), text)
            self.assertEqual(text, subprocess.run([GA, "help", "dist", verb], capture_output=True, text=True, check=True).stdout)
            tables[verb] = re.findall(r"^  (?:-\w, |    )--([\w-]+)", text, re.M)[:-1]  # the last is --help
        every = sorted({name for names in tables.values() for name in names})
        for verb, names in tables.items():
            takes = f"{verb} takes --" + ", --".join(names)
            self.assertIn(f"unknown option '--nonsense'; {takes}\n", self.ga(verb, "--nonsense", rc=2))
            for name in sorted(set(every) - set(names)):
                text = self.ga(verb, f"--{name}=1", rc=2)
                self.assertIn(f"; this is {verb}\nga dist: {takes}\nsee: ga dist {verb} --help\n", text)
                owners = ", ".join(v for v in verbs if name in tables[v])
                self.assertIn(f"--{name} is for {owners};" if (verb, name) != ("reduce", "copies") else "--copies 1: it is for ", text)
        self.assertIn("unexpected 'more'", self.ga("plan", "more", rc=2))
        self.assertEqual(self.ga("-n", "3", "plan", "-m", "ring"), self.ga("plan", "-n", "3", "-m", "ring"))

    def test_bench(self):
        """Methods beside one device: work and bytes of the plan, times in order, ratios of the same rounds."""
        shape = ("--tokens", "96,0,31", "--heads", "4", "--kv-heads", "2", "--head-dim", "16", "-n", "2", "--timeout", "60")
        for more, transport in (((), "threads"), (("--backward",), "threads"), (("--window", "20"), "processes")):
            b = json.loads(self.ga("bench", "-m", "ring,zigzag-direct", "--runs", "4", "--transport", transport, "--json",
                                   *shape, *more))
            self.assertEqual([r["method"] for r in b["rows"]], ["one device", "ring", "zigzag-direct"])
            one = b["rows"][0]
            for r in b["rows"]:
                self.assertTrue(0 < r["seconds_least"] <= r["seconds"] <= r["seconds_most"], r)
                ranks = 1 if r is one else 2
                self.assertAlmostEqual(r["tflops_a_rank"] * ranks * r["seconds"] / (one["tflops_a_rank"] * one["seconds"]), 1, 6)
                if r is not one:
                    low, high = (one[a] / (2 * r[b]) for a, b in (("seconds_least", "seconds_most"), ("seconds_most", "seconds_least")))
                    self.assertTrue(low <= r["of_one_device"] <= high, (r, one))
                    self.assertEqual(r["sent_bytes"], sum(self.sent("-m", r["method"], *shape[:-2], *more)))
            pairs = sum(rank["pairs"] for rank in self.plan("-m", "ring", *shape[:-2], *more)["ranks"])
            products = 5 if "--backward" in more else 2
            self.assertAlmostEqual(one["tflops_a_rank"] * one["seconds"] * 1e12 / (pairs * products * 2 * 16), 1, 6)

    def test_bench_of_one_rank(self):
        """Of one rank the slowest one is that rank."""
        for r in json.loads(self.ga("bench", "-n", "1", "--tokens", "64", "--runs", "2", "--json"))["rows"]:
            self.assertGreater(r["seconds_least"], 0, r)

    def test_reduce(self):
        """Sums are checked inside; on CPUs there are no graphs, and so no times."""
        for transport, ranks, dtype in (("threads", 3, "bf16"), ("processes", 2, "f16"), ("threads", 9, "f32")):
            out = json.loads(self.ga("reduce", "--transport", transport, "-n", str(ranks), "--type", dtype, "--bytes",
                                     "16,8192,16384,40000", "--json"))
            self.assertEqual((out["ranks"], out["type"], out["calls"]), (ranks, dtype, 64))
            self.assertEqual([r["bytes"] for r in out["rows"]], [16, 8192, 16384, 40000])
            self.assertEqual([r["rows"] for r in out["rows"]], [0, 0, 1, 0] if dtype == "f32" else [0, 1, 2, 0])
            self.assertTrue(all(r["us"] is None and r["us_norm"] is None for r in out["rows"]))
        self.assertIn("with the same bits on all ranks", self.ga("reduce", "-n", "2", "--bytes", "64"))

    def test_links(self):
        """A table, and a file of rates that simulate takes."""
        for transport, ranks in (("threads", 3), ("processes", 2)):
            out = json.loads(self.ga("links", "--transport", transport, "-n", str(ranks), "--bytes", "1,70000", "--runs", "2", "--json"))
            self.assertEqual((out["ranks"], out["transport"], out["copies"], out["rounds"]), (ranks, transport, "", 2))
            self.assertEqual([r["bytes"] for r in out["rows"]], [1, 70000])
            for r in out["rows"]:
                self.assertAlmostEqual(r["gbytes"] * r["us"] * 1e3 / r["bytes"], 1, 6)
            self.assertEqual(out["rates"]["link"], [[r["bytes"], r["gbytes"]] for r in out["rows"]])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rates of links.json")
            for gbytes in (1, 100):
                with open(path, "w") as f:
                    json.dump({**out, "rates": {"link": [[1, gbytes], [1e9, gbytes]]}}, f)
                times = json.loads(self.ga("simulate", "--json", "--rates", path, "--latency", "0"))
                slow = times["seconds"] if gbytes == 1 else slow
            self.assertLess(times["seconds"], slow)
        self.assertRegex(self.ga("links", "-n", "2", "--bytes", "64", "--runs", "1"), r"all at once \(threads, cpu\)\n.*\n *bytes +us +GB/s\n +64 ")

    def test_bench_of_all(self):
        """Methods that do not fit are left out, and named: heads cannot be split nine ways."""
        shape = ("--tokens", "90", "--head-dim", "16", "-n", "9", "--runs", "1", "--timeout", "60")
        env = {k: v for k, v in os.environ.items() if not k.startswith("GA_")}
        p = subprocess.run([GA, "dist", "bench", "-m", "all", "--json", *shape], capture_output=True, text=True, env=env)
        self.assertEqual(p.returncode, 0, p.stderr)
        found = [r["method"] for r in json.loads(p.stdout)["rows"]]
        self.assertIn("zigzag", found)
        self.assertNotIn("ulysses", found)
        self.assertIn("without ulysses: dist ulysses: 9 groups of heads", p.stderr)


if __name__ == "__main__":
    unittest.main()
