#!/usr/bin/env python3
"""ga dist run over processes: its own, a launcher's, and those of mpirun; the bits are those of threads.
Usage: program_dist_ranks.py GA MPI_RANK"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

GA = os.path.abspath(sys.argv.pop(1))
MPI_RANK = os.path.abspath(sys.argv.pop(1))


class Ranks(unittest.TestCase):
    @staticmethod
    def ga(*args, rc=0):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("GA_", "OMPI_", "PMIX_", "SLURM_"))}
        p = subprocess.run([GA, "dist", *args], capture_output=True, text=True, env=env, timeout=200)
        assert p.returncode == rc, f"{args}: {p.returncode}: {p.stderr}"
        return p.stdout if rc == 0 else p.stderr

    def run_as(self, ranks, args, variables):
        """Ranks as a launcher starts them: variables(rank) is what it sets."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("GA_", "OMPI_", "PMIX_", "SLURM_"))}
        started = [subprocess.Popen([GA, "dist", "run", "--json", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                    text=True, env={**clean, **variables(r)}) for r in range(ranks)]
        return [(*p.communicate(timeout=100), p.returncode) for p in started]

    def test_processes(self):
        """The same bits from threads, from processes, and from processes that a launcher starts."""
        for args in (("-m", "zigzag", "-n", "2", "--tokens", "200,31"),
                     ("-m", "mesh", "-n", "4", "--tokens", "150", "--backward", "--type", "bf16")):
            size = ("--json", "--timeout", "60", *args)
            threads, processes = (json.loads(self.ga("run", "--transport", t, *size)) for t in ("threads", "processes"))
            self.assertEqual((threads["bits"], threads["sent_bytes"]), (processes["bits"], processes["sent_bytes"]))
        run = f"test-{os.getpid()}"
        found = self.run_as(2, ("--transport", "processes", "--timeout", "60", "--tokens", "200,31"),
                            lambda r: {"RANK": str(r), "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": run})
        self.assertEqual([f[2] for f in found], [0, 0], found)
        self.assertEqual(json.loads(found[0][0])["ranks"], 2)
        self.assertEqual(found[1][0], "")
        for variables, said in (({"RANK": "0", "WORLD_SIZE": "1", "SLURM_PROCID": "0", "SLURM_NTASKS": "1"},
                                 "RANK and WORLD_SIZE are set by torchrun, SLURM_PROCID and SLURM_NTASKS by srun"),
                                ({"RANK": "0", "WORLD_SIZE": "3"}, "--ranks 2: torchrun has started 3")):
            [(_, text, code)] = self.run_as(1, ("--transport", "processes", "-n", "2"), lambda r: variables)
            self.assertEqual(code, 2)
            self.assertIn(said, text)

    def test_interrupted(self):
        """One Ctrl-C ends a run, on a terminal that tells all processes and by `kill -INT` of the first one."""
        for transport in ("threads", "processes"):
            for everybody in (True, False):
                p = subprocess.Popen([GA, "dist", "run", "-n", "2", "--tokens", "2000", "--runs", "1000000", "--timeout", "60", "--transport", transport],
                                     start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                     preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
                time.sleep(1.5)
                self.assertIsNone(p.poll(), "it has ended before")
                (os.killpg if everybody else os.kill)(p.pid, signal.SIGINT)
                try:
                    out, text = p.communicate(timeout=30)
                finally:
                    if p.poll() is None:
                        os.killpg(p.pid, signal.SIGKILL)
                self.assertEqual((p.returncode, out), (130, ""), text)
                self.assertIn("stopped", text)

    @staticmethod
    def mpirun(ranks, *command):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("GA_", "OMPI_", "PMIX_", "SLURM_"))}
        env.update(ASAN_OPTIONS="detect_leaks=0", TSAN_OPTIONS="report_bugs=0")  # OpenMPI's own
        return subprocess.run(["mpirun", "--oversubscribe", "--allow-run-as-root", "--mca",
                               "btl_vader_single_copy_mechanism", "none", "-n", str(ranks), *command],
                              capture_output=True, text=True, env=env, timeout=200)

    def test_mpi_harm(self):
        """Ranks under mpirun that disagree, give up, or say nothing; and a program with MPI of its own."""
        if not shutil.which("mpirun"):
            self.skipTest("no mpirun here (package openmpi-bin)")
        p = self.mpirun(2, MPI_RANK, "lengths")
        self.assertNotEqual(p.returncode, 0)
        said = sorted(line for line in p.stdout.splitlines() if line.startswith("rank "))
        self.assertEqual(len(said), 2, p.stdout + p.stderr)
        for rank, line in enumerate(said):
            self.assertRegex(line, rf"^rank {rank}: status [1-9].*rank (0|1) sent (4 bytes|more than the 4 bytes)")
        p = self.mpirun(2, MPI_RANK, "aborted")
        self.assertEqual(p.stdout.count("a test"), 2, p.stdout + p.stderr)
        self.assertNotIn("ends the MPI run", p.stderr)
        p = self.mpirun(2, MPI_RANK, "silent")
        self.assertNotEqual(p.returncode, 0)
        self.assertRegex(p.stderr, r"comm: rank 0 waited 2 s for rank 1.*; rank 0 ends the MPI run: .* 1 sends are")
        p = self.mpirun(2, MPI_RANK, "foreign")
        self.assertEqual(p.returncode, 0, p.stdout + p.stderr)

    def test_mpi(self):
        """The same bits under mpirun."""
        if not shutil.which("mpirun"):
            self.skipTest("no mpirun here (package openmpi-bin)")
        for ranks, args in ((2, ("-m", "zigzag", "--tokens", "200,31")),
                            (4, ("-m", "usp", "--tokens", "150", "--backward", "--type", "bf16", "--buffered")),
                            (8, ("-m", "balanced", "--tokens", "130,7,90"))):
            size = ("--json", "--timeout", "60", *args)
            threads = json.loads(self.ga("run", "-n", str(ranks), *size))
            p = self.mpirun(ranks, GA, "dist", "run", "--transport", "mpi", *size)
            self.assertEqual(p.returncode, 0, p.stderr)
            self.assertEqual(json.loads(p.stdout)["bits"], threads["bits"])
        with tempfile.TemporaryDirectory() as folder:
            for path, said in ((f"{folder}/t.json", ""), (f"{folder}/none/t.json", "none/t.json: No such file")):
                p = self.mpirun(2, GA, "dist", "run", "--transport", "mpi", "--tokens", "200", "--timeout", "60", "--timeline", path)
                self.assertEqual(p.returncode != 0, bool(said), p.stderr)
                self.assertIn(said, p.stderr)
            self.assertEqual(os.listdir(folder), ["t.json"])
            with open(f"{folder}/t.json", encoding="utf-8") as f:
                self.assertEqual({e["pid"] for e in json.load(f)["traceEvents"]}, {0, 1})
        # In a contiguous ring rank 1 has three times the work of rank 0, which waits for it.
        p = self.mpirun(2, GA, "dist", "run", "-m", "ring", "--transport", "mpi", "--timeout", "0.01", "--tokens", "6000")
        self.assertNotEqual(p.returncode, 0)
        self.assertIn("waited 0.01 s", p.stderr)

    def test_one_line(self):
        """Whatever a rank dies of, the launcher says one line."""
        text = self.ga("run", "--transport", "processes", "-n", "3", "--timeout", "0.01", "--tokens", "6000", rc=1)
        self.assertEqual(len(text.splitlines()), 1, text)
        self.assertRegex(text, r"comm: rank \d waited 0.01 s")

    def test_status_under_ignored_signals(self):
        """A program that ignores the ends of its children passes that on; a failed run stays one."""
        p = subprocess.run([GA, "dist", "run", "--transport", "processes", "-n", "3", "--timeout", "0.01", "--tokens",
                            "6000"], capture_output=True, text=True, timeout=100,
                           preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertEqual((p.returncode, p.stdout), (1, ""), p.stderr)
        self.assertRegex(p.stderr, r"comm: rank \d waited 0.01 s")

    @staticmethod
    def pid_of_rank(launcher, rank):
        """Once the launcher has started it; before that its variables are the launcher's."""
        mine = f"GA_RANK={rank}".encode()
        for _ in range(6000):
            with open(f"/proc/{launcher}/task/{launcher}/children", encoding="ascii") as f:
                children = f.read().split()
            for pid in children:
                with open(f"/proc/{pid}/environ", "rb") as f:
                    if mine in f.read().split(b"\0"):
                        return int(pid)
            time.sleep(0.01)
        raise AssertionError(f"rank {rank} does not start")

    @staticmethod
    def wait_until_it_computes(pid):
        """Half a second of processor time: ranks have met by then."""
        for _ in range(6000):
            with open(f"/proc/{pid}/stat", encoding="ascii") as f:
                ticks = sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13]))
            if ticks > os.sysconf("SC_CLK_TCK") / 2:
                return
            time.sleep(0.01)
        raise AssertionError(f"process {pid} does not compute")

    def test_killed_at_its_start(self):
        """The rank that a signal ended is named, and the others do not wait for it. Whole runs take minutes."""
        p = subprocess.Popen([GA, "dist", "run", "--transport", "processes", "-n", "4", "--tokens", "60000"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        os.kill(self.pid_of_rank(p.pid, 1), signal.SIGKILL)
        begin = time.monotonic()
        out, text = p.communicate(timeout=100)
        self.assertEqual((p.returncode, out, text), (1, "", "ga dist: rank 1 was ended by signal 9 (Killed)\n"))
        self.assertLess(time.monotonic() - begin, 5)

    def test_stopped(self):
        """The others hear of it after 3 s, and nobody waits for the rank itself."""
        with subprocess.Popen([GA, "dist", "bench", "--transport", "processes", "-n", "3", "--tokens", "2048", "--runs", "100000"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as p:
            rank = self.pid_of_rank(p.pid, 1)
            self.wait_until_it_computes(rank)
            os.kill(rank, signal.SIGSTOP)
            begin = time.monotonic()
            out, text = p.communicate(timeout=60)
        self.assertEqual((p.returncode, out), (1, ""), text)
        self.assertRegex(text, rf"stands still \(process {rank}\): no sign of life for 3 s")
        self.assertLess(time.monotonic() - begin, 8)

    def test_stopped_at_its_end(self):
        """A rank that is stopped after it has left: no watchdog looks at it any more."""
        if not shutil.which("cc"):
            self.skipTest("no C compiler here")
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/stop.c", "w", encoding="ascii") as f:
                f.write("#include <signal.h>\n#include <stdlib.h>\n__attribute__((destructor)) static void stop(void)"
                        "{const char *r = getenv(\"GA_RANK\"); if (r && *r == '2') (void)raise(SIGSTOP);}\n")
            subprocess.run(["cc", "-shared", "-fPIC", "-o", f"{folder}/stop.so", f"{folder}/stop.c"], check=True)
            env = {**os.environ, "LD_PRELOAD": f"{folder}/stop.so", "ASAN_OPTIONS": "verify_asan_link_order=0"}
            p = subprocess.run([GA, "dist", "run", "--transport", "processes", "-n", "4", "--tokens", "256",
                                "--timeout", "60"], capture_output=True, text=True, timeout=100, env=env)
        self.assertEqual(p.returncode, 1, p.stdout)
        self.assertRegex(p.stderr, r"^ga dist: rank 2 was killed: it had not ended 20 s after rank \d was done\n$")


if __name__ == "__main__":
    unittest.main()
