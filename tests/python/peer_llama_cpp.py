#!/usr/bin/env python3
"""Runs llama-cpp-python's own tests and the examples of its README on gpu_accel. What changes is the import, and which models are opened.

Usage: peer_llama_cpp.py FOLDER [PACKAGE]: FOLDER holds gpu_accel as it was built; PACKAGE is the source package, unpacked or not, else
pip fetches it. Needs numpy, scipy, jinja2 and pytest, and the models of `ga pull smollm2-135m` and `ga pull minilm-l6`.
Exit status 1 when a test or example fails, or the package has one that this file does not know."""
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "0.3.36"
VOCAB = "vendor/llama.cpp/models/ggml-vocab-llama-spm.gguf"
IMPORTS = [(r"^import llama_cpp\._internals as internals$", "internals = None"), (r"^import llama_cpp$", "import gpu_accel.llama_cpp as llama_cpp"),
           (r"^from llama_cpp import ", "from gpu_accel.llama_cpp import ")]
# The one line that expects their model's words. What it leaves stands: the second answer is as the first.
THEIR_WORDS = """    assert output_1["choices"][0]["text"] == " jumps over the lazy dog."\n"""
NO_GRAMMAR, OWN_TEMPLATES = "GA has no grammars", "tests their formatters; GA renders a model's template in C, which the tests of GA cover"
RAM_CACHE = "GA's engine keeps prefixes by itself; there is no set_cache"
STATE_SPACE = "needs their Mamba or Falcon-H1 model; GA's sessions hold keys and values"
# None: it must pass.
TESTS = {
    "test_llama.py::test_llama_cpp_version": None,
    "test_llama.py::test_llama_cpp_tokenization": None,
    "test_llama.py::test_real_model": "calls llama.cpp's C functions through ctypes",
    "test_llama.py::test_real_llama": NO_GRAMMAR,
    "test_llama.py::test_real_llama_repeated_prompt_cache": None,
    "test_llama.py::test_recurrent_model_prompt_cache_reset": STATE_SPACE,
    "test_llama.py::test_hybrid_model_prompt_cache_reset": STATE_SPACE,
    "test_llama.py::test_real_llama_embeddings": None,
    **{f"test_llama.py::test_{name}_matches_fresh[llama_cpp_{kind}_model_path-{flags}]":
       STATE_SPACE if kind != "transformer" else RAM_CACHE if name == "ram_cache_exact_prompt_hit" else None
       for kind, flags in (("transformer", "False-False"), ("recurrent", "True-False"), ("hybrid", "False-True"))
       for name in ("exact_cached_prompt_reuse", "loaded_exact_cached_prompt_reuse", "ram_cache_exact_prompt_hit", "shorter_prompt_prefix_reuse")},
    "test_llama_chat_format.py::test_mistral_instruct": OWN_TEMPLATES,
    "test_llama_chat_format.py::test_hf_tokenizer_config_str_to_chat_formatter": OWN_TEMPLATES,
    "test_llama_grammar.py::test_grammar_from_string": NO_GRAMMAR,
    "test_llama_grammar.py::test_composed_pydantic_grammar": NO_GRAMMAR,
    "test_llama_grammar.py::test_grammar_anyof": NO_GRAMMAR,
    "test_llama_speculative.py::test_find_candidate_pred_tokens": "tests a NumPy function of theirs; GA has no draft_model",
}
# A text that one example has; why it is left out, or None.
EXAMPLES = [
    ("Name the planets in the solar system? A: \", # Prompt", None),
    ('"id": "cmpl-xxxxxxxx', "is output, no program"),
    ('repo_id="lmstudio-community', "fetches their model; from_pretrained opens what `ga pull` has fetched"),
    ('chat_format="llama-2"', None),
    ('"type": "json_object",\n    },', NO_GRAMMAR),
    ('"schema": {', NO_GRAMMAR),
    ("chatml-function-calling", NO_GRAMMAR),
    ("LlamaHFTokenizer", "needs their functionary model and tokenizer"),
    ("Llava15ChatHandler", "GA has no vision models"),
    ("MoondreamChatHandler", "GA has no vision models"),
    ("image_to_base64_data_uri", "GA has no vision models"),
    ("LlamaPromptLookupDecoding", "GA has no draft_model"),
    ("llm.create_embedding", None),
    ('Llama(model_path="./models/7B/llama-model.gguf", n_ctx=2048)', None),
    ("llama_backend_init", "calls llama.cpp's C functions through ctypes"),
]
ENCODER = "llm.create_embedding"  # the example whose model is an encoder
# Their models' names, as the tests ask Hugging Face for them. Other models stand for them: the tests compare a model with itself.
CONFTEST = '''
import sys
import types
MODELS = {"lmstudio-community/Qwen3.5-0.8B-GGUF": "smollm2-135m", "ggml-org/models": "smollm2-135m",
          "CompendiumLabs/bge-small-en-v1.5-gguf": "minilm-l6"}
hub = types.ModuleType("huggingface_hub")
hub.hf_hub_download = lambda repo_id, filename: MODELS[repo_id]
sys.modules["huggingface_hub"] = hub
'''

# Beside their files: what they cannot be asked for (llama-cpp-python's objects are for one thread), and a library that stands on them.
PROGRAMS = {
    "16 threads share one Llama and get the tokens of single runs": '''
import threading
from gpu_accel.llama_cpp import Llama
llm = Llama("smollm2-135m", n_ctx=256)
prompts = [f"{i + 2} times {i + 3} is a number, and" for i in range(16)]
ask = lambda prompt: llm(prompt, max_tokens=24, temperature=0.0, logprobs=0)["choices"][0]["logprobs"]["tokens"]
alone = [ask(prompt) for prompt in prompts]
together = [None] * 16
def one(i):
    together[i] = ask(prompts[i])
threads = [threading.Thread(target=one, args=(i,)) for i in range(16)]
[t.start() for t in threads]
[t.join() for t in threads]
assert len({tuple(a) for a in alone}) > 8, alone
assert together == alone, [(a, b) for a, b in zip(alone, together) if a != b]
''',
    "langchain's LlamaCpp on SmolLM2": '''
import gpu_accel.llama_cpp
gpu_accel.llama_cpp.install()
try:
    from langchain_community.llms import LlamaCpp
except ImportError:
    raise SystemExit(77)
llm = LlamaCpp(model_path="smollm2-135m", n_ctx=256, temperature=0.0, max_tokens=16, verbose=False)
text = llm.invoke("The capital of France is")
assert "Paris" in text, text
assert "".join(llm.stream("The capital of France is")) == text
print(text)
''',
}


def unpacked(package, folder):
    """The folder of the source package. What it names lies below it: pip's own check of hashes and tarfile's of names."""
    if not package:
        print(f"pip fetches llama-cpp-python {VERSION}, source, 77 MB")
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "llama-cpp-python", "-d", folder,
                        f"llama-cpp-python=={VERSION}"], check=True)
        package = next(Path(folder).glob("llama_cpp_python-*.tar.gz"))
    if Path(package).is_dir():
        return Path(package)
    with tarfile.open(package) as tar:
        wanted = [m for m in tar if re.fullmatch(rf"[^/]+/(tests/[^/]+|README\.md|{re.escape(VOCAB)})", m.name)]
        tar.extractall(folder, wanted, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return Path(folder, f"llama_cpp_python-{VERSION}")


def with_our_import(text):
    for pattern, ours in IMPORTS:
        text = re.sub(pattern, ours, text, flags=re.MULTILINE)
    return text


def run_tests(package, folder, environment):
    """The number of failures."""
    (folder / "tests").mkdir()
    (folder / VOCAB).parent.mkdir(parents=True)
    (folder / VOCAB).write_bytes((package / VOCAB).read_bytes())
    (folder / "tests/conftest.py").write_text(CONFTEST)
    for path in (package / "tests").glob("test_*.py"):
        (folder / "tests" / path.name).write_text(with_our_import(path.read_text()).replace(THEIR_WORDS, ""))
    for name in [name for name in os.listdir(folder / "tests") if all(why for test, why in TESTS.items() if test.startswith(name + "::"))]:
        known = {test.split("::")[1] for test in TESTS if test.startswith(name + "::")}
        there = set(re.findall(r"^def (test_\w+)", (package / "tests" / name).read_text(), re.MULTILINE)) if name != "conftest.py" else set()
        if there != known:
            sys.exit(f"{name}: tests that this file does not know: {sorted(there ^ known)}")
        if name != "conftest.py":
            (folder / "tests" / name).unlink()  # nothing of it runs; its imports need not work
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), "--tb=short"]
    said = subprocess.run([*pytest, "--collect-only", "tests"], cwd=folder, env=environment, capture_output=True, text=True).stdout
    found = {line.removeprefix("tests/") for line in said.splitlines() if "::" in line}
    if unknown := found ^ {t for t in TESTS if (folder / "tests" / t.split("::")[0]).exists()}:
        sys.exit(f"tests that this file does not know, or that the package lacks: {sorted(unknown)}\n{said}")
    print(f"left out  one line of test_real_llama_repeated_prompt_cache: its text is what their model says: {THEIR_WORDS.strip()}")
    failures = 0
    for test, why in TESTS.items():
        if why:
            print(f"left out  {test}: {why}")
            continue
        ran = subprocess.run([*pytest, f"tests/{test}"], cwd=folder, env=environment, capture_output=True, text=True)
        passed = ran.returncode == 0 and "1 passed" in ran.stdout
        failures += not passed
        print(f"{'passed' if passed else 'FAILED'}    {test}" + ("" if passed else f"\n{ran.stdout}{ran.stderr}"))
    return failures


def run_examples(package, folder, environment):
    blocks = re.findall(r"^```python\n(.*?)^```$", (package / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    if len(blocks) != len(EXAMPLES):
        sys.exit(f"README.md has {len(blocks)} examples; this file knows {len(EXAMPLES)}")
    failures = 0
    for i, (block, (mark, why)) in enumerate(zip(blocks, EXAMPLES), 1):
        if mark not in block:
            sys.exit(f"README.md, example {i} has no {mark!r}")
        name = f"README.md, example {i}"
        if why:
            print(f"left out  {name}: {why}")
            continue
        text = re.sub(r'(?<=model_path=)"[^"]*"', '"minilm-l6"' if mark == ENCODER else '"smollm2-135m"', with_our_import(block))
        if "import" not in text:
            text = "from gpu_accel.llama_cpp import Llama\n" + text  # an example that goes on from the one above
        ran = subprocess.run([sys.executable, "-c", text], cwd=folder, env=environment, capture_output=True, text=True)
        failures += ran.returncode != 0
        print(f"{'FAILED' if ran.returncode else 'passed'}    {name}: {mark.splitlines()[0]}" + (f"\n{ran.stderr}" if ran.returncode else ""))
        if ran.stdout:
            print(f"          {ran.stdout.strip()[:400]}")
    return failures


def run_programs(folder, environment):
    failures = 0
    for name, text in PROGRAMS.items():
        ran = subprocess.run([sys.executable, "-W", "ignore", "-c", text], cwd=folder, env=environment, capture_output=True, text=True)
        failed = ran.returncode not in (0, 77)
        failures += failed
        print(f"{'FAILED' if failed else 'skipped' if ran.returncode else 'passed'}    {name}" + (": langchain_community is not installed" if ran.returncode == 77 else "")
              + (f"\n{ran.stdout}{ran.stderr}" if failed else ""))
    return failures


def main():
    environment = os.environ | {"PYTHONPATH": os.path.abspath(sys.argv[1]), "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryDirectory(prefix="ga-llama-cpp-") as folder:
        package = unpacked(sys.argv[2] if len(sys.argv) > 2 else None, folder)
        (run := Path(folder, "run")).mkdir()
        failures = run_tests(package, run, environment) + run_examples(package, run, environment) + run_programs(run, environment)
    count = sum(why is None for why in [*TESTS.values(), *(why for _, why in EXAMPLES)]) + len(PROGRAMS)
    print(f"{count - failures} passed or skipped, {failures} failed, {len(TESTS) + len(EXAMPLES) + len(PROGRAMS) - count} left out")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
