#!/usr/bin/env python3
"""The chat page in headless Chromium, before a small server that speaks as OpenAI's does. 77: no Chromium here.
GA_PAGE_SHOTS=FOLDER puts pictures there. Usage: program_page.py GA"""
import http.server
import json
import os
import re
import sys
import threading
import time
import unittest
import unittest.mock
from pathlib import Path

import devtools

SOURCE = Path(__file__).resolve().parent.parent / "src/serve"
TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
CSP = "".join(re.findall(r'"(.*?)"', re.search(r"#define PAGE_CSP((?:.*\\\n)*.*\n)", (SOURCE / "page.h").read_text())[1]))
SHOTS = os.environ.get("GA_PAGE_SHOTS")
HOSTILE = ("Look: <script>window.bad = 1</script> <img src=x onerror='window.bad = 2'>\n\n"
           "[a](javascript:window.bad=3) [b](https://example.org/x?y=1) <b>raw</b>\n\n"
           "```html\n<script>window.bad = 4</script>\n</pre>\n```\n"
           "**<i onclick=bad()>bold</i>** `<u>code</u>` [c](data:text/html,x) \"><svg onload=window.bad=5>")
MARKDOWN = """# Attention

Softmax of `Q K^T / sqrt(d)` times **V**; in *exact* form, without rounding of _any_ kind: 2 * 3 * 4 and snake_case_name.

1. Scale the logits.
   - by `1/sqrt(d)`
   - or by **another** factor
2. Take the maximum of each row.
3. Sum the exponentials.

```c
for (int j = 0; j < n; j++) {
  float p = expf(s[j] - max); /* at most 1 */
  sum += p;
}
```

> A row of zeros has no softmax.

More at [the project's pages](https://example.org/attention), or https://example.org/x_y_z.

---
Done."""


SAMPLING = {"temperature": 0.7, "top_p": 0.9, "min_p": 0, "repetition_penalty": 1.1, "top_k": 40}
MODELS = {"tiny-a": {"capabilities": ["completion", "chat"], "default_sampling": SAMPLING}, "tiny-b": {},  # as servers of others list theirs
          "base": {"capabilities": ["completion"], "default_sampling": {**SAMPLING, "temperature": 0.25, "max_tokens": 99}, "default_system": "Be kind."}, "encoder": {"capabilities": ["embedding"]}}


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], OSError):  # the page hangs up
            super().handle_error(request, client_address)


class Handler(http.server.BaseHTTPRequestHandler):
    """The last message's first word chooses the answer."""
    protocol_version = "HTTP/1.1"
    requests, key, failures, gone = [], None, 0, threading.Event()

    def log_message(self, *args):
        pass

    def reply(self, status, content_type, body):
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", CSP)
        self.end_headers()
        self.wfile.write(body)

    def reply_json(self, status, value):
        self.reply(status, "application/json", json.dumps(value).encode())

    def refuse(self, status, message):
        self.reply_json(status, {"error": {"message": message, "type": "error", "param": None, "code": status}})

    def is_allowed(self):
        return Handler.key is None or self.headers.get("Authorization") == f"Bearer {Handler.key}"

    def do_GET(self):
        if self.path == "/v1/models":
            if not self.is_allowed():
                return self.refuse(401, "wrong or no API key")
            return self.reply_json(200, {"object": "list", "data": [{"id": n, "object": "model", **more} for n, more in MODELS.items()]})
        path = SOURCE / "page" / (self.path.lstrip("/") or "index.html")
        if path.parent != SOURCE / "page" or not path.is_file():
            return self.refuse(404, "no such path")
        self.reply(200, TYPES[path.suffix], path.read_bytes())

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Handler.requests.append(request)
        if not self.is_allowed():
            return self.refuse(401, "wrong or no API key")
        request["path"] = self.path
        if "embedding" in (MODELS[request["model"]].get("capabilities") or ()):
            return self.refuse(400, "base makes embeddings, no text")
        if self.path == "/v1/completions":
            return self.stream_whole(lambda: self.stream_text(request))
        word = request["messages"][-1]["content"].split()[0]
        if word == "fail" and Handler.failures > 0:
            Handler.failures -= 1
            return self.refuse(503, "the queue is full: 64 requests wait")
        if word == "refused":
            return self.refuse(400, "messages has too many tokens")
        self.stream_whole(lambda: self.stream(word, request))

    def stream_whole(self, write):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            write()
        except OSError:
            Handler.gone.set()
        self.close_connection = True

    def stream(self, word, request):
        texts = {"hostile": HOSTILE, "markdown": MARKDOWN, "slow": "tick " * 2000, "fence": "```\nopen <b>fence"}
        text = texts.get(word, f"You said: {request['messages'][-1]['content']}")
        self.delta({"role": "assistant", "content": ""})
        if word == "lost":
            self.event({"error": {"message": "the device was lost", "type": "server_error", "param": None, "code": 500}})
            while True:  # until the page hangs up
                self.wfile.write(b": ping\n\n")
                time.sleep(0.02)
        self.wfile.write(b": ping\n\n")
        if word == "think":
            for part in ("First I ", "think."):
                self.delta({"reasoning_content": part})
        size = 5 if word == "slow" else 7
        pieces = [text[i:i + size] for i in range(0, len(text), size)]
        for piece in pieces:
            self.delta({"content": piece})
            time.sleep(0.03 if word == "slow" else 0.005)
        if word == "broken":
            return
        self.delta({}, "length" if word == "long" else "stop")
        if request.get("stream_options", {}).get("include_usage"):
            self.event({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": len(pieces)}})
        self.wfile.write(b"data: [DONE]\n\n")

    def stream_text(self, request):
        for piece in (" and", " so\n", "**on**"):
            self.event({"object": "text_completion", "choices": [{"index": 0, "text": piece, "finish_reason": None}]})
        self.event({"object": "text_completion", "choices": [{"index": 0, "text": "", "finish_reason": "stop"}]})
        self.event({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3}})
        self.wfile.write(b"data: [DONE]\n\n")

    def delta(self, delta, finish=None):
        self.event({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    def event(self, value):
        raw = f"data: {json.dumps(value, ensure_ascii=False)}\r\n\r\n".encode()
        half = len(raw) // 2  # two writes: events, and UTF-8 in them, arrive in pieces
        self.wfile.write(raw[:half])
        self.wfile.flush()
        self.wfile.write(raw[half:])


class ChatPage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.origin = f"http://127.0.0.1:{cls.server.server_port}/"
        cls.page = devtools.Page(BROWSER)
        cls.page.size(1100, 800)

    @classmethod
    def tearDownClass(cls):
        cls.page.close()
        cls.server.shutdown()
        cls.server.server_close()

    def setUp(self):
        Handler.requests, Handler.key, Handler.failures = [], None, 0
        self.page.system_theme("light")
        self.page.open(self.origin)
        self.page.js("localStorage.clear(), sessionStorage.clear()")
        self.page.events.clear()
        self.expect_failures = False
        self.reload()

    def tearDown(self):
        self.page.js("0")  # the last events
        for event in self.page.events:
            method, params = event["method"], event["params"]
            if method == "Network.requestWillBeSent":
                url = params["request"]["url"]
                self.assertTrue(url.startswith((self.origin, "data:", f"blob:{self.origin}")), url)
            self.assertNotEqual(method, "Runtime.exceptionThrown", event)
            self.assertFalse(method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"), event)
            if method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                self.assertTrue(self.expect_failures and params["entry"]["source"] == "network", event)

    def reload(self):
        self.page.js("window.old = true")
        self.page.call("Page.reload")
        self.page.wait("!window.old && document.readyState === 'complete' && document.querySelectorAll('#model option').length === 4"
                       if Handler.key is None else "!window.old && document.readyState === 'complete'")

    def send(self, text, end=True):
        self.page.js("document.getElementById('input').focus()")
        self.page.type(text)
        self.page.press("Enter")
        if end:
            self.wait_idle()

    def wait_idle(self):
        self.page.wait("!document.getElementById('send').hidden && document.querySelectorAll('article').length > 0")

    def click(self, text, within="document"):
        self.page.js(f"[...{within}.querySelectorAll('button')].filter((b) => b.textContent === {json.dumps(text)} "
                     "&& !b.disabled).at(-1).click()")

    def articles(self):
        return self.page.js("[...document.querySelectorAll('article')].map((a) => [a.className, "
                            "(a.querySelector('.body')?.textContent ?? '')])")

    def status(self):
        return self.page.js("document.getElementById('status').textContent")

    def said(self):
        return self.page.js("document.getElementById('said').textContent")

    def choose(self, model):
        self.page.js(f"document.getElementById('model').value = '{model}'; document.getElementById('model').onchange()")

    def shown(self):
        """What stands on the page for the eye: no words that are cut to a pixel."""
        return self.page.js("""[...document.querySelectorAll('body *')].filter((e) => e.checkVisibility({ visibilityProperty: true }) &&
            e.getBoundingClientRect().width > 1).flatMap((e) => [...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.textContent.trim()))
            .filter((t) => t).join('\\n')""")

    def buttons(self, within="document"):
        return self.page.js(f"[...{within}.querySelectorAll('button')].filter((b) => b.checkVisibility()).map((b) => b.textContent)")

    def shot(self, name):
        if SHOTS:
            self.page.shot(os.path.join(SHOTS, f"{name}.png"))

    def test_answer(self):
        self.send("hello \u00e9\U0001f986")
        self.assertEqual(self.articles(), [["user", "hello \u00e9\U0001f986"], ["assistant", "You said: hello \u00e9\U0001f986"]])
        request = Handler.requests[0]
        self.assertEqual(request, {"model": "tiny-a", "stream": True, "stream_options": {"include_usage": True}, "path": "/v1/chat/completions",
                                   "messages": [{"role": "user", "content": "hello \u00e9\U0001f986"}]})
        said = self.page.js("document.querySelector('.assistant .tools span').textContent")
        self.assertRegex(said, r"^first token \d+ ms \u00b7 \d+ tokens \u00b7 [\d.]+ tokens/s$")
        self.page.js("window.kept = document.querySelector('.assistant')")
        self.send("again")
        self.assertTrue(self.page.js("kept === document.querySelector('.assistant')"))  # a screen reader says new ones alone
        self.assertEqual([m["role"] for m in Handler.requests[1]["messages"]], ["user", "assistant", "user"])
        self.assertEqual(self.page.js("document.activeElement.id"), "input")

    def test_stream_and_stop(self):
        self.send("slow please", end=False)
        self.page.wait("document.querySelector('.assistant .body')?.textContent.length > 20")
        self.assertEqual(self.page.js("document.querySelector('.assistant').ariaBusy"), "true")
        Handler.gone.clear()
        self.page.press("Escape")
        self.wait_idle()
        self.assertTrue(Handler.gone.wait(10))  # the server sees that nobody listens
        text = self.articles()[1][1]
        self.assertTrue(20 < len(text) < 9000 and text.startswith("tick tick"), text)
        self.assertIn("stopped", self.page.js("document.querySelector('.assistant .tools span').textContent"))
        self.send("slow once more", end=False)
        self.page.wait("document.querySelectorAll('.assistant .body').length === 2")
        self.page.js("document.getElementById('stop').click()")
        self.wait_idle()
        self.assertEqual(self.said(), "Stopped.")

    def test_regenerate_and_edit(self):
        self.send("one")
        self.send("two")
        self.page.js("[...document.querySelectorAll('button')].filter((b) => b.textContent === 'Regenerate').at(-1).focus()")
        self.page.press("Enter")
        self.page.wait("document.activeElement.id === 'input'")
        self.wait_idle()
        self.assertEqual(len(Handler.requests), 3)
        self.assertEqual(Handler.requests[1], Handler.requests[2])
        self.click("Edit", "document.querySelector('article.user')")
        self.assertEqual(self.page.js("document.activeElement.value"), "one")
        self.page.press("Escape")
        self.assertEqual(len(self.articles()), 4)
        self.click("Edit", "document.querySelector('article.user')")
        self.page.js("document.activeElement.select()")
        self.page.type("three")
        self.page.press("Enter")
        self.wait_idle()
        self.assertEqual(self.articles(), [["user", "three"], ["assistant", "You said: three"]])
        self.assertEqual([m["content"] for m in Handler.requests[3]["messages"]], ["three"])

    def test_kept(self):
        self.send("remember me")
        self.page.js("document.getElementById('new').click()")
        self.assertEqual(self.articles(), [])
        self.send("another")
        self.reload()
        self.assertEqual(self.articles()[0], ["user", "another"])
        self.page.js("[...document.querySelectorAll('#chats .open')].at(-1).click()")
        self.assertEqual(self.articles()[1], ["assistant", "You said: remember me"])
        self.click("Rename")
        self.page.wait("document.activeElement.matches('#chats input') && document.activeElement.selectionEnd > 0")
        self.page.type("My <b>talk</b>")
        self.page.press("Enter")
        self.click("Rename")
        self.page.wait("document.activeElement.matches('#chats input') && document.activeElement.selectionEnd > 0")
        self.page.type("Not this")
        self.page.press("Escape")
        self.reload()
        self.assertEqual(self.page.js("document.querySelector('#chats .current .open').textContent"), "My <b>talk</b>")
        self.click("Delete")
        self.assertEqual(self.page.js("document.querySelectorAll('#chats li').length"), 1)
        self.click("Undo")
        self.assertEqual(self.page.js("document.querySelectorAll('#chats li').length"), 2)
        self.click("Delete")
        self.reload()
        self.assertEqual(self.articles()[0], ["user", "another"])

    def test_words_for_screen_readers(self):
        """What a reader sees anyway is said, not shown."""
        self.send("hello")
        self.assertEqual(self.said(), "The answer is complete.")
        self.assertNotIn("complete", self.shown())
        self.assertIn("You said: hello", self.shown())
        self.page.call("Accessibility.enable")
        nodes = self.page.call("Accessibility.getFullAXTree")["nodes"]
        self.page.call("Accessibility.disable")
        texts = [n.get("name", {}).get("value", "") for n in nodes if not n["ignored"]]
        self.assertIn("The answer is complete.", texts)

    def test_buttons(self):
        """Buttons look like buttons; the toggle has one name and a state; a phone has three controls above the messages."""
        self.send("markdown")
        styles = self.page.js("[...document.querySelectorAll('button')].map((b) => [b.textContent, getComputedStyle(b)])"
                              ".filter(([t, s]) => s.textDecorationLine !== 'none' || (s.borderTopWidth === '0px' && t !== 'markdown')).map(([t]) => t)")
        self.assertEqual(styles, [])
        toggle = "[document.getElementById('theme').textContent, document.getElementById('theme').ariaPressed]"
        self.assertEqual(self.page.js(toggle), ["Dark theme", "false"])
        self.click("Dark theme")
        self.assertEqual(self.page.js(toggle), ["Dark theme", "true"])
        self.page.size(390, 780)
        controls = self.page.js("[...document.querySelectorAll('header *')].filter((e) => e.matches('button, select') && e.checkVisibility()).map((e) => e.id)")
        self.assertEqual(controls, ["menu", "model", "open-settings"])
        self.page.size(1100, 800)

    def test_copy(self):
        """A code block has a button of its own, which also works where the page has no clipboard."""
        self.send("markdown")
        code = self.page.js("document.querySelector('pre code').textContent")
        self.page.js("Object.defineProperty(navigator, 'clipboard', { configurable: true, value: { writeText: async (t) => { window.copied = t; } } })")
        self.click("Copy", "document.querySelector('.code')")
        self.assertEqual(self.page.wait("window.copied"), code)
        self.page.wait("document.querySelector('.code button').textContent === 'Copied'")
        self.assertEqual(self.said(), "Copied.")
        self.page.wait("document.querySelector('.code button').textContent === 'Copy'")
        self.page.js("""Object.defineProperty(navigator, 'clipboard', { value: undefined });
                        document.execCommand = (what) => { window.selected = what + ' ' + document.activeElement.value; return true; }""")
        self.click("Copy", "document.querySelector('.code')")
        self.assertEqual(self.page.wait("window.selected"), "copy " + code)
        self.assertEqual(self.page.js("document.querySelectorAll('body > textarea').length"), 0)

    def test_examples(self):
        self.assertEqual(len(self.buttons("document.querySelector('.examples')")), 3)
        self.shot("empty")
        self.click("What is the capital of France?")
        self.wait_idle()
        self.assertEqual(self.articles()[1], ["assistant", "You said: What is the capital of France?"])

    def test_defaults(self):
        """Each setting shows the value that holds without it."""
        fields = "Object.fromEntries([...document.querySelectorAll('dialog :is(input, textarea)')].map((e) => [e.id, e.placeholder]))"
        self.click("Settings")
        self.assertEqual(self.page.js(fields), {"system": "none", "temperature": "0.7", "top_p": "0.9", "top_k": "40", "min_p": "0",
                                                "repetition_penalty": "1.1", "max_tokens": "to the end", "key": "none"})
        self.page.js("document.getElementById('top_p').focus()")
        self.page.type("2")
        self.page.js("document.getElementById('top_p').blur()")
        self.assertTrue(self.page.js("document.getElementById('top_p').matches(':invalid')"))
        self.page.js("document.getElementById('temperature').focus()")
        self.page.type("0")
        self.click("Done")
        self.send("hi")
        self.assertEqual((Handler.requests[-1]["temperature"], "top_p" in Handler.requests[-1]), (0, False))
        self.click("Settings")
        self.click("Use the defaults")
        self.assertEqual(self.page.js("document.getElementById('temperature').value"), "")
        self.click("Done")
        self.send("hi")
        self.assertNotIn("temperature", Handler.requests[-1])
        self.choose("base")
        self.click("Settings")
        self.assertEqual([self.page.js(f"document.getElementById('{i}').placeholder") for i in ("temperature", "max_tokens", "system")], ["0.25", "99", "Be kind."])
        self.click("Done")

    def test_base_model(self):
        """A model without a template: the page says what to do, and completes texts."""
        self.choose("base")
        said = self.shown()
        for part in ("base is a base model", "no chat template", "ga serve -m smollm2-135m", "--chat-template", "Begin a text"):
            self.assertIn(part, said)
        self.shot("base")
        self.assertEqual(self.page.js("document.getElementById('send').textContent"), "Complete")
        self.send("One two")
        request = Handler.requests[0]
        self.assertEqual((request["path"], request["prompt"], request["max_tokens"], request["model"]), ("/v1/completions", "One two", 99, "base"))
        self.assertEqual(self.articles()[1], ["assistant", " and so\n**on**"])  # no Markdown
        self.assertEqual(self.page.js("document.querySelectorAll('article strong').length"), 0)
        self.click("Continue")
        self.page.wait("document.querySelectorAll('article').length === 3")
        self.wait_idle()
        self.assertEqual(Handler.requests[1]["prompt"], "One two and so\n**on**")
        self.shot("completed")
        self.choose("tiny-a")  # every model continues texts
        self.send("!")
        self.assertEqual((Handler.requests[2]["path"], Handler.requests[2]["prompt"][-1]), ("/v1/completions", "!"))
        self.assertEqual(Handler.requests[2]["max_tokens"], 256)
        self.reload()
        self.assertEqual(len(self.articles()), 5)

    def test_obstacles(self):
        """A chat cannot go on with a base model, and nothing with an encoder: the page says so before anything is sent."""
        self.send("hello")
        self.choose("base")
        self.assertIn("base has no chat template", self.shown())
        self.assertTrue(self.page.js("document.getElementById('send').disabled"))
        self.send("more", end=False)
        self.assertEqual(len(Handler.requests), 1)
        self.click("New text")
        self.assertEqual(self.articles(), [])
        self.assertFalse(self.page.js("document.getElementById('send').disabled"))
        self.choose("encoder")
        self.assertIn("encoder makes embeddings", self.shown())
        self.assertTrue(self.page.js("document.getElementById('send').disabled"))
        self.choose("tiny-a")
        self.assertEqual(self.page.js("document.getElementById('notice').textContent"), "")

    def test_ability_told_late(self):
        """A server tells of an encoder when it is loaded: after the first request."""
        self.expect_failures = True
        with unittest.mock.patch.dict(MODELS, base={"capabilities": None}):
            self.reload()
            self.choose("base")
            self.assertEqual(self.page.js("document.getElementById('send').textContent"), "Complete")
            MODELS["base"] = {"capabilities": ["embedding"]}
            self.send("x y")
            self.page.wait("document.getElementById('notice').textContent.includes('base makes embeddings')")

    def test_retry(self):
        """Only where it can help: not after a request that the server refuses, and after a wrong key once there is another."""
        self.expect_failures = True
        self.send("refused")
        self.assertIn("too many tokens (status 400)", self.page.js("document.querySelector('.error').textContent"))
        self.assertEqual(self.buttons("document.querySelector('.error')"), [])
        self.page.js("document.getElementById('new').click()")
        Handler.key = "secret"
        self.send("who")
        self.assertEqual(self.buttons("document.querySelector('article:last-child .error')"), ["Enter the key"])
        self.click("Enter the key")
        self.assertEqual(self.page.js("document.activeElement.id"), "key")
        self.page.type("secret")
        self.click("Done")
        self.page.wait("[...document.querySelectorAll('article:last-child .error button')].some((b) => b.textContent === 'Retry')")
        self.click("Retry")
        self.wait_idle()
        self.assertEqual(self.articles()[-1], ["assistant", "You said: who"])

    def test_export(self):
        self.send("save me")
        self.page.js("""URL.createObjectURL = (blob) => { blob.text().then((t) => { window.saved = t; }); return "data:,"; };
                        HTMLAnchorElement.prototype.click = function () { window.savedAs = this.download; }""")
        self.page.js("document.getElementById('export').click()")
        saved = json.loads(self.page.wait("window.saved"))
        self.assertEqual(self.page.js("window.savedAs"), "save-me.json")
        self.assertEqual(saved["title"], "save me")
        self.assertEqual([m["content"] for m in saved["messages"]], ["save me", "You said: save me"])

    def test_settings(self):
        self.click("Settings")
        for name, value in (("system", "Be brief."), ("temperature", "0.5"), ("max_tokens", "77"), ("top_k", "5"), ("key", "key")):
            self.page.js(f"document.getElementById('{name}').focus()")
            self.page.type(value)
        self.shot("settings")
        self.click("Done")
        self.choose("tiny-b")
        Handler.key = "key"
        self.send("hi")
        request = Handler.requests[-1]
        self.assertEqual((request["temperature"], request["max_tokens"], request["top_k"], request["model"]), (0.5, 77, 5, "tiny-b"))
        self.assertNotIn("top_p", request)
        self.assertEqual(request["messages"][0], {"role": "system", "content": "Be brief."})
        self.assertNotIn('"key"', self.page.js("JSON.stringify(localStorage)").replace("\\", ""))
        self.assertEqual(self.page.js("sessionStorage.getItem('ga.key')"), "key")

    def test_no_key(self):
        self.expect_failures = True
        Handler.key = "secret"
        self.reload()
        self.page.wait("document.getElementById('status').textContent.includes('wrong or no API key (status 401)')")
        self.click("Enter the key")
        self.assertEqual(self.page.js("document.activeElement.id"), "key")
        self.page.type("secret")
        self.click("Done")
        self.page.wait("document.querySelectorAll('#model option').length === 4")

    def test_errors(self):
        self.expect_failures = True
        Handler.failures = 1
        self.send("fail now")
        said = self.page.js("document.querySelector('.error').textContent")
        self.assertIn("the queue is full: 64 requests wait (status 503)", said)
        self.assertEqual(self.page.js("document.querySelector('.error').getAttribute('role')"), "alert")
        self.shot("error")
        self.click("Retry")
        self.wait_idle()
        self.assertEqual(self.articles()[1], ["assistant", "You said: fail now"])
        self.send("broken stream")
        self.assertIn("the connection ended before the answer did", self.page.js("document.querySelector('.error').textContent"))
        self.assertEqual(self.articles()[3], ["assistant", "You said: broken stream"])  # what came is shown
        self.page.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1)
        self.click("Retry")
        self.page.wait("document.querySelector('.error')?.textContent.includes('the server does not answer')")
        self.page.call("Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1)

    def test_error_in_stream(self):
        Handler.gone.clear()
        self.send("lost")
        self.assertIn("the device was lost", self.page.js("document.querySelector('.error').textContent"))
        self.assertTrue(Handler.gone.wait(10))

    def test_hostile(self):
        self.send("hostile")
        text = self.articles()[1][1]
        for part in ("<script>window.bad = 1</script>", "<img src=x onerror='window.bad = 2'>", "<b>raw</b>", "[a](javascript:window.bad=3)",
                     "<script>window.bad = 4</script>", "<i onclick=bad()>bold</i>", "<u>code</u>", "<svg onload=window.bad=5>"):
            self.assertIn(part, text)
        self.assertEqual(self.page.js("window.bad ?? 0"), 0)
        self.assertEqual(self.page.js("document.querySelectorAll('article :is(script, img, svg, i, u, b, iframe)').length"), 0)
        self.assertEqual(self.page.js("[...document.querySelectorAll('article a')].map((a) => [a.textContent, a.href, a.rel])"),
                         [["b", "https://example.org/x?y=1", "noopener noreferrer"]])
        self.send("fence")
        self.assertEqual(self.page.js("[...document.querySelectorAll('pre code')].at(-1).textContent"), "open <b>fence")
        took = self.page.js("(() => { const t = performance.now(); for (const s of ['`', '*a', '**a', '_a ', '[', '[a](', '> ', '- ', '1. ', '``` '])"
                            " { markdown(s.repeat(20000)); markdown((s + '\\n').repeat(20000)); } return performance.now() - t; })()")
        self.assertLess(took, 8000)  # ms; half a second on one core

    def test_markdown(self):
        self.send("markdown")
        body = "document.querySelector('.assistant .body')"
        count = self.page.js(f"Object.fromEntries(['h2','p','ol','ol > li','ul','ul li','pre','code','strong','em','a','blockquote','hr']"
                             f".map((s) => [s, {body}.querySelectorAll(s).length]))")
        self.assertEqual(count, {"h2": 1, "p": 4, "ol": 1, "ol > li": 3, "ul": 1, "ul li": 2, "pre": 1, "code": 3, "strong": 2, "em": 2,
                                 "a": 2, "blockquote": 1, "hr": 1})
        self.assertIn("2 * 3 * 4 and snake_case_name.", self.page.js(f"{body}.textContent"))
        self.assertEqual(self.page.js(f"{body}.querySelector('.code .bar span').textContent"), "c")
        self.assertEqual(self.page.js(f"{body}.querySelectorAll('a')[1].href"), "https://example.org/x_y_z")
        self.shot("light")
        self.page.system_theme("dark")
        self.shot("dark")
        self.page.size(390, 780)
        self.shot("narrow_dark")
        self.page.system_theme("light")
        self.shot("narrow")
        self.assertTrue(self.page.js("document.documentElement.scrollWidth <= 390"))
        self.page.js("document.getElementById('menu').click()")
        time.sleep(0.3)
        self.shot("narrow_chats")
        self.assertTrue(self.page.js("document.querySelector('#chats .open').checkVisibility({ visibilityProperty: true })"))
        self.page.press("Escape")
        self.page.wait("!document.querySelector('#chats .open').checkVisibility({ visibilityProperty: true })")
        self.page.size(1100, 800)

    def test_reasoning(self):
        self.send("think hard")
        self.assertEqual(self.page.js("document.querySelector('details div').textContent"), "First I think.")
        self.assertFalse(self.page.js("document.querySelector('details').open"))
        self.page.js("document.querySelector('summary').focus()")
        self.page.press("Enter")
        self.assertTrue(self.page.js("document.querySelector('details').open"))
        self.assertEqual(self.articles()[1][1], "You said: think hard")
        self.send("long")
        self.assertEqual(Handler.requests[1]["messages"][1], {"role": "assistant", "content": "You said: think hard"})
        self.assertIn("cut at the limit of tokens", self.page.js("[...document.querySelectorAll('.tools span')].at(-1).textContent"))

    def test_theme(self):
        colour = "getComputedStyle(document.body).backgroundColor"
        light = self.page.js(colour)
        self.page.system_theme("dark")
        dark = self.page.js(colour)
        self.assertNotEqual(light, dark)
        self.page.wait("document.getElementById('theme').ariaPressed === 'true'")
        self.click("Dark theme")
        self.assertEqual(self.page.js(colour), light)
        self.reload()
        self.assertEqual(self.page.js(colour), light)
        self.click("Dark theme")
        self.page.system_theme("light")
        self.assertEqual(self.page.js(colour), dark)
        self.shot("empty_dark")

    def test_keyboard(self):
        self.page.type("first")
        self.page.press("Enter", shift=True)
        self.page.type("second")
        self.page.press("Enter")
        self.wait_idle()
        self.assertEqual(Handler.requests[0]["messages"][0]["content"], "first\nsecond")
        reached = set()
        for _ in range(30):
            self.page.press("Tab")
            name, outline = self.page.js("[document.activeElement.id || document.activeElement.textContent, "
                                         "getComputedStyle(document.activeElement).outlineStyle]")
            if name and self.page.js("document.activeElement !== document.body"):
                self.assertNotEqual(outline, "none", name)
                reached.add(name)
        for name in ("new", "model", "open-settings", "scroll", "input", "send", "Edit", "Regenerate", "Rename", "Delete"):
            self.assertIn(name, reached)
        self.page.js("document.getElementById('open-settings').focus()")
        self.page.press("Enter")
        self.assertTrue(self.page.js("document.getElementById('settings').open"))
        self.page.press("Escape")
        self.assertFalse(self.page.js("document.getElementById('settings').open"))
        self.assertEqual(self.page.js("document.activeElement.id"), "open-settings")

    def test_names(self):
        """Every control has a name that a screen reader says."""
        self.send("hello")
        self.page.call("Accessibility.enable")
        nodes = self.page.call("Accessibility.getFullAXTree")["nodes"]
        self.page.call("Accessibility.disable")
        roles = {}
        for node in nodes:
            if not node["ignored"]:
                role, name = node["role"]["value"], node.get("name", {}).get("value", "")
                roles.setdefault(role, []).append(name)
        for role in ("button", "textbox", "combobox", "navigation", "log", "article"):
            self.assertTrue(roles.get(role) and all(roles[role]), (role, roles.get(role)))
        self.assertIn("status", roles)

    def test_patch(self):
        """What is the same stays while an answer grows: a selection, an open part."""
        self.page.js("""window.old = markdown("one\\n\\ntwo"); window.first = old.firstChild; document.body.append(old);
                        patch(old, markdown("one\\n\\ntwo **three**\\n\\n- four"));""")
        self.assertTrue(self.page.js("old.firstChild === first && old.isEqualNode(markdown('one\\n\\ntwo **three**\\n\\n- four'))"))
        self.page.js("patch(old, markdown('five'))")
        self.assertTrue(self.page.js("old.isEqualNode(markdown('five'))"))
        self.page.js("old.remove()")

    def test_failed_turns(self):
        """Roles alternate in what is sent, although an answer is missing."""
        self.expect_failures = True
        Handler.failures = 1
        self.send("fail")
        self.send("next")
        self.assertEqual(Handler.requests[1]["messages"], [{"role": "user", "content": "fail\n\nnext"}])

    def test_two_conversations(self):
        """An answer goes to the conversation that asked, whichever is shown."""
        self.send("slow", end=False)
        self.page.wait("document.querySelector('.assistant .body')?.textContent.length > 10")
        self.page.js("document.getElementById('new').click()")
        self.assertEqual(self.articles(), [])
        self.page.js("[...document.querySelectorAll('#chats .open')].at(-1).click()")
        at = len(self.articles()[1][1])
        self.page.wait(f"document.querySelector('.assistant .body').textContent.length > {at + 10}")
        self.page.js("window.old = true")
        self.page.call("Page.reload")  # in the middle: what came is kept
        self.page.wait("!window.old && document.readyState === 'complete' && document.querySelectorAll('#model option').length === 4")
        self.assertGreater(len(self.articles()[1][1]), at)


if __name__ == "__main__":
    del sys.argv[1:2]  # the program: this test needs the page's files alone
    BROWSER = devtools.find_browser()
    if not BROWSER:
        print(f"skipped: none of {', '.join(devtools.NAMES)} is installed (Debian: apt-get install chromium)")
        sys.exit(77)
    unittest.main()
