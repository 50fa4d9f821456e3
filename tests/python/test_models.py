"""Model, Engine, LLM and Llama on a tiny model."""
import asyncio
import concurrent.futures
import gc
import itertools
import math
import os
import shutil
import sys
import tempfile
import threading
import time
import types
import unittest
import unittest.mock
from array import array

import gpu_accel as ga
from gpu_accel import _llama
import tiny_gguf


class Models(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="ga-python-")
        cls.path = os.path.join(cls.folder.name, "tiny.gguf")
        with open(cls.path, "wb") as f:
            f.write(tiny_gguf.build())
        cls.model = ga.Model(cls.path, "cpu", threads=1)
        cls.greedy = list(cls.model.generate_ids(cls.model.tokenize("hello"), 8, ignore_eos=True))

    @classmethod
    def tearDownClass(cls):
        del cls.model
        cls.folder.cleanup()

    def test_model(self):
        self.assertEqual(self.model.info["arch"], "llama")
        ids = self.model.tokenize("a b")
        self.assertEqual(ids[0], self.model.special("bos"))
        self.assertEqual(self.model.detokenize(ids), "a b")
        self.assertEqual(len(self.greedy), 8)
        chat = self.model.chat_ids([{"role": "user", "content": "</s>"}])
        self.assertNotIn(self.model.special("eos"), chat)
        self.assertIsInstance("".join(self.model.generate("a", 4, 1.0, seed=3)), str)

    def test_names(self):
        """What lies in the models' folder opens by its name; what does not is not fetched."""
        with unittest.mock.patch.dict(os.environ, {"GA_MODELS": self.folder.name}):
            self.assertEqual(ga.Model("tiny.gguf", "cpu", threads=1).info, self.model.info)
            for name in ("smollm2-135m", "hf:org/repo"):
                with self.assertRaisesRegex(ga.FileError, f"ga pull {name}.*; .* has .*tiny.gguf"):
                    ga.Model(name, "cpu", threads=1)

    def test_session(self):
        session = ga.Session(self.model, 32)
        logits = session.eval(self.model.tokenize("hello"), 1)
        self.assertEqual(logits.shape, (1, self.model.info["vocab"]))
        row = memoryview(logits).tolist()[0]
        self.assertEqual(row.index(max(row)), self.greedy[0])
        session.rewind(1)
        self.assertEqual(session.length, 1)
        with self.assertRaisesRegex(ga.ShapeError, "32"):
            session.eval([3] * 40)
        with self.assertRaisesRegex(ga.StateError, "1 sessions live on this context"):
            ga.Engine(self.model)

    def test_errors(self):
        with self.assertRaises(ga.FileError):
            ga.Model("/nowhere/model.gguf", "cpu")
        bad = os.path.join(self.folder.name, "bad.gguf")
        with open(bad, "wb") as f:
            f.write(b"GGUF" + bytes(60))
        with self.assertRaises(ga.Error):
            ga.Model(bad, "cpu")

    def test_engine(self):
        model = ga.Model(self.path, "cpu", threads=1)
        with ga.Engine(model, n_ctx=64, max_sequences=4) as engine:
            ids = model.tokenize("hello")
            request = engine.submit(ids, 8, ignore_eos=True, logprobs=2)
            tokens = list(request)
            self.assertEqual([t.id for t in tokens], self.greedy)
            self.assertTrue(all(t.logprob < 0 and len(t.top) == 2 and t.top[0][0] == t.id for t in tokens))
            self.assertEqual(request.finish_reason, "length")
            self.assertEqual(request.info["n_generated"], 8)
            many = [engine.submit(ids, 8, ignore_eos=True) for _ in range(6)]
            self.assertTrue(all([t.id for t in r] == self.greedy for r in many))
            again = engine.submit(ids, 8, ignore_eos=True, keep_seconds=60.0)
            self.assertEqual([t.id for t in again], self.greedy)
            with self.assertRaisesRegex(ga.ArgumentError, "keep_seconds"):
                engine.submit(ids, 1, keep_seconds=float("nan"))
            with self.assertRaisesRegex(ga.StateError, "an engine lives on this context"):
                next(model.generate("a"))
            with self.assertRaises(ga.ShapeError):
                engine.submit([3] * 100, 1)
            running = engine.submit(ids, -1, ignore_eos=True)
            running.cancel()
            list(running)
            self.assertIn(running.finish_reason, ("cancelled", "context", "length"))
            until = time.monotonic() + 30
            while engine.stats()["running"] and time.monotonic() < until:
                time.sleep(0.01)
            self.assertEqual(engine.stats()["running"], 0)
        with self.assertRaisesRegex(ga.StateError, "closed"):
            engine.submit(ids, 1)
        with ga.Engine(model, n_ctx=64, swap_bytes=1 << 20, offload_prefixes=True) as engine:
            self.assertEqual([t.id for t in engine.submit(ids, 8, ignore_eos=True)], self.greedy)
        with self.assertRaisesRegex(ga.ArgumentError, "swap_bytes is -1"):
            ga.Engine(model, n_ctx=64, swap_bytes=-1)
        self.assertEqual(list(model.generate_ids(ids, 8, ignore_eos=True)), self.greedy)  # the context is free again

    def test_async(self):
        async def one(engine):
            return [token.id async for token in engine.submit("hello", 8, ignore_eos=True)]

        async def all_of(engine):
            return await asyncio.wait_for(asyncio.gather(*(one(engine) for _ in range(8))), 60)
        with ga.Engine(self.path, device="cpu", n_ctx=64) as engine:
            self.assertTrue(all(ids == self.greedy for ids in asyncio.run(all_of(engine))))

    def test_llm(self):
        llm = ga.LLM(self.path, device="cpu", max_model_len=64)
        params = ga.SamplingParams(temperature=0, max_tokens=8, ignore_eos=True, logprobs=1)
        outs = llm.generate(["hello", "a", "hello"], params)
        self.assertEqual([o.prompt for o in outs], ["hello", "a", "hello"])
        self.assertEqual(outs[0].outputs[0].token_ids, self.greedy)
        self.assertEqual(outs[2].outputs[0].text, outs[0].outputs[0].text)
        self.assertTrue(math.isfinite(outs[0].outputs[0].cumulative_logprob))
        self.assertEqual(len(llm.generate("a", ga.SamplingParams(n=2, max_tokens=3))[0].outputs), 2)
        llm.close()

    def test_states_seeds_and_limits(self):
        """States travel, calls without a seed differ, and what the context has no room for is cut."""
        import copy
        import pickle
        from gpu_accel.llama_cpp import Llama
        llama = Llama(model_path=self.path, n_ctx=64, device="cpu")
        llama.eval([4, 5, 6])
        wanted = list(llama.logits)
        for travel in (lambda s: pickle.loads(pickle.dumps(s)), copy.deepcopy, copy.copy):
            state = travel(llama.save_state())
            llama.reset()
            llama.load_state(state)
            self.assertEqual((list(llama.input_ids), list(llama.logits)), ([4, 5, 6], wanted))
            first = llama.sample(temp=1.0)
            llama.load_state(state)
            self.assertEqual(llama.sample(temp=1.0), first)
        text = lambda model, **options: model("abc", max_tokens=12, temperature=1.0, **options)["choices"][0]["text"]
        self.assertGreater(len({text(llama) for _ in range(6)}), 1)
        self.assertEqual(text(llama, seed=7), text(llama, seed=7))
        for seed in (5, 0):
            a, b = (Llama(model_path=self.path, n_ctx=64, device="cpu", seed=seed) for _ in range(2))
            seen = [text(a) for _ in range(4)]
            self.assertEqual(seen, [text(b) for _ in range(4)])
            self.assertGreater(len(set(seen)), 1)
            b.set_seed(seed)
            self.assertEqual(text(b), seen[0])
        for call in (lambda n: llama("hi", max_tokens=n)["choices"][0], lambda n: llama.create_chat_completion([{"role": "user", "content": "a"}], max_tokens=n)["choices"][0]):
            self.assertIn(call(1000)["finish_reason"], ("length", "stop"))
        with self.assertRaises(ga.ShapeError):
            llama(list(range(4, 4 + 80)), max_tokens=1)
        llm = ga.LLM(self.path, device="cpu", max_model_len=64)
        params = ga.SamplingParams(temperature=1.0, max_tokens=1000, ignore_eos=True)
        outputs = [llm.generate("abc", params)[0].outputs[0] for _ in range(3)]
        self.assertGreater(len({o.text for o in outputs}), 1)
        self.assertEqual({(o.finish_reason, len(o.token_ids)) for o in outputs}, {("length", 64 - len(llm.model.tokenize("abc")))})
        self.assertEqual(*(llm.generate("abc", ga.SamplingParams(temperature=1.0, seed=3, ignore_eos=True))[0].outputs[0].text for _ in range(2)))

    def test_llama(self):
        llama = ga.Llama(model_path=self.path, n_ctx=64, device="cpu")
        out = llama("hello", max_tokens=6, temperature=0.0)
        self.assertEqual(out["object"], "text_completion")
        text = out["choices"][0]["text"]
        self.assertEqual("".join(c["choices"][0]["text"] for c in llama("hello", max_tokens=6, temperature=0.0, stream=True)), text)
        if len(text) > 2:
            cut = llama("hello", max_tokens=6, temperature=0.0, stop=[text[1:3]])
            self.assertEqual((cut["choices"][0]["text"], cut["choices"][0]["finish_reason"]), (text[: text.find(text[1:3])], "stop"))
        chat = llama.create_chat_completion([{"role": "user", "content": "a"}], max_tokens=4)
        self.assertEqual(chat["choices"][0]["message"]["role"], "assistant")
        chunks = list(llama.create_chat_completion([{"role": "user", "content": "a"}], max_tokens=4, stream=True))
        self.assertEqual(chunks[0]["choices"][0]["delta"], {"role": "assistant"})
        self.assertIn(chunks[-1]["choices"][0]["finish_reason"], ("stop", "length"))
        self.assertEqual(llama.detokenize(llama.tokenize(b"a b")), b"a b")
        with self.assertRaisesRegex(ga.UnsupportedError, "create_completion: grammar is 1; allowed is None"):
            llama("a", grammar=1)
        with self.assertRaises(TypeError):
            llama("a", no_such_option=1)
        seen = []
        threads = [threading.Thread(target=lambda: seen.append(llama("hello", max_tokens=6, temperature=0.0)["choices"][0]["text"]))
                   for _ in range(16)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(seen, [text] * 16)
        llama.close()

    def test_llama_suffix(self):
        """Fills a gap by the model's tokens for that; without such tokens the suffix stands behind the completion."""
        meta, first = tiny_gguf.metadata(), 3 + 0xF8  # in the places of bytes that no text has
        for i, name in enumerate(("<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<|fim_pad|>")):
            meta["tokenizer.ggml.tokens"][1][1][first + i] = name
            meta["tokenizer.ggml.token_type"][1][1][first + i] = 3
        path = os.path.join(self.folder.name, "gap.gguf")
        with open(path, "wb") as f:
            f.write(tiny_gguf.build(meta))
        how = {"max_tokens": 6, "temperature": 0.0}
        llama = ga.Llama(model_path=path, n_ctx=64, device="cpu")
        self.assertEqual([llama.model.special(f"fim_{name}") for name in ("prefix", "suffix", "middle", "pad", "repo", "file")], [*range(first, first + 4), None, None])
        before, behind = (llama.model.tokenize(text, False) for text in ("a b", "c"))
        ids = [1, first, *before, first + 1, *behind, first + 2]
        want = llama(ids, **how)
        out = llama("a b", suffix="c", **how)
        self.assertEqual((out["choices"][0]["text"], out["usage"]), (want["choices"][0]["text"], want["usage"]))
        self.assertEqual(llama("a b", suffix="c", echo=True, **how)["choices"][0]["text"], "a b" + want["choices"][0]["text"])
        self.assertEqual("".join(c["choices"][0]["text"] for c in llama(before, suffix="c", stream=True, **how)), want["choices"][0]["text"])
        for more in ({}, {"logits_processor": lambda ids, row: array("f", [100.0 * (i == first + 3) for i in range(len(row))])}):
            ended = llama("a b", suffix="c", logit_bias={first + 3: 100.0}, **more, **how)
            self.assertEqual((ended["choices"][0]["text"], ended["choices"][0]["finish_reason"]), ("", "stop"))
        llama.close()
        plain = ga.Llama(model_path=self.path, n_ctx=64, device="cpu")
        self.assertEqual(plain("a b", suffix="c", **how)["choices"][0]["text"], plain("a b", **how)["choices"][0]["text"] + "c")
        plain.close()

    def test_llama_sequence(self):
        """Token by token, as llama-cpp-python's methods go; beside the engine of the same Llama."""
        llama = ga.Llama(model_path=self.path, n_ctx=64, device="cpu", logits_all=True)
        ids = llama.tokenize(b"hello")
        take = lambda n, **more: list(itertools.islice(llama.generate(ids, temp=0.0, repeat_penalty=1.0, **more), n))
        self.assertEqual(take(8), self.greedy)
        self.assertEqual(llama.n_tokens, len(ids) + 7)
        self.assertEqual(list(llama.input_ids), ids + self.greedy[:7])
        self.assertEqual(len(llama.eval_logits), llama.n_tokens)
        self.assertEqual(len(llama.logits), llama.n_vocab())
        self.assertEqual(take(8), self.greedy)  # the prefix is there already
        self.assertEqual(llama.sample(temp=0.0, idx=len(ids) - 1), self.greedy[0])
        with self.assertRaisesRegex(ga.ArgumentError, "idx is 99"):
            llama.sample(idx=99)
        state = llama.save_state()
        drawn = [llama.sample(temp=1.0, top_k=0) for _ in range(4)]
        llama.reset()
        with self.assertRaisesRegex(ga.StateError, "call eval"):
            llama.sample()
        llama.eval([3, 4, 5])
        llama.load_state(state)
        self.assertEqual([llama.sample(temp=1.0, top_k=0) for _ in range(4)], drawn)  # logits and random numbers are back
        llama.eval([self.greedy[7]])  # what the state was of is computed again
        fresh = ga.Llama(model_path=self.path, n_ctx=64, device="cpu")
        fresh.eval(ids + self.greedy)
        self.assertEqual(llama.sample(temp=0.0), fresh.sample(temp=0.0))
        self.assertLess(max(abs(a - b) for a, b in zip(llama.logits, fresh.logits)), 1e-3)
        with self.assertRaisesRegex(ga.StateError, "logits_all=True"):
            fresh.sample(idx=0)
        with self.assertRaisesRegex(ga.ShapeError, "64"):
            llama.eval([3] * 64)
        llama.close()
        fresh.close()

    def test_share(self):
        """Two models, one copy of the weights: the file may be gone by then. The weights outlive the first handle."""
        path = os.path.join(self.folder.name, "once.gguf")
        shutil.copy(self.path, path)
        llama = ga.Llama(path, n_ctx=64, device="cpu")
        os.remove(path)
        ids = llama.tokenize(b"hello")
        self.assertEqual(list(itertools.islice(llama.generate(ids, temp=0.0, repeat_penalty=1.0), 8)), self.greedy)
        other = llama.model.share()
        self.assertIsNot(other.context, llama.model.context)
        llama.close()
        del llama
        gc.collect()
        self.assertEqual(list(other.generate_ids(ids, 8, ignore_eos=True)), self.greedy)
        with self.assertRaisesRegex(ga.ArgumentError, "the context is on ref; the model is on cpu"):
            other.share(ga.Context("ref"))
        vocab = os.path.join(self.folder.name, "shared-vocab.gguf")
        with open(vocab, "wb") as f:
            f.write(tiny_gguf.build(weights={}))
        with self.assertRaisesRegex(ga.StateError, "vocab_only=True"):
            ga.Model(vocab, vocab_only=True).share()

    def test_experts_in_host_memory(self):
        """Options of models with experts reach the library, which refuses those that make no sense."""
        for options, says in (({"cpu_moe": True}, "n_cpu_moe is all, but the model has no experts"),
                              ({"n_cpu_moe": 1}, "n_cpu_moe is 1, but the model has no experts"),
                              ({"n_cpu_moe": -2}, "n_cpu_moe is -2; must be 0 to"),
                              ({"cpu_moe": True, "n_cpu_moe": 1}, "cpu_moe means all layers, n_cpu_moe=1 the first; give one of them"),
                              ({"expert_cache": 1 << 20}, "expert_cache is 1048576 bytes, but no layer on a GPU has its experts in host memory")):
            with self.assertRaisesRegex(ga.ArgumentError, says):
                ga.Model(self.path, "cpu", **options)
        with self.assertRaises((TypeError, OverflowError)):
            ga.Model(self.path, "cpu", expert_cache="1")
        ga.Model(self.path, "cpu", n_cpu_moe=0)

    def test_llama_processors(self):
        """What Python functions do to logits, in 8 threads beside the engine's requests."""
        from gpu_accel.llama_cpp import LogitsProcessorList, StoppingCriteriaList
        llama = ga.Llama(model_path=self.path, n_ctx=64, device="cpu")
        plain = dict(max_tokens=6, temperature=0.0)
        text = llama("hello", **plain)["choices"][0]["text"]
        seen = []

        def only_a(ids, logits):
            seen.append(len(ids))
            for i in range(len(logits)):
                logits[i] = 1.0 if i == 260 else -1.0
            return logits
        forced = llama("hello", logits_processor=LogitsProcessorList([only_a]), **plain)["choices"][0]
        self.assertEqual((forced["text"], forced["finish_reason"]), ("aaaaaa", "length"))
        self.assertEqual(seen, list(range(seen[0], seen[0] + 6)))
        same = LogitsProcessorList([lambda ids, logits: logits])
        self.assertEqual(llama("hello", logits_processor=same, **plain)["choices"][0]["text"], text)
        stopped = llama("hello", stopping_criteria=StoppingCriteriaList([lambda ids, logits: len(ids) >= seen[0] + 2]), **plain)
        self.assertEqual((stopped["usage"]["completion_tokens"], stopped["choices"][0]["finish_reason"]), (2, "stop"))
        with self.assertRaisesRegex(ga.UnsupportedError, "logprobs is 2"):
            llama("hello", logits_processor=same, logprobs=2, **plain)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            more = [pool.submit(llama, "hello", logits_processor=same if i % 2 else None, **plain) for i in range(16)]
            self.assertEqual([m.result()["choices"][0]["text"] for m in more], [text] * 16)
        llama.close()

    def test_llama_options(self):
        """What GA lacks is refused by name; the tokenizer alone needs no weights; other templates stand for the model's."""
        for name, value in {"chat_format": "functionary", "rope_freq_base": 5.0, "lora_path": "x", "draft_model": object()}.items():
            with self.assertRaisesRegex(ga.UnsupportedError, f"Llama: {name} is "):
                ga.Llama(self.path, **{name: value})
        with self.assertRaisesRegex(TypeError, "no_such_option"):
            ga.Llama(self.path, no_such_option=1)
        vocab = os.path.join(self.folder.name, "vocab.gguf")
        with open(vocab, "wb") as f:
            f.write(tiny_gguf.build(weights={}))
        llama = ga.Llama(vocab, vocab_only=True)
        ids = llama.tokenize(b"a b")
        self.assertEqual((llama.detokenize(ids), llama.detokenize(ids[1:]), llama.n_vocab()), (b"a b", b" a b", 262))
        for call in (lambda: llama("a"), lambda: llama.eval(ids), lambda: llama.model.embed("a"), lambda: ga.Engine(llama.model)):
            with self.assertRaisesRegex(ga.StateError, "vocab_only=True"):
                call()
        chat = [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]
        made = lambda name: self.model.detokenize(self.model.chat_ids(chat, chat_template=_llama._FORMATS[name]), True)
        self.assertEqual(made("chatml"), "<s> <|im_start|>system\na<|im_end|>\n<|im_start|>user\nb<|im_end|>\n<|im_start|>assistant\n")
        self.assertEqual(made("llama-2"), "<s> [INST] <<SYS>>\na\n<</SYS>>\n\nb [/INST]")
        with self.assertRaisesRegex(ga.FormatError, "line 1"):
            self.model.chat_ids(chat, chat_template="{% for %}")
        with self.assertRaisesRegex(ga.FileError, "ga pull hf:org/repo:Q8_0"):
            ga.Llama.from_pretrained("org/repo", "*Q8_0.gguf")

    def test_langchain(self):
        try:
            from langchain_community.llms import LlamaCpp
        except ImportError:
            self.skipTest("langchain_community is not installed")
        from gpu_accel import llama_cpp
        with unittest.mock.patch.dict(sys.modules):
            sys.modules["llama_cpp"] = types.ModuleType("llama_cpp")
            with self.assertRaisesRegex(ga.StateError, "allowed is a process without it"):
                llama_cpp.install()
            del sys.modules["llama_cpp"]
            llama_cpp.install()
            llm = LlamaCpp(model_path=self.path, n_ctx=64, temperature=0.0, max_tokens=6, repeat_penalty=1.0, verbose=False)
            text = ga.Llama(self.path, n_ctx=64)("hello", max_tokens=6, temperature=0.0, repeat_penalty=1.0)["choices"][0]["text"]
            self.assertTrue(text)
            self.assertEqual(llm.invoke("hello"), text)
            self.assertEqual("".join(llm.stream("hello")), text)
            self.assertEqual(llm.batch(["hello"] * 4), [text] * 4)
            self.assertEqual(llm.get_num_tokens("hello"), len(self.model.tokenize("hello")))


if __name__ == "__main__":
    unittest.main()
