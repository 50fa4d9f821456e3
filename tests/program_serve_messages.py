#!/usr/bin/env python3
"""The Messages API of Anthropic from outside. Usage: program_serve_messages.py GA. tests/test_serve_text.c has tool calls."""
import contextlib
import json
import os
import sys
import tempfile
import unittest

import serve_rig
from serve_rig import Server, force

GA = os.path.abspath(sys.argv.pop(1))
TEMPLATE = ("{% for m in messages %}{{ bos_token }}{{ m.role }}: {{ m.content }}{% if m.tool_calls %}{{ m.tool_calls[0].function.arguments | tojson }}"
            "{% endif %}{% if m.tool_call_id %}#{{ m.tool_call_id }}{% endif %}{{ m.reasoning_content or '' }}{{ eos_token }}{% endfor %}"
            "{% if tools %}{{ tools | tojson }}{{ tool_choice | default('') | tojson }}{% endif %}"
            "{% if enable_thinking is defined %}{{ enable_thinking }}{% endif %}{% if add_generation_prompt %}{{ bos_token }}{% endif %}")
HELLO = [{"role": "user", "content": "hello"}]
TOOL = {"name": "f", "description": "d", "input_schema": {"type": "object"}}
OPENAI_TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
USE = {"type": "tool_use", "id": "t1", "name": "f", "input": {"x": 1}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "5"}]}


def text(value):
    return {"type": "text", "text": value}


class Messages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="ga messages ")
        cls.model = serve_rig.write_model(cls.folder.name, TEMPLATE + "{# <tool_call> #}")
        cls.server = Server(GA, cls.model, "--context", "2048")

    @classmethod
    def tearDownClass(cls):
        rc, said = cls.server.end()
        cls.folder.cleanup()
        assert rc == 0, (rc, said)

    def message(self, **body):
        return self.server.post("/v1/messages", **{"messages": HELLO, "max_tokens": 12, "temperature": 0, **body})

    def count(self, **body):
        return self.server.post("/v1/messages/count_tokens", **{"messages": HELLO, **body})["input_tokens"]

    def chat_count(self, **body):
        return self.server.post("/tokenize", **{"messages": HELLO, **body})["count"]

    def events(self, **body):
        """[(name, data)] of a stream, checked."""
        connection = self.server.connect()
        with contextlib.closing(connection):
            connection.request("POST", "/v1/messages", json.dumps({"messages": HELLO, "max_tokens": 12, "temperature": 0, "stream": True, **body}),
                               {"Content-Type": "application/json"})
            reply = connection.getresponse()
            self.assertEqual(reply.status, 200)
            self.assertTrue(reply.headers["Content-Type"].startswith("text/event-stream"))
            parts = [e.split("\n") for e in reply.read().decode().split("\n\n")]
        self.assertEqual(parts.pop(), [""])
        found = []
        for lines in parts:
            if lines == [": ping"]:
                continue
            name, data = lines[0].removeprefix("event: "), serve_rig.strict_json(lines[1].removeprefix("data: "))
            self.assertEqual((len(lines), data["type"]), (2, name))
            if name != "ping":
                found.append((name, data))
        return found

    def refuse(self, body, status, kind, says, path="/v1/messages", headers=None):
        got, _, reply = self.server.request("POST", path, body, headers)
        self.assertEqual(got, status, (body, reply))
        self.assertEqual((set(reply), reply["type"]), ({"type", "error"}, "error"))
        self.assertEqual((set(reply["error"]), reply["error"]["type"]), ({"type", "message"}, kind))
        self.assertIn(says, reply["error"]["message"])

    def test_shape(self):
        said = self.message(logit_bias=force("a"))
        self.assertRegex(said.pop("id"), r"^msg_[0-9a-f]{32}$")
        usage = said.pop("usage")
        self.assertEqual(said, {"type": "message", "role": "assistant", "model": "tiny", "content": [text("a" * 12)], "stop_reason": "max_tokens",
                                "stop_sequence": None})
        self.assertEqual(usage["output_tokens"], 12)
        self.assertEqual(usage["input_tokens"] + usage["cache_read_input_tokens"], self.count())
        self.assertGreater(self.message()["usage"]["cache_read_input_tokens"], 0)

    def test_as_a_chat(self):
        for body, chat in (({}, {}), ({"temperature": 1, "seed": 7, "top_p": 0.9, "top_k": 50}, {}), ({"metadata": {"user_id": "u"}}, None)):
            said = self.message(**body)
            same = self.server.post("/v1/chat/completions", **{"messages": HELLO, "max_tokens": 12, "temperature": 0, **body})
            self.assertEqual("".join(b["text"] for b in said["content"]), same["choices"][0]["message"]["content"])

    def test_reasons(self):
        said = self.message(logit_bias=force("ab"), stop_sequences=["zz", "a", "b"])
        self.assertEqual(said["stop_reason"], "stop_sequence")
        self.assertIn(said["stop_sequence"], "ab")
        said = self.message(logit_bias={str(serve_rig.EOS): 100})
        self.assertEqual((said["stop_reason"], said["stop_sequence"], said["content"]), ("end_turn", None, []))

    def test_what_the_template_sees(self):
        """A request counts as many tokens as the chat that it stands for."""
        system = [{"role": "system", "content": "be\nbrief"}]
        call = {"id": "t1", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}}
        called = [{"role": "assistant", "content": "", "tool_calls": [call]}]
        result = [{"role": "tool", "tool_call_id": "t1", "content": "5"}]
        for body, chat in (
                ({"system": "be\nbrief"}, {"messages": system + HELLO}),
                ({"system": [text("be"), {**text("brief"), "cache_control": {"type": "ephemeral"}}]}, {"messages": system + HELLO}),
                ({"system": []}, {}),
                ({"messages": [{"role": "user", "content": [text("hello")]}]}, {}),
                ({"messages": HELLO + [{"role": "assistant", "content": [USE]}, {"role": "user", "content": [RESULT]}]}, {"messages": HELLO + called + result}),
                ({"messages": HELLO + [{"role": "assistant", "content": [USE]}, {"role": "user", "content": [RESULT, text("so?")]}]},
                 {"messages": HELLO + called + result + [{"role": "user", "content": "so?"}]}),
                ({"messages": HELLO + [{"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": ""}, text("a")]}] + HELLO},
                 {"messages": HELLO + [{"role": "assistant", "content": "a", "reasoning_content": "hm"}] + HELLO}),
                ({"messages": HELLO + [{"role": "assistant", "content": "It is"}]},
                 {"messages": HELLO + [{"role": "assistant", "content": "It is"}], "continue_final_message": True}),
                ({"tools": [TOOL]}, {"tools": [OPENAI_TOOL]}),
                ({"tools": [{**TOOL, "type": "custom"}], "tool_choice": {"type": "auto"}}, {"tools": [OPENAI_TOOL], "tool_choice": "auto"}),
                ({"tools": [TOOL], "tool_choice": {"type": "any"}}, {"tools": [OPENAI_TOOL], "tool_choice": "required"}),
                ({"tools": [TOOL], "tool_choice": {"type": "none"}}, {}),
                ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "f"}},
                 {"tools": [OPENAI_TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}}),
                ({"thinking": {"type": "disabled"}}, {"chat_template_kwargs": {"enable_thinking": False}}),
                ({"thinking": {"type": "enabled", "budget_tokens": 9}}, {"chat_template_kwargs": {"enable_thinking": True}})):
            self.assertEqual(self.count(**body), self.chat_count(**chat), body)

    def test_streams(self):
        for extra in ({"logit_bias": force("abc")}, {"logit_bias": {str(serve_rig.EOS): 100}}, {"stop_sequences": ["ab"], "logit_bias": force("abc")},
                      {"max_tokens": 200, "tools": [TOOL]}):
            whole, events = self.message(**extra), self.events(**extra)
            names = [name for name, _ in events]
            start, end = events[0][1]["message"], events[-2][1]
            self.assertEqual((names[0], names[-2:]), ("message_start", ["message_delta", "message_stop"]))
            self.assertEqual((start["content"], start["stop_reason"], start["model"]), ([], None, "tiny"))
            self.assertEqual(end["delta"], {"stop_reason": whole["stop_reason"], "stop_sequence": whole["stop_sequence"]})
            self.assertEqual(end["usage"]["output_tokens"], whole["usage"]["output_tokens"])
            self.assertEqual("".join(d["delta"]["text"] for n, d in events if n == "content_block_delta"), "".join(b["text"] for b in whole["content"]))
            if whole["content"]:
                self.assertEqual(names[1:-2], ["content_block_start"] + ["content_block_delta"] * (len(names) - 5) + ["content_block_stop"])
                self.assertTrue(all(d["index"] == 0 for _, d in events[1:-2]))

    def test_refused(self):
        for field, value in (("messages", None), ("messages", []), ("messages", "x"), ("messages", [5]), ("max_tokens", None), ("max_tokens", -1),
                             ("temperature", "hot"), ("system", 5), ("system", [{"type": "image"}]), ("tools", 5), ("tools", [{"name": "f"}]),
                             ("tools", [{"type": "web_search_20250305", "name": "web_search"}]), ("tool_choice", {"type": "x"}),
                             ("stop_sequences", "x"), ("thinking", 5)):
            self.refuse({"messages": HELLO, "max_tokens": 5, field: value}, 400, "invalid_request_error", field)
        for message in ({"role": "x", "content": "a"}, {"role": "user"}, {"role": "user", "content": [{"type": "image", "source": {}}]},
                        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f"}]}, {"role": "user", "content": [{"type": "tool_result"}]},
                        {"role": "user", "content": [5]}, {"role": "user", "content": [{"type": "text"}]}, {"role": "user", "content": [USE]}):
            for path in ("/v1/messages", "/v1/messages/count_tokens"):
                self.refuse({"messages": [message], "max_tokens": 5}, 400, "invalid_request_error", "", path)
        for path in ("/v1/messages", "/v1/messages/count_tokens"):
            self.refuse({"messages": HELLO, "max_tokens": 5, "tools": [TOOL], "tool_choice": {"type": "tool", "name": "g"}}, 400, "invalid_request_error",
                        "tools do not have", path)
        self.refuse({"messages": HELLO, "max_tokens": 5, "model": "other"}, 404, "not_found_error", "other")
        self.refuse({"messages": [{"role": "user", "content": "a" * 9000}], "max_tokens": 5}, 400, "invalid_request_error", "context length")
        self.refuse({"messages": HELLO, "max_tokens": 5, "output_config": {"format": {"type": "json_schema"}}}, 422, "invalid_request_error", "output_config")
        self.refuse({}, 415, "invalid_request_error", "application/json", headers={"Content-Type": "text/plain"})

    def test_keys(self):
        keys = os.path.join(self.folder.name, "keys")
        with open(keys, "w") as f:
            f.write("me:secret\n")
        with Server(GA, self.model, "--api-keys", keys) as server:
            body = {"messages": HELLO, "max_tokens": 2}
            for headers, status in (({}, 401), ({"x-api-key": "wrong"}, 401), ({"x-api-key": "secret"}, 200), ({"Authorization": "Bearer secret"}, 200)):
                got, _, reply = server.request("POST", "/v1/messages", body, headers)
                self.assertEqual(got, status, reply)
                if status == 401:
                    self.assertEqual(reply["error"]["type"], "authentication_error")


if __name__ == "__main__":
    unittest.main()
