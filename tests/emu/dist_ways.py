#!/usr/bin/env python3
"""ga dist run over emulated GPUs: whichever way blocks go from one to another, the bits are the same; GPUs that do not reach each
other take another way, and say so in one line. NCCL is the stand-in of tests/nccl.
usage: dist_ways.py GA_EMU NCCL NCCL_WITHOUT_SEND"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from trace_rig import read_spans  # noqa: E402

GA, NCCL, BROKEN = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))
SIZE = ("--type", "bf16", "--tokens", "130", "--heads", "2", "--kv-heads", "2", "--timeout", "60")
FOUND_BY_THE_SYSTEM = "libnccl.so.2" in subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
DEVICES = "emu:0,emu:1,emu:2,emu:3"


class Ways(unittest.TestCase):
    @staticmethod
    def ga(*args, emu="", variables=None):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("GA_", "OMPI_", "PMIX_", "SLURM_"))}
        env.update({"GA_NCCL": NCCL, **(variables or {})}, GA_EMU="devices=4" + emu)
        p = subprocess.run([GA, "dist", *args], capture_output=True, text=True, env=env, timeout=300)
        return p.returncode, p.stdout, p.stderr

    def run_(self, *args, **kw):
        code, out, text = self.ga("run", "--json", "--device", DEVICES, *SIZE, *args, **kw)
        self.assertEqual(code, 0, text)
        return json.loads(out), text

    def test_same_bits(self):
        """Forced ways, threads and processes, 2 and 4 devices, gathered keys and a ring."""
        for args in (("-n", "2", "-m", "llama3"), ("-n", "4", "-m", "llama3", "--backward"), ("-n", "2", "-m", "zigzag", "--backward"),
                     ("-n", "4", "-m", "zigzag")):
            want, _ = self.run_(*args, "--copies", "peer")
            self.assertEqual(want["copies"], "peer")
            for transport in ("threads", "processes"):
                for copies in ("host", "nccl"):
                    got, text = self.run_(*args, "--copies", copies, "--transport", transport)
                    self.assertEqual((got["copies"], got["bits"], got["sent_bytes"], text),
                                     (copies, want["bits"], want["sent_bytes"], ""), args)

    def test_page_locked(self):
        """Ranks of a host share page-locked memory; where they cannot, processors copy. The same bits."""
        args = ("-n", "3", "-m", "zigzag", "--backward", "--copies", "host", "--transport", "processes")
        want, text = self.run_(*args, variables={"GA_LOG": "info"})
        self.assertNotIn("processors copy", text)
        got, text = self.run_(*args, emu=",nopin", variables={"GA_LOG": "info"})
        self.assertEqual((got["copies"], got["bits"]), ("host", want["bits"]))
        self.assertIn("no page-locked memory that ranks share (rank 0: emu:0: ", text)
        self.assertIn("cuMemHostRegister", text)

    def test_fallback(self):
        """By themselves, with one line; asked for, an error."""
        args = ("-n", "2", "-m", "llama3")
        for emu, variables, why in ((",nopeers", {}, "rank 0: emu:0: shared memory: cuMemSetAccess: "),
                                    (",noshare", {}, "rank 0: emu:0: its memory cannot be shared with other devices"),
                                    ("", {"GA_PEER": "off"}, "rank 0: GA_PEER is off")):
            for transport in ("threads", "processes"):
                with self.subTest(why=why, transport=transport):
                    how = (*args, "--transport", transport)
                    got, text = self.run_(*how, emu=emu, variables=variables)
                    self.assertEqual(got["copies"], "host")
                    self.assertEqual(text.count("\n"), 1, text)
                    self.assertIn("ga: warn: dist: the devices do not write into each other's memory (" + why, text)
                    self.assertTrue(text.endswith("): blocks go through host memory\n"), text)
                    code, _, text = self.ga("run", "--device", DEVICES, *SIZE, *how, "--copies", "peer", emu=emu, variables=variables)
                    self.assertEqual(code, 1, text)
                    self.assertEqual(text.count("\n"), 1, text)
                    self.assertIn("dist: the devices do not write into each other's memory: " + why, text)

    MPIRUN = ("mpirun", "--oversubscribe", "--allow-run-as-root", "--mca", "btl_vader_single_copy_mechanism", "none")

    def mpi(self, *args, emu="", other_host=False):
        """Two ranks; the second as if on a host of its own."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("GA_", "OMPI_", "PMIX_", "SLURM_"))}
        env.update(GA_EMU="devices=4" + emu, GA_NCCL=NCCL)
        rank = (GA, "dist", "run", "--json", "--transport", "mpi", "--device", DEVICES, *SIZE, *args)
        second = ("unshare", "--uts", "sh", "-c", 'hostname other && exec "$@"', "sh") if other_host else ()
        p = subprocess.run([*self.MPIRUN, "-n", "1", *rank, ":", "-n", "1", *second, *rank], capture_output=True, text=True,
                           env=env, timeout=300)
        self.assertEqual(p.returncode, 0, p.stderr)
        return json.loads(p.stdout), p.stderr

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun")
    def test_mpi(self):
        """Peer copies on one host, host copies else, with the same bits as threads."""
        for args in (("-m", "llama3", "--backward"), ("-m", "zigzag")):
            want, _ = self.run_("-n", "2", *args)
            for more, emu, copies, why in ((), "", "peer", None), ((), ",nopeers", "host", "cuMemSetAccess"), (("--copies", "nccl"), "", "nccl", None):
                got, text = self.mpi(*args, *more, emu=emu)
                self.assertEqual((got["copies"], got["bits"], got["sent_bytes"]), (copies, want["bits"], want["sent_bytes"]), text)
                self.assertEqual(text.count("blocks go through host memory"), 1 if why else 0, text)
                self.assertIn(why or "", text)

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun")
    @unittest.skipIf(subprocess.run(["unshare", "--uts", "true"], capture_output=True, check=False).returncode, "unshare is not allowed")
    def test_hosts(self):
        got, text = self.mpi("-m", "llama3", other_host=True)
        self.assertEqual(got["copies"], "host")
        self.assertIn("(rank 0: comm: rank 1 is on another host than rank 0): blocks go through host memory", text)

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun")
    @unittest.skipIf(subprocess.run(["unshare", "--uts", "--mount", "true"], capture_output=True, check=False).returncode, "unshare is not allowed")
    def test_hosts_of_sandboxes(self):
        """Where no boot id is to be read, GPUs of one name on two hosts are two GPUs."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("GA_", "OMPI_", "PMIX_", "SLURM_"))}
        env.update(GA_EMU="devices=4", GA_NCCL=NCCL)
        ranks = []
        for name in ("one", "two"):
            hide = f'mount --bind /dev/null /proc/sys/kernel/random/boot_id && hostname {name} && exec "$@"'
            ranks += [":"] * bool(ranks) + ["-n", "1", "unshare", "--uts", "--mount", "sh", "-c", hide, "sh", GA, "dist", "run", "--json", "--transport", "mpi",
                                            "--device", "emu:0", *SIZE, "-m", "ring", "--copies", "nccl"]
        p = subprocess.run([*self.MPIRUN, *ranks], capture_output=True, text=True, env=env, timeout=300)
        self.assertEqual((p.returncode, json.loads(p.stdout or "{}").get("copies")), (0, "nccl"), p.stderr)

    @staticmethod
    def children(pid):
        """Of a process, and theirs: those that are ranks."""
        found = []
        for child in subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout.split():
            try:
                if os.path.samefile(f"/proc/{child}/exe", GA):
                    found.append(int(child))
            except OSError:  # it has ended
                pass
            found += Ways.children(child)
        return found

    def test_killed(self):
        """A rank is killed in the middle: all have ended within 5 s."""
        ways = [("processes", "host"), ("processes", "nccl")] + ([("mpi", "host"), ("mpi", "peer"), ("mpi", "nccl")] if shutil.which("mpirun") else [])
        env = {k: v for k, v in os.environ.items() if not k.startswith(("GA_", "OMPI_", "PMIX_", "SLURM_"))}
        env.update(GA_EMU="devices=4", GA_NCCL=NCCL)
        for transport, copies in ways:
            with self.subTest(transport=transport, copies=copies):
                command = [GA, "dist", "run", "-m", "zigzag", "--transport", transport, "--copies", copies, "--device", DEVICES, *SIZE,
                           "--runs", "1000000"]
                command = [*self.MPIRUN, "-n", "2", *command] if transport == "mpi" else [*command, "-n", "2"]
                p = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                try:
                    ranks, deadline = [], time.monotonic() + 60
                    while len(ranks) < 2 and time.monotonic() < deadline:
                        time.sleep(0.2)
                        ranks = self.children(p.pid)
                    time.sleep(2)  # so that they have met, and run
                    self.assertIsNone(p.poll(), "it has ended before")
                    self.assertEqual(len(ranks), 2)
                    begin = time.monotonic()
                    os.kill(ranks[1], signal.SIGKILL)
                    _, text = p.communicate(timeout=30)
                    self.assertLess(time.monotonic() - begin, 5, text)
                    self.assertNotEqual(p.returncode, 0)
                    self.assertRegex(text, "rank 1 was ended by signal 9|exited on signal 9", text)
                finally:
                    p.kill()
                    p.communicate()

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun")
    def test_other_launcher(self):
        code, _, text = self.ga("run", "--transport", "mpi", "--device", DEVICES, *SIZE, variables={"RANK": "0", "WORLD_SIZE": "2"})
        self.assertEqual(code, 1, text)
        self.assertIn("torchrun has started 2 ranks, of which MPI sees 1; start them by mpirun", text)

    def test_nccl_is_found(self):
        """By the search path of libraries, too."""
        got, _ = self.run_("-n", "2", "-m", "ring", "--copies", "nccl", variables={"GA_NCCL": "", "LD_LIBRARY_PATH": os.path.dirname(NCCL)})
        self.assertEqual(got["copies"], "nccl")

    def test_no_nccl(self):
        """What is missing, and where it was looked for: one line for all ranks."""
        for variables, said in (({"GA_NCCL": "/nowhere/libnccl.so.2"}, "rank 0: no NCCL: GA_NCCL=/nowhere/libnccl.so.2 cannot be loaded (/nowhere"),
                                ({"GA_NCCL": "", "LD_LIBRARY_PATH": "/nowhere"}, "; GA_NCCL may name the file"),
                                ({"GA_NCCL": BROKEN}, f"rank 0: {BROKEN} has no function ncclSend"),
                                ({"GA_STAND_IN": "version=2804"}, f"rank 0: {NCCL} is NCCL 2.8.4; allowed: 2.17 and newer, below 3"),
                                ({"GA_STAND_IN": "version=21602"}, f"rank 0: {NCCL} is NCCL 2.16.2; allowed: 2.17 and newer, below 3"),
                                ({"GA_STAND_IN": "version=30000"}, f"rank 0: {NCCL} is NCCL 3.0.0; allowed: 2.17 and newer, below 3")):
            if not variables.get("GA_NCCL", NCCL) and FOUND_BY_THE_SYSTEM:
                continue
            for transport in ("threads", "processes"):
                with self.subTest(variables=variables, transport=transport):
                    code, _, text = self.ga("run", "--device", DEVICES, *SIZE, "-n", "2", "--copies", "nccl", "--transport", transport,
                                            variables=variables)
                    self.assertEqual((code, text.count("\n")), (1, 1), text)
                    self.assertIn(said, text)

    def test_one_device(self):
        """NCCL refuses two ranks on one GPU, or waits: they are told before. Other ways take it."""
        for transport in ("threads", "processes"):
            how = ("run", "--device", "emu:1", *SIZE, "-n", "2", "-m", "ring", "--transport", transport, "--copies")
            code, _, text = self.ga(*how, "nccl")
            self.assertEqual((code, text.count("\n")), (1, 1), text)
            self.assertIn("ranks 0 and 1 are on one device (none-1); nccl wants one for each rank", text)
            self.assertEqual(self.ga(*how, "host")[0], 0)

    def test_nccl_multicast(self):
        """It is off, which the stand-in wants, where the caller has not asked for it."""
        self.run_("-n", "2", "-m", "ring", "--copies", "nccl")
        code, _, text = self.ga("run", "-n", "2", "-m", "ring", "--device", DEVICES, *SIZE, "--copies", "nccl", variables={"NCCL_NVLS_ENABLE": "1"})
        self.assertEqual(code, 1, text)
        self.assertIn("NCCL_NVLS_ENABLE is not 0", text)

    def timeline(self, *args, emu=""):
        """The run's JSON, and spans of each rank and stream in the order of their beginnings."""
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/t.json"
            found = self.run_("--timeline", path, *args, emu=emu)[0]
            self.assertEqual(os.listdir(folder), ["t.json"])
            return found, *read_spans(self, path)

    def test_timeline(self):
        """Spans of gathered keys, group by group, and of a ring; each way, threads and processes."""
        for method, streams in (("llama3", {"compute", "second", "local", "copies"}), ("zigzag", {"compute", "copies"})):
            for copies, transport, cat, emu in (("peer", "threads", "push", ""), ("host", "processes", "exchange", ""), ("nccl", "threads", "exchange", ""),
                                                ("peer", "processes", "push", ",graphs")):  # its last three runs are a graph
                args = ("-n", "2", "-m", method, "--groups", "2", "--backward", "--copies", copies, "--transport", transport, "--runs", "3" if emu else "1")
                with self.subTest(args=args):
                    want, _ = self.run_(*args)
                    found, spans, names = self.timeline(*args, emu=emu)
                    self.assertEqual((found["bits"], found["sent_bytes"]), (want["bits"], want["sent_bytes"]))
                    self.assertEqual(names, {(r, s) for r in range(2) for s in streams})
                    events = [e for stream in spans.values() for e in stream]
                    self.assertEqual({e["cat"] for e in events if e["args"]["bytes"]}, {cat})
                    self.assertEqual(sum(e["args"]["bytes"] for e in events), want["sent_bytes"])
                    for rank in range(2):
                        groups = {e["args"]["group"] for e in events if e["pid"] == rank and e["cat"] == "attention"}
                        self.assertEqual(groups, {0, 1} if method == "llama3" else {-1})
                        if copies == "peer":
                            self.assertIn(f"wait for rank {1 - rank} (KV)", {e["name"] for e in events if e["pid"] == rank})
                    for told in found["timeline"]["ranks"]:
                        self.assertGreater(min(told["attention"], told["communication"], told["no_attention"]), 0)
                        self.assertAlmostEqual(told["overlapped"] + told["exposed"], told["communication"], 9)

    def test_bad_words(self):
        code, _, text = self.ga("run", "--copies", "tcp")
        self.assertEqual((code, "--copies 'tcp': must be auto, peer, host or nccl" in text), (2, True), text)
        code, _, text = self.ga("run", "-n", "2", "-m", "ring", "--device", DEVICES, *SIZE, variables={"GA_DIST_COPIES": "tcp"})
        self.assertEqual(code, 1, text)
        self.assertRegex(text, "dist: GA_DIST_COPIES is 'tcp'; allowed on emu:[01]: auto, peer, host, nccl")

    def started_ranks(self, *variables):
        """As a launcher starts them, each with variables of its own: what each says."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("GA_", "OMPI_", "PMIX_", "SLURM_"))}
        started = [subprocess.Popen([GA, "dist", "run", "-m", "ring", "--transport", "processes", "--device", DEVICES, *SIZE],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                    env={**clean, "GA_EMU": "devices=4", "GA_NCCL": NCCL, "RANK": str(r), "WORLD_SIZE": str(len(variables)),
                                         "TORCHELASTIC_RUN_ID": f"ways-{os.getpid()}", **v}) for r, v in enumerate(variables)]
        texts = [p.communicate(timeout=100)[1] for p in started]
        self.assertEqual([p.returncode for p in started], [1] * len(started), texts)
        return texts

    def test_ranks_differ(self):
        """A clear line on each of them."""
        for text in self.started_ranks({"GA_DIST_COPIES": "peer"}, {"GA_DIST_COPIES": "host"}):
            self.assertIn("the kind of copies (--copies, GA_DIST_COPIES) is host on rank 1 and peer on rank 0; all ranks must have the same", text)
        nccl = {"GA_DIST_COPIES": "nccl"}
        for text in self.started_ranks(nccl, nccl, {**nccl, "GA_STAND_IN": "version=22707"}):
            self.assertIn("the version of nccl is 2.27.7 on rank 2 and 2.28.3 on rank 0; all ranks must have the same", text)
        for text in self.started_ranks(nccl, {**nccl, "GA_NCCL": "/nowhere"}):
            self.assertIn("rank 1: no NCCL: GA_NCCL=/nowhere cannot be loaded", text)
        code, _, text = self.ga("run", "--transport", "processes", "--device", DEVICES, *SIZE,
                                variables={"RANK": "0", "WORLD_SIZE": "2", "SLURM_PROCID": "0", "SLURM_NTASKS": "2"})
        self.assertEqual(code, 2, text)
        self.assertIn("RANK and WORLD_SIZE are set by torchrun, SLURM_PROCID and SLURM_NTASKS by srun", text)

    def test_links(self):
        """Blocks are compared inside; each way, threads and processes."""
        for copies, transport, emu in (("peer", "threads", ""), ("peer", "processes", ""), ("host", "processes", ""), ("nccl", "threads", ""),
                                       ("host", "threads", ",nopeers")):
            asked = () if emu else ("--copies", copies)
            code, out, text = self.ga("links", "--json", "-n", "3", "--device", DEVICES, "--bytes", "100,70000", "--runs", "1", "--timeout", "60",
                                      "--transport", transport, *asked, emu=emu)
            self.assertEqual(code, 0, text)
            self.assertEqual(json.loads(out)["copies"], copies)
            self.assertTrue(all(r["us"] > 0 for r in json.loads(out)["rows"]), out)
            self.assertIn("blocks go through host memory" if emu else "", text)

    def test_bench(self):
        """Each method by each way, in one table; and what auto is."""
        def bench(*copies, **kw):
            code, out, text = self.ga("bench", "-m", "ring,llama3", "-n", "2", "--device", DEVICES, *SIZE, "--runs", "1", "--json", *copies, **kw)
            self.assertEqual(code, 0, text)
            return [(r["method"], r["copies"]) for r in json.loads(out)["rows"]]
        self.assertEqual(bench("--copies", "peer,host,nccl"), [("one device", "")] + [(m, c) for m in ("ring", "llama3") for c in ("peer", "host", "nccl")])
        self.assertEqual(bench(emu=",nopeers"), [("one device", ""), ("ring", "host"), ("llama3", "host")])


if __name__ == "__main__":
    unittest.main()
