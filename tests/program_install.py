#!/usr/bin/env python3
"""An installed GA, in a folder chosen at installation: the README's C example builds by pkg-config (shared and static) and by
find_package, and answers. Usage: program_install.py GA"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import tiny_gguf

GA = os.path.abspath(sys.argv.pop(1))
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
with open(GA, "rb") as f:
    SANITIZED = re.search(rb"__[at]san_", f.read()) is not None


def program():
    """The README's C, in a main() that lets the model speak."""
    with open(os.path.join(ROOT, "README.md")) as f:
        example = re.search(r"```c\n(.*?)```", f.read(), re.DOTALL)[1]
    include, body = example.split("\n", 1)
    body = re.sub("^(?=.)", "  ", body, flags=re.MULTILINE)
    return f"""#include <stdio.h>
{include}
static int show(void *user, int32_t id, const char *text, size_t bytes) {{
  (void)user, (void)id;
  return fwrite(text, 1, bytes, stdout) != bytes;
}}
int main(int argc, char **argv) {{
  const char *path = argv[argc - 1];
{body}
  ga_chat_message message = {{"user", "hello"}};
  ga_generate_options go = GA_GENERATE_OPTIONS_INIT;
  ga_generate_result result = GA_GENERATE_RESULT_INIT;
  int32_t *ids;
  size_t n;
  go.max_tokens = 5;
  go.ignore_eog = true;
  go.text = show;
  if (ga_chat_encode(ga_model_template(model), ga_model_tokenizer(model), &message, 1, NULL, &ids, &n) ||
      ga_generate(session, ids, (int32_t)n, &go, &result))
    return 1;
  printf("%d tokens\\n", result.n_generated);
  ga_chat_ids_free(ids);
  ga_session_destroy(session);
  ga_model_destroy(model);
  ga_ctx_destroy(ctx);
  return 0;
}}
"""


CMAKE = """cmake_minimum_required(VERSION 3.25)
project(example LANGUAGES C)
find_package(ga REQUIRED)
add_executable(shared example.c)
target_link_libraries(shared ga::ga)
add_executable(static example.c)
target_link_libraries(static ga::static)
"""


@unittest.skipIf(SANITIZED, "sanitized libraries link with sanitized programs only")
class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="ga-install-")
        cls.prefix = cls.put("prefix", None)
        cls.source = cls.put("example.c", program().encode())
        cls.put("CMakeLists.txt", CMAKE.encode())
        cls.model = cls.put("tiny.gguf", tiny_gguf.build())
        cls.run_in(["cmake", "--install", os.path.dirname(GA), "--prefix", cls.prefix])

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def put(cls, name, raw):
        path = os.path.join(cls.folder.name, name)
        if raw is not None:
            with open(path, "wb") as f:
                f.write(raw)
        return path

    @classmethod
    def run_in(cls, argv, **env):
        r = subprocess.run(argv, cwd=cls.folder.name, capture_output=True, text=True, timeout=300, env={**os.environ, **env})
        if r.returncode:
            raise AssertionError(f"{argv}: {r.stdout}{r.stderr}")
        return r.stdout

    def lib(self):
        return next(d for d, _, names in os.walk(self.prefix) if "ga.pc" in names)

    def check(self, binary):
        out = self.run_in([binary, self.model], LD_LIBRARY_PATH=os.path.dirname(self.lib()))
        self.assertTrue(out.endswith("5 tokens\n"), out)

    def test_pkg_config(self):
        env = {"PKG_CONFIG_PATH": self.lib()}
        for kind, options in (("shared", []), ("static", ["--static"])):
            flags = self.run_in(["pkg-config", "--cflags", "--libs", *options, "ga"], **env).split()
            if options:
                flags = [os.path.join(os.path.dirname(self.lib()), "libga.a") if f == "-lga" else f for f in flags]
            binary = os.path.join(self.folder.name, kind)
            self.run_in([os.environ.get("CC", "cc"), "-std=c11", "-Wall", "-Wextra", "-Werror", self.source, "-o", binary, *flags])
            self.check(binary)

    def test_find_package(self):
        self.run_in(["cmake", "-G", "Ninja", "-B", "out", f"-DCMAKE_PREFIX_PATH={self.prefix}"])
        self.run_in(["cmake", "--build", "out"])
        for kind in ("shared", "static"):
            self.check(os.path.join(self.folder.name, "out", kind))

    def test_program(self):
        self.assertTrue(shutil.which("ga", path=os.path.join(self.prefix, "bin")))
        self.assertIn("ga ", self.run_in([os.path.join(self.prefix, "bin", "ga"), "--version"]))


if __name__ == "__main__":
    unittest.main()
