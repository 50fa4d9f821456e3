#!/usr/bin/env python3
"""Reranking from outside. Usage: program_serve_rerank.py GA. tests/test_rank.c compares scores with transformers."""
import math
import os
import sys
import tempfile
import unittest

import serve_rig
from serve_rig import Server

GA = os.path.abspath(sys.argv.pop(1))
DOCUMENTS = ["xyz", "abc", "hello", "b"]


class Rerank(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="ga rerank ")
        cls.model = serve_rig.write_encoder(cls.folder.name, "rank/bert")
        cls.server = Server(GA, cls.model)

    @classmethod
    def tearDownClass(cls):
        rc, said = cls.server.end()
        cls.folder.cleanup()
        assert rc == 0, (rc, said)

    def rank(self, path="/v1/rerank", **body):
        return self.server.post(path, **{"query": "abc", "documents": DOCUMENTS, **body})

    def test_shape(self):
        said = self.rank(model="encoder", top_n=4)
        self.assertEqual(set(said), {"id", "object", "model", "usage", "results"})
        self.assertEqual((said["object"], said["model"]), ("list", "encoder"))
        scores = [r["relevance_score"] for r in said["results"]]
        self.assertEqual(scores, sorted(scores, reverse=True))
        self.assertEqual(sorted(r["index"] for r in said["results"]), [0, 1, 2, 3])
        self.assertTrue(all(0 < s < 1 for s in scores))
        # [CLS] a ##b ##c [SEP], then the letters of a document and [SEP]
        self.assertEqual(said["usage"], {"prompt_tokens": 4 * 5 + 3 + 3 + 5 + 1 + 4, "total_tokens": 4 * 5 + 3 + 3 + 5 + 1 + 4})

    def test_forms(self):
        whole = self.rank()["results"]
        for path in ("/rerank", "/v2/rerank", "/reranking", "/v1/reranking"):
            self.assertEqual(self.rank(path)["results"], whole)
        self.assertEqual(self.rank(documents=[{"text": d} for d in DOCUMENTS])["results"], whole)
        self.assertEqual(self.rank(top_n=2)["results"], whole[:2])
        self.assertEqual([r["document"] for r in self.rank(return_documents=True)["results"]], [{"text": DOCUMENTS[r["index"]]} for r in whole])
        raw = self.rank(raw_scores=True)["results"]
        for a, b in zip(raw, whole):
            self.assertAlmostEqual(1 / (1 + math.exp(-a["relevance_score"])), b["relevance_score"], 6)
        tei = self.server.post("/rerank", query="abc", texts=DOCUMENTS, return_text=True)
        self.assertEqual(tei, [{"index": r["index"], "score": r["relevance_score"], "text": DOCUMENTS[r["index"]]} for r in whole])

    def test_each_alone(self):
        """A document's score does not depend on the others."""
        together = {r["index"]: r["relevance_score"] for r in self.rank()["results"]}
        for i, document in enumerate(DOCUMENTS):
            self.assertAlmostEqual(self.rank(documents=[document])["results"][0]["relevance_score"], together[i], 6)

    def test_long_documents(self):
        long = "x " * 500
        status, _, reply = self.server.request("POST", "/v1/rerank", {"query": "abc", "documents": ["b", long]})
        self.assertEqual((status, reply["error"]["code"]), (400, "context_length_exceeded"))
        self.assertEqual(self.rank(documents=[long], truncate=True)["usage"]["prompt_tokens"], 64)
        self.assertEqual(self.server.request("POST", "/v1/rerank", {"query": long, "documents": ["b"], "truncate": True})[0], 400)

    def test_refused(self):
        for field, value in (("query", None), ("query", 5), ("documents", None), ("documents", []), ("documents", "x"), ("documents", [5]), ("top_n", 0),
                             ("return_documents", 1), ("truncate", "END"), ("raw_scores", 2), ("model", "other")):
            status, _, reply = self.server.request("POST", "/v1/rerank", {"query": "abc", "documents": DOCUMENTS, field: value})
            self.assertEqual(status, 404 if field == "model" else 400, (field, value))
            self.assertIn(field, reply["error"]["message"])

    def test_other_models(self):
        """An encoder without a head, one with several labels, and a model that generates."""
        with tempfile.TemporaryDirectory(prefix="ga rerank ") as folder:
            with Server(GA, serve_rig.write_encoder(folder)) as server:
                status, _, reply = server.request("POST", "/v1/rerank", {"query": "abc", "documents": DOCUMENTS})
                self.assertEqual((status, reply["error"]["code"]), (400, "not_a_reranker"))
            with Server(GA, serve_rig.write_model(folder)) as server:
                self.assertEqual(server.request("POST", "/v1/rerank", {"query": "abc", "documents": DOCUMENTS})[0], 400)

    def test_as_open_webui_asks(self):
        said = self.server.post("/v1/rerank", model="encoder", query="abc", documents=DOCUMENTS, top_n=len(DOCUMENTS))
        self.assertEqual(len([r["relevance_score"] for r in sorted(said["results"], key=lambda r: r["index"])]), len(DOCUMENTS))


if __name__ == "__main__":
    unittest.main()
