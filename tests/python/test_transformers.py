"""Tiny models of transformers, eager against gpu_accel, over the CPU. Skipped where PyTorch or transformers is missing."""
import types
import unittest

import gpu_accel as ga

try:
    import torch
    import transformers
    from transformers import AutoModelForCausalLM

    import gpu_accel.transformers as gt
    gt.register()
except ImportError:
    torch = transformers = None

SIZES = {"vocab_size": 61, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 64, "pad_token_id": 0}
SEEN = 5  # tokens that a window shows


def config_of(kind):
    if kind == "llama":
        return transformers.LlamaConfig(**SIZES)
    if kind == "qwen3":
        return transformers.Qwen3Config(**SIZES)
    if kind == "gemma2":
        return transformers.Gemma2Config(**SIZES, sliding_window=SEEN, attn_logit_softcapping=2.0, query_pre_attn_scalar=16)
    if kind == "gemma3":
        return transformers.Gemma3TextConfig(**SIZES, sliding_window=SEEN, layer_types=["sliding_attention", "full_attention"],
                                             query_pre_attn_scalar=16)
    return transformers.GptOssConfig(**SIZES, sliding_window=SEEN, layer_types=["sliding_attention", "full_attention"],
                                     num_local_experts=2, num_experts_per_tok=1)


@unittest.skipIf(torch is None, "torch or transformers is missing")
class Transformers(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)

    def models(self, kind):
        """The same weights twice: eager and gpu_accel."""
        eager = AutoModelForCausalLM.from_config(config_of(kind), attn_implementation="eager").eval()
        ours = AutoModelForCausalLM.from_config(config_of(kind), attn_implementation="gpu_accel").eval()
        with torch.no_grad():
            for name, p in eager.named_parameters():
                if "sinks" in name:
                    p.normal_()
                elif p.dim() > 1:
                    p.normal_(std=0.2)
        ours.load_state_dict(eager.state_dict())
        return eager, ours

    def close(self, seen, wanted, name):
        torch.testing.assert_close(seen, wanted, rtol=2e-4, atol=2e-4 * max(1.0, float(wanted.detach().abs().max())), msg=lambda text: f"{name}: {text}")

    def compare(self, eager, ours, real=None, **inputs):
        """Logits and all gradients; of padding nothing counts."""
        logits = [model(**inputs).logits for model in (eager, ours)]
        return self.compare_logits(eager, ours, *(x if real is None else x[real] for x in logits))

    def compare_logits(self, eager, ours, *logits):
        self.close(logits[1], logits[0], "logits")
        for model, x in zip((eager, ours), logits):
            model.zero_grad()
            (x.log_softmax(-1) * torch.linspace(-1, 1, x.numel()).reshape(x.shape)).sum().backward()
        for (name, a), b in zip(eager.named_parameters(), ours.parameters()):
            if a.grad is not None:
                self.close(b.grad, a.grad, name)
        return logits[1]

    def test_logits_and_gradients(self):
        for kind in ("llama", "qwen3", "gemma2", "gemma3", "gpt_oss"):
            with self.subTest(kind):
                eager, ours = self.models(kind)
                ids = torch.randint(1, 61, (2, 13))
                self.compare(eager, ours, input_ids=ids)
                for first in (4, -4):  # padding before, and behind
                    mask = torch.ones(2, 13, dtype=torch.long)
                    mask[1, :first] = 0 if first > 0 else 1
                    mask[1, first:] = 1 if first > 0 else 0
                    positions = (mask.cumsum(1) - 1).clamp(min=0)
                    self.compare(eager, ours, mask.bool(), input_ids=ids, attention_mask=mask, position_ids=positions)

    def test_documents(self):
        """Position ids that start again are borders, also where a cache object is made: eager gets each document by itself, for
        not all of its models see the borders."""
        for kind in ("llama", "gemma3", "gpt_oss"):
            with self.subTest(kind):
                eager, ours = self.models(kind)
                ids = torch.randint(1, 61, (1, 15))
                positions = torch.cat([torch.arange(n) for n in (4, 1, 10)])[None]
                alone = torch.cat([eager(input_ids=ids[:, a:b]).logits for a, b in ((0, 4), (4, 5), (5, 15))], 1)
                seen = self.compare_logits(eager, ours, alone, ours(input_ids=ids, position_ids=positions, use_cache=False).logits)
                cached = ours(input_ids=ids, position_ids=positions, use_cache=True).logits
                self.close(cached, seen, "with a cache")

    def test_borders_of_the_same_memory(self):
        """Position ids whose memory NumPy or .data has changed: the next step has the new borders, in one pass and in generation's."""
        for mode in (torch.inference_mode, torch.no_grad, torch.enable_grad):
            with self.subTest(mode=mode), mode():
                _, ours = self.models("llama")
                ids = torch.randint(1, 61, (1, 12))
                import numpy as np
                a = np.array([[0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]])
                positions, data = torch.from_numpy(a), torch.from_numpy(a.copy())
                logits = lambda p: ours(input_ids=ids, position_ids=p, use_cache=False).logits
                logits(positions), logits(data)
                a[:] = [[0, 1, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8]]
                data.data.copy_(torch.from_numpy(a))
                for p in (positions, data):
                    torch.testing.assert_close(logits(p), logits(p.clone()))

    def test_borders_before_padding(self):
        """Packed documents whose borders end before the padding: gradients are finite, and 0 where nothing is."""
        _, ours = self.models("llama")
        ours.train()
        for _ in range(4):
            ids = torch.randint(1, 61, (1, 12))
            borders = torch.tensor([0, 4, 9], dtype=torch.int32)
            del [torch.full((n,), float("nan")) for n in (192, 384, 768) * 32][:]
            positions = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4, 0, 0, 0]])
            logits = ours(input_ids=ids, position_ids=positions, use_cache=False, cu_seq_lens_q=borders, cu_seq_lens_k=borders, max_length_q=5, max_length_k=5).logits
            self.assertTrue(logits.isfinite().all())
            ours.zero_grad()
            logits[:, :9].square().mean().backward()
            self.assertTrue(all(p.grad is None or p.grad.isfinite().all() for p in ours.parameters()))

    def test_gaps(self):
        """Positions that leave some out are one document."""
        module = types.SimpleNamespace(is_causal=True)
        q, k, v = (torch.randn(1, 2, 6, 8) for _ in range(3))
        wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        for mask in (None, torch.ones(1, 6, dtype=torch.bool)):
            seen, _ = gt.attention_forward(module, q, k, v, mask, position_ids=torch.tensor([[0, 1, 2, 10, 11, 12]]))
            self.close(seen, wanted, "gaps")

    def test_generate(self):
        for kind in ("llama", "gemma3"):
            with self.subTest(kind):
                eager, ours = self.models(kind)
                ids = torch.randint(1, 61, (2, 9))
                mask = torch.ones_like(ids)
                mask[0, :3] = 0
                options = {"max_new_tokens": 12, "do_sample": False, "attention_mask": mask, "eos_token_id": None}
                self.assertEqual(ours.generate(ids, **options).tolist(), eager.generate(ids, **options).tolist())
                with torch.inference_mode():
                    real = mask.bool()
                    wanted = eager(input_ids=ids, attention_mask=mask).logits[real]
                    self.close(ours(input_ids=ids, attention_mask=mask + 0).logits[real], wanted, "inference mode")

    def test_trains(self):
        """Ten steps have the loss of eager's."""
        losses = []
        for model in self.models("llama"):
            torch.manual_seed(9)
            optimizer = torch.optim.SGD(model.train().parameters(), lr=0.05)
            ids = torch.randint(1, 61, (4, 16))
            seen = []
            for _ in range(10):
                loss = model(input_ids=ids, labels=ids).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                seen.append(loss.item())
            losses.append(seen)
        torch.testing.assert_close(torch.tensor(losses[1]), torch.tensor(losses[0]), rtol=1e-4, atol=1e-4)
        self.assertLess(losses[1][-1], losses[1][0])

    def test_example(self):
        from test_examples import run_script
        self.assertIn("after 3 4 5:", run_script("finetune.py", "20"))

    def test_refused(self):
        _, ours = self.models("llama")
        ids = torch.randint(1, 61, (1, 6))
        refused = lambda text: self.assertRaisesRegex(ga.UnsupportedError, text)
        with refused("attention_mask has 4 dimensions"):
            ours(input_ids=ids, attention_mask=torch.zeros(1, 1, 6, 6))
        with refused("attention_mask has holes"):
            ours(input_ids=ids, attention_mask=torch.tensor([[1, 1, 0, 1, 1, 1]]))
        cache = ours(input_ids=ids, use_cache=True).past_key_values
        with refused("start again behind a cache"):
            ours(input_ids=ids, past_key_values=cache, position_ids=torch.tensor([[6, 7, 8, 0, 1, 2]]))
        with refused("a static cache"):
            ours.generate(ids, max_new_tokens=2, cache_implementation="static")
        with refused("dropout is 0.5"):
            gt.attention_forward(ours, *(torch.zeros(1, 2, 3, 4),) * 3, None, dropout=0.5)
        with refused("a mask of or_masks"):
            from transformers.masking_utils import causal_mask_function, or_masks
            gt.attention_mask(1, 4, 4, mask_function=or_masks(causal_mask_function, causal_mask_function))

    def test_continuous_batching(self):
        """Requests of several lengths, batched over the cache of pages: tokens as by paged eager attention."""
        from transformers import ContinuousBatchingConfig, GenerationConfig
        prompts = [torch.randint(1, 61, (n,)).tolist() for n in (3, 11, 7, 1)]
        how = GenerationConfig(max_new_tokens=9, do_sample=False, eos_token_id=-1, pad_token_id=0)
        for kind in ("llama", "gemma2", "gemma3", "gpt_oss"):
            with self.subTest(kind):
                eager, ours = self.models(kind)
                eager.set_attn_implementation("paged|eager")
                gt.batch(ours)
                tokens = []
                if kind == "gemma2":  # whose soft-cap paged eager attention leaves out
                    eager.set_attn_implementation("eager")
                    alone = [eager.generate(torch.tensor([p]), generation_config=how)[0, len(p):].tolist() for p in prompts]
                for model in (eager, ours):
                    batching = ContinuousBatchingConfig(num_blocks=64, max_batch_tokens=16, auto_switch_to_flash=False)
                    done = model.generate_batch(prompts, generation_config=how, continuous_batching_config=batching, progress_bar=False)
                    tokens.append([done[key].generated_tokens for key in sorted(done)])
                self.assertEqual([len(t) for t in tokens[0]], [9] * 4)
                self.assertEqual(tokens[1], alone if kind == "gemma2" else tokens[0])


if __name__ == "__main__":
    unittest.main()
