#!/usr/bin/env python3
"""The front door, with stand-ins for what it calls: `make install` after `make demo`, ldconfig, what `make demo` says.
Usage: makefile_test.py SOURCE"""
import os
import subprocess
import sys
import tempfile
import unittest

MAKEFILE = os.path.join(os.path.abspath(sys.argv.pop(1)), "Makefile")


class Makefile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ga-make-")
        self.addCleanup(folder.cleanup)
        self.dir, self.log = folder.name, os.path.join(folder.name, "log")
        for name in ("bin", "build-lean", "tools"):
            os.mkdir(os.path.join(self.dir, name))
        self.stand_in("bin/cmake")
        self.stand_in("bin/ldconfig")
        self.stand_in("tools/install_deps.sh")
        self.stand_in("build-lean/ga")
        self.user("0")

    def stand_in(self, name, text='echo "${0##*/} $*" >> "$LOG"'):
        path = os.path.join(self.dir, name)
        with open(path, "w") as f:
            f.write(f"#!/bin/sh\n{text}\n")
        os.chmod(path, 0o755)

    def user(self, number):
        self.stand_in("bin/id", "echo " + number)

    def make(self, *args):
        with open(self.log, "w"):
            pass
        env = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
        env |= {"PATH": os.path.join(self.dir, "bin") + ":" + env["PATH"], "LOG": self.log}
        r = subprocess.run(["make", "-f", MAKEFILE, "-C", self.dir, "--no-print-directory", *args], env=env, capture_output=True, text=True, timeout=60)
        self.assertEqual(r.returncode, 0, r.stderr)
        with open(self.log) as f:
            return r.stdout, f.read().splitlines()

    def test_install_after_demo(self):
        open(os.path.join(self.dir, "build-lean", "CMakeCache.txt"), "w").close()
        _, calls = self.make("install", "PREFIX=/opt/x")
        self.assertIn("cmake --install build-lean --prefix /opt/x", calls)
        self.assertNotIn("cmake --install build --prefix /opt/x", calls)
        self.assertEqual(calls[-1].strip(), "ldconfig")
        os.mkdir(os.path.join(self.dir, "build"))
        open(os.path.join(self.dir, "build", "CMakeCache.txt"), "w").close()
        _, calls = self.make("install")
        self.assertIn("cmake --install build --prefix /usr/local", calls)
        self.assertIn("cmake --build build -j", "\n".join(calls))

    def test_install_where_paths_have_spaces(self):
        self.stand_in("bin/cmake", 'for x; do printf "[%s]" "$x" >> "$LOG"; done; echo >> "$LOG"')
        for lean in (True, False):
            open(os.path.join(self.dir, "build-lean", "CMakeCache.txt"), "w").close()
            if not lean:
                os.remove(os.path.join(self.dir, "build-lean", "CMakeCache.txt"))
            _, calls = self.make("install", "PREFIX=/opt/my programs")
            self.assertIn(f"[--install][{'build-lean' if lean else 'build'}][--prefix][/opt/my programs]", calls)

    def test_ldconfig_is_for_root(self):
        self.user("1000")
        self.assertNotIn("ldconfig", "\n".join(self.make("install")[1]))
        self.user("0")
        self.assertNotIn("ldconfig", "\n".join(self.make("install", "DESTDIR=/tmp/x")[1]))

    def test_demo(self):
        out, calls = self.make("demo", "QUESTION=Why?")
        lines = out.splitlines()
        self.assertEqual(lines[0], "> Why?")
        self.assertEqual([word in line for word, line in zip(("ga chat", "ga serve", "ga pull"), lines[-3:])], [True] * 3)
        self.assertIn("ga run --temp 0 Why?", calls)
        out, calls = self.make("demo", 'QUESTION=What does "a `b` c" mean?')
        self.assertEqual(out.splitlines()[0], '> What does "a `b` c" mean?')
        self.assertIn('ga run --temp 0 What does "a `b` c" mean?', calls)

    def test_demo_into_a_pipe(self):
        """A few lines, not one for each file that is compiled; of a build that fails the last ones."""
        self.stand_in("bin/cmake", '[ "$1" != --build ] || seq -f "compiling %g" 600; echo "${0##*/} $*" >> "$LOG"')
        command = ["make", "-f", MAKEFILE, "-C", self.dir, "--no-print-directory", "demo"]
        env = {**os.environ, "PATH": os.path.join(self.dir, "bin") + ":" + os.environ["PATH"], "LOG": self.log}
        r = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        self.assertEqual(r.returncode, 0, r.stdout)
        self.assertLess(len(r.stdout.splitlines()), 12, r.stdout)
        with open(os.path.join(self.dir, "build-lean", "build.log")) as f:
            self.assertIn("compiling 600\n", f.read())
        self.stand_in("bin/cmake", '[ "$1" != --build ] || { seq -f "compiling %g" 600; echo "no such header"; exit 1; }')
        r = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        self.assertNotEqual(r.returncode, 0)
        self.assertIn("no such header", r.stdout)
        self.assertLess(len(r.stdout.splitlines()), 40)

    def test_skipped_tests_are_named_last(self):
        report = """<testsuite><testcase name="one" time="1" status="run"><system-out>OK (skipped=3)</system-out></testcase>
<testcase name="two" time="1" status="run"><system-out>[  PASSED  ] 4 test(s).
[  SKIPPED ] 2 test(s), listed below:</system-out></testcase>
<testcase name="three" time="0" status="notrun"><system-out>no Chromium here</system-out></testcase></testsuite>"""
        with open(os.path.join(self.dir, "report.xml"), "w") as f:
            f.write(report)
        self.stand_in("bin/ctest", f'while [ "$1" != --output-junit ]; do shift; done; cp {self.dir}/report.xml "$2"')
        with open(os.path.join(self.dir, "build-lean", "CMakeCache.txt"), "w") as f:
            f.write("GA_NVCC:FILEPATH=GA_NVCC-NOTFOUND\n")
        r = subprocess.run([sys.executable, os.path.join(os.path.dirname(MAKEFILE), "tools", "run_tests.py"), "build-lean", "quick"], cwd=self.dir, text=True,
                           env={**os.environ, "PATH": os.path.join(self.dir, "bin") + ":" + os.environ["PATH"], "LOG": self.log}, capture_output=True)
        self.assertEqual(r.returncode, 0, r.stderr)
        last = r.stdout.splitlines()[-1]
        self.assertTrue(last.startswith("left out: 4; images of CUDA kernels"), last)
        for word in ("3 of one", "2 of two", "three (no Chromium here)"):
            self.assertIn(word, last)


if __name__ == "__main__":
    unittest.main()
