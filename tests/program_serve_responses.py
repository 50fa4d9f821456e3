#!/usr/bin/env python3
"""OpenAI's Responses API from outside. Usage: program_serve_responses.py GA. tests/test_serve_responses.c has items and stored turns."""
import contextlib
import json
import os
import sys
import tempfile
import unittest

import serve_rig
from serve_rig import Server, force

GA = os.path.abspath(sys.argv.pop(1))
TEMPLATE = ("{% for m in messages %}{{ bos_token }}{{ m.role }}: {{ m.content }}{% for c in m.tool_calls or [] %}({{ c.function.name }}"
            "{{ c.function.arguments | tojson }}{{ c.id }}){% endfor %}{% if m.tool_call_id %}#{{ m.tool_call_id }}{% endif %}"
            "{{ m.reasoning_content or '' }}{{ eos_token }}{% endfor %}{% if tools %}{{ tools | tojson }}{{ tool_choice | default('') | tojson }}{% endif %}"
            "{{ reasoning_effort }}{% if enable_thinking is defined %}{{ enable_thinking }}{% endif %}{% if add_generation_prompt %}{{ bos_token }}{% endif %}")
FIELDS = {"id", "object", "created_at", "status", "error", "incomplete_details", "model", "output", "usage", "temperature", "top_p", "background", "truncation",
          "service_tier", "instructions", "max_output_tokens", "max_tool_calls", "metadata", "parallel_tool_calls", "previous_response_id", "reasoning", "text",
          "tool_choice", "tools", "top_logprobs", "user", "store"}
TOOL = {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True}
CHAT_TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True}}
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"x\": 1}"}
CHAT_CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}}
PATH = "/v1/responses"


def user(text):
    return {"role": "user", "content": text}


class Responses(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="ga responses ")
        cls.model = serve_rig.write_model(cls.folder.name, TEMPLATE + "{# <tool_call> #}")
        cls.server = Server(GA, cls.model, "--context", "2048", "--deterministic")

    @classmethod
    def tearDownClass(cls):
        rc, said = cls.server.end()
        cls.folder.cleanup()
        assert rc == 0, (rc, said)

    def respond(self, **body):
        return self.server.post(PATH, **{"input": "hello", "max_output_tokens": 12, "temperature": 0, **body})

    def text(self, said):
        return "".join(p["text"] for item in said["output"] if item["type"] == "message" for p in item["content"])

    def events(self, **body):
        connection = self.server.connect()
        with contextlib.closing(connection):
            body = {"input": "hello", "max_output_tokens": 12, "temperature": 0, "stream": True, **body}
            connection.request("POST", PATH, json.dumps(body), {"Content-Type": "application/json"})
            reply = connection.getresponse()
            self.assertEqual(reply.status, 200)
            self.assertTrue(reply.headers["Content-Type"].startswith("text/event-stream"))
            parts = reply.read().decode().split("\n\n")
        self.assertEqual(parts.pop(), "")
        found = []
        for name, data in (p.split("\n") for p in parts if p != ": ping"):
            data = serve_rig.strict_json(data.removeprefix("data: "))
            self.assertEqual(name, "event: " + data["type"])
            found.append(data)
        self.assertEqual([e["sequence_number"] for e in found], list(range(len(found))))
        return found

    def count(self, **body):
        return self.server.post(PATH + "/input_tokens", **{"input": "hello", **body})["input_tokens"]

    def chat_count(self, messages=None, **body):
        return self.server.post("/tokenize", **{"messages": messages or [user("hello")], **body})["count"]

    def get(self, path, method="GET", headers=None):
        status, _, reply = self.server.request(method, path, headers=headers)
        return status, reply

    def test_shape(self):
        said = self.respond(logit_bias=force("a"), metadata={"k": "v"}, instructions="be brief")
        self.assertEqual(set(said), FIELDS)
        self.assertRegex(said["id"], r"^resp_[0-9a-f]{32}$")
        self.assertEqual((said["object"], said["status"], said["incomplete_details"]), ("response", "incomplete", {"reason": "max_output_tokens"}))
        self.assertEqual((said["metadata"], said["instructions"], said["max_output_tokens"], said["store"]), ({"k": "v"}, "be brief", 12, True))
        item, = said["output"]
        self.assertRegex(item["id"], r"^msg_[0-9a-f]{36}$")
        self.assertEqual((item["type"], item["role"], item["status"]), ("message", "assistant", "incomplete"))
        self.assertEqual(item["content"], [{"type": "output_text", "text": "a" * 12, "annotations": [], "logprobs": []}])
        usage = said["usage"]
        self.assertEqual((usage["output_tokens"], usage["total_tokens"]), (12, usage["input_tokens"] + 12))
        self.assertEqual(usage["input_tokens"], self.count(instructions="be brief"))

    def test_as_a_chat(self):
        chat = self.server.post("/v1/chat/completions", messages=[user("hello")], max_tokens=12, temperature=0)
        self.assertEqual(self.text(self.respond()), chat["choices"][0]["message"]["content"])
        self.assertEqual(self.respond(logit_bias={str(serve_rig.EOS): 100})["status"], "completed")

    def test_what_the_template_sees(self):
        """A request counts as many tokens as the chat that it stands for."""
        parts = [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]
        answer = {"type": "message", "role": "assistant", "id": "m1", "status": "completed", "content": [{"type": "output_text", "text": "so", "annotations": []}]}
        thought = {"type": "reasoning", "id": "r1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
        said = {"role": "assistant", "content": "so"}
        result = {"role": "tool", "tool_call_id": "c1", "content": "5"}
        for body, messages, more in (
                ({"instructions": "be\nbrief"}, [{"role": "system", "content": "be\nbrief"}, user("hello")], {}),
                ({"input": [user("hello")]}, None, {}),
                ({"input": [{"type": "message", **user(parts)}]}, [user("a\nb")], {}),
                ({"input": [{"role": "developer", "content": "x"}, user("hello")]}, [{"role": "developer", "content": "x"}, user("hello")], {}),
                ({"input": [user("hello"), answer, user("and")]}, [user("hello"), said, user("and")], {}),
                ({"input": [user("hello"), thought, answer, user("and")]}, [user("hello"), {**said, "reasoning_content": "hm"}, user("and")], {}),
                ({"input": [user("hello"), thought, answer, CALL, {"type": "function_call_output", "call_id": "c1", "output": "5"}]},
                 [user("hello"), {**said, "reasoning_content": "hm", "tool_calls": [CHAT_CALL]}, result], {}),
                ({"input": [user("hello"), CALL, {**CALL, "call_id": "c2"}, {"type": "function_call_output", "call_id": "c1", "output": [parts[0]]}]},
                 [user("hello"), {"role": "assistant", "content": "", "tool_calls": [CHAT_CALL, {**CHAT_CALL, "id": "c2"}]}, {**result, "content": "a"}], {}),
                ({"tools": [TOOL]}, None, {"tools": [CHAT_TOOL]}),
                ({"tools": [TOOL], "tool_choice": "required"}, None, {"tools": [CHAT_TOOL], "tool_choice": "required"}),
                ({"tools": [TOOL], "tool_choice": {"type": "function", "name": "f"}}, None,
                 {"tools": [CHAT_TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}}),
                ({"reasoning": {"effort": "low"}}, None, {"chat_template_kwargs": {"reasoning_effort": "low"}}),
                ({"reasoning": {"effort": "none"}}, None, {"chat_template_kwargs": {"enable_thinking": False}})):
            self.assertEqual(self.count(**body), self.chat_count(messages, **more), body)

    def test_streams(self):
        for extra in ({"logit_bias": force("abc")}, {"logit_bias": {str(serve_rig.EOS): 100}}, {"max_output_tokens": 200, "tools": [TOOL]}):
            whole, events = self.respond(**extra), self.events(**extra)
            kinds = [e["type"].removeprefix("response.") for e in events]
            self.assertEqual(kinds[:2], ["created", "in_progress"])
            self.assertEqual(kinds[-1], whole["status"])
            first, last = events[0]["response"], events[-1]["response"]
            self.assertEqual((first["status"], first["output"], first["usage"], set(first)), ("in_progress", [], None, FIELDS))
            self.assertEqual(self.text(last), self.text(whole))
            self.assertEqual("".join(e["delta"] for e in events if e["type"] == "response.output_text.delta"), self.text(whole))
            if whole["output"]:
                self.assertEqual(kinds[2:4] + kinds[-4:-1],
                                 ["output_item.added", "content_part.added", "output_text.done", "content_part.done", "output_item.done"])
                self.assertEqual(events[-2]["item"], last["output"][0])
                self.assertEqual((events[2]["item"]["content"], events[-4]["text"]), ([], self.text(whole)))
                self.assertEqual({e["item_id"] for e in events if "item_id" in e}, {last["output"][0]["id"]})

    def test_kept_numbers(self):
        """Members that a reader of strict JSON refuses are kept and read again."""
        first = self.respond(input=[{**user("one"), "wide": 10**30, "none": float("nan"), "a\0b": 1}])
        self.assertTrue(self.respond(previous_response_id=first["id"], input="two")["id"])
        status, items = self.get(f"{PATH}/{first['id']}/input_items")
        self.assertEqual((status, items["data"][0]["wide"], items["data"][0]["none"]), (200, 10**30, None))

    def test_logprobs(self):
        said = self.respond(include=["message.output_text.logprobs"], top_logprobs=2)
        tokens = said["output"][0]["content"][0]["logprobs"]
        self.assertEqual((len(tokens), {len(t["top_logprobs"]) for t in tokens}), (12, {2}))
        events = self.events(top_logprobs=2)
        sent = [t for e in events if e["type"] == "response.output_text.delta" for t in e["logprobs"]]
        self.assertEqual(sent, tokens)
        self.assertEqual(events[-1]["response"]["output"][0]["content"][0]["logprobs"], tokens)

    def test_kept(self):
        first = self.respond(instructions="be brief", input=[user("one")])
        self.assertEqual(self.get(f"{PATH}/{first['id']}"), (200, first))
        second = self.respond(previous_response_id=first["id"], input="two")
        answer = {"role": "assistant", "content": self.text(first)}
        self.assertEqual(second["previous_response_id"], first["id"])
        self.assertEqual(second["usage"]["input_tokens"], self.chat_count([user("one"), answer, user("two")]))  # without the instructions of then
        third = self.events(previous_response_id=second["id"], input="three")[-1]["response"]
        self.assertEqual(third["usage"]["input_tokens"],
                         self.chat_count([user("one"), answer, user("two"), {"role": "assistant", "content": self.text(second)}, user("three")]))
        self.assertGreater(third["usage"]["input_tokens_details"]["cached_tokens"], 0)
        self.assertEqual(self.get(f"{PATH}/{first['id']}", "DELETE"), (200, {"id": first["id"], "object": "response", "deleted": True}))
        for method in ("GET", "DELETE"):
            status, reply = self.get(f"{PATH}/{first['id']}", method)
            self.assertEqual((status, reply["error"]["code"]), (404, "response_not_found"))
        self.assertEqual(self.respond(previous_response_id=second["id"], input="three")["usage"]["input_tokens"], third["usage"]["input_tokens"])
        self.refuse({"previous_response_id": first["id"]}, 400, "not found")
        self.refuse({"previous_response_id": self.respond(store=False)["id"]}, 400, "not found")
        with Server(GA, self.model, "--response-store", "0") as server:
            said = server.post(PATH, input="hello", max_output_tokens=2)
            self.assertFalse(said["store"])
            self.assertEqual(server.request("GET", f"{PATH}/{said['id']}")[0], 404)
            self.assertEqual(server.request("POST", PATH, {"input": "x", "previous_response_id": said["id"]})[0], 400)

    def test_input_items(self):
        said = self.respond(input=[user("a"), {"role": "assistant", "content": "b"}, CALL, {"type": "function_call_output", "call_id": "c1", "output": "5"}])
        path = f"{PATH}/{said['id']}/input_items"
        status, page = self.get(path + "?order=asc")
        self.assertEqual((status, page["object"], page["has_more"]), (200, "list", False))
        self.assertEqual([i["type"] for i in page["data"]], ["message", "message", "function_call", "function_call_output"])
        self.assertEqual(len({i["id"] for i in page["data"]}), 4)
        self.assertEqual((page["first_id"], page["last_id"]), (page["data"][0]["id"], page["data"][3]["id"]))
        self.assertEqual(self.get(path)[1]["data"], page["data"][::-1])
        two = self.get(f"{path}?limit=2&after={page['data'][3]['id']}")[1]
        self.assertEqual((two["data"], two["has_more"]), (page["data"][2:0:-1], True))
        for query in ("limit=0", "limit=x", "order=up", "after=nothing"):
            self.assertEqual(self.get(f"{path}?{query}")[0], 400)
        self.assertEqual(self.get(f"{PATH}/{said['id']}/other")[0], 404)
        self.assertEqual(self.get(f"{PATH}/{said['id']}?stream=true")[0], 400)
        self.assertEqual(self.server.request("POST", f"{PATH}/{said['id']}/cancel", {})[0], 400)
        self.assertEqual(self.server.request("POST", f"{PATH}/resp_none/cancel", {})[0], 404)

    def refuse(self, body, status, says, server=None, headers=None):
        got, _, reply = (server or self.server).request("POST", PATH, {"input": "hello", "max_output_tokens": 5, **body}, headers)
        self.assertEqual(got, status, (body, reply))
        self.assertIn(says, reply["error"]["message"])

    def test_refused(self):
        for field, value in (("input", None), ("input", []), ("input", 5), ("input", [5]), ("input", [{"type": "web_search_call"}]), ("input", [{"role": "user"}]),
                             ("input", [{"role": "tool", "content": "x"}]), ("input", [user([{"type": "input_image", "image_url": "x"}])]),
                             ("input", [{"type": "function_call", "name": "f"}]), ("input", [{"type": "function_call_output", "output": "x"}]),
                             ("max_output_tokens", 0), ("temperature", "hot"), ("instructions", 5), ("tools", 5), ("tools", [{"type": "web_search"}]),
                             ("tool_choice", {"type": "web_search"}), ("background", True), ("conversation", "c"), ("prompt", {"id": "p"}), ("truncation", "auto"),
                             ("include", "x"), ("top_logprobs", 21), ("store", "yes"), ("metadata", 5), ("reasoning", "low"), ("text", 5),
                             ("previous_response_id", "resp_x")):
            self.refuse({field: value}, 400, "esponse with id" if field == "previous_response_id" else field)
        self.refuse({"text": {"format": {"type": "json_schema"}}}, 422, "text.format")
        self.refuse({"model": "other"}, 404, "other")
        self.refuse({"input": "a" * 9000}, 400, "context length")

    def test_keys(self):
        """A key finds the responses of its own alone."""
        keys = os.path.join(self.folder.name, "keys")
        with open(keys, "w") as f:
            f.write("a:one\nb:two\n")
        with Server(GA, self.model, "--api-keys", keys) as server:
            one, two = ({"Authorization": "Bearer " + key} for key in ("one", "two"))
            status, _, said = server.request("POST", PATH, {"input": "x", "max_output_tokens": 2}, one)
            self.assertEqual(status, 200)
            for method in ("GET", "DELETE"):
                self.assertEqual(server.request(method, f"{PATH}/{said['id']}")[0], 401)
                self.assertEqual(server.request(method, f"{PATH}/{said['id']}", headers=two)[0], 404)
            self.refuse({"previous_response_id": said["id"]}, 400, "not found", server, two)
            self.assertEqual(server.request("GET", f"{PATH}/{said['id']}", headers=one)[0], 200)


if __name__ == "__main__":
    unittest.main()
