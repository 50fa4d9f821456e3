#!/usr/bin/env python3
"""ga dist run over emulated GPUs: whichever way blocks go from one to another, the bits are the same; GPUs that do not reach each
other take another way, and say so in one line.
usage: dist_ways.py GA_EMU"""
import json
import os
import subprocess
import sys
import unittest

GA = os.path.abspath(sys.argv.pop(1))
SIZE = ("--type", "bf16", "--tokens", "130", "--heads", "2", "--kv-heads", "2", "--timeout", "60")
DEVICES = "emu:0,emu:1,emu:2,emu:3"


class Ways(unittest.TestCase):
    @staticmethod
    def ga(*args, emu="", variables=None):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("GA_", "OMPI_", "PMIX_", "SLURM_"))}
        env.update(variables or {}, GA_EMU="devices=4" + emu)
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
                got, text = self.run_(*args, "--copies", "host", "--transport", transport)
                self.assertEqual((got["copies"], got["bits"], got["sent_bytes"], text),
                                 ("host", want["bits"], want["sent_bytes"], ""), args)

    def test_fallback(self):
        """By themselves, with one line; asked for, an error."""
        args = ("-n", "2", "-m", "llama3")
        for emu, variables, why in ((",nopeers", {}, "rank 0: emu:0: shared memory: cuMemSetAccess: "),
                                    (",noshare", {}, "rank 0: emu:0: its memory cannot be shared with other devices"),
                                    ("", {"GA_PEER": "off"}, "rank 0: emu:0: maps no memory of others: GA_PEER is off")):
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

    def test_bad_words(self):
        code, _, text = self.ga("run", "--copies", "tcp")
        self.assertEqual((code, "--copies 'tcp': must be auto, peer or host" in text), (2, True), text)
        code, _, text = self.ga("run", "-n", "2", "-m", "ring", "--device", DEVICES, *SIZE, variables={"GA_DIST_COPIES": "tcp"})
        self.assertEqual((code, "GA_DIST_COPIES is 'tcp'; allowed: auto, peer, host" in text), (1, True), text)


if __name__ == "__main__":
    unittest.main()
