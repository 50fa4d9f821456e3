"""Model, Engine, LLM and Llama on a tiny model."""
import asyncio
import math
import os
import tempfile
import threading
import time
import unittest
import unittest.mock

import gpu_accel as ga
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
        with self.assertRaises(TypeError):
            llama("a", grammar=1)
        seen = []
        threads = [threading.Thread(target=lambda: seen.append(llama("hello", max_tokens=6, temperature=0.0)["choices"][0]["text"]))
                   for _ in range(16)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(seen, [text] * 16)
        llama.close()


if __name__ == "__main__":
    unittest.main()
