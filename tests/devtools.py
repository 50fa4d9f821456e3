"""A page in headless Chromium, driven by the DevTools protocol over a WebSocket; the standard library alone."""
import base64
import contextlib
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import urllib.request

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# 127.0.0.1 alone has an address; the browser's own services are off.
OPTIONS = ("--headless=new", "--remote-debugging-port=0", "--no-first-run", "--no-default-browser-check", "--disable-gpu",
           "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--disable-sync",
           "--disable-extensions", "--hide-scrollbars", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")


def find_browser():
    return next(filter(None, map(shutil.which, NAMES)), None)


class WebSocket:
    """Text messages of any length: RFC 6455, the client's side."""

    def __init__(self, url, timeout):
        host, _, path = url.removeprefix("ws://").partition("/")
        name, _, port = host.partition(":")
        self.socket = socket.create_connection((name, int(port)), timeout)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        self.file = self.socket.makefile("rb")
        status = self.file.readline()
        assert b" 101 " in status, status
        while self.file.readline().strip():
            pass

    def send(self, text, kind=1):
        raw, mask = text.encode(), os.urandom(4)
        n = len(raw)
        head = bytes([0x80 | kind])
        if n < 126:
            head += bytes([0x80 | n])
        elif n < 65536:
            head += b"\xfe" + struct.pack(">H", n)
        else:
            head += b"\xff" + struct.pack(">Q", n)
        self.socket.sendall(head + mask + bytes(b ^ mask[i & 3] for i, b in enumerate(raw)))

    def receive(self):
        whole = b""
        while True:
            first, n = self.file.read(2)
            if n == 126:
                n, = struct.unpack(">H", self.file.read(2))
            elif n == 127:
                n, = struct.unpack(">Q", self.file.read(8))
            raw = self.file.read(n)
            if first & 15 == 9:  # ping
                self.send(raw.decode(), 10)
            elif first & 15 < 3:
                whole += raw
                if first & 0x80:
                    return whole.decode()

    def close(self):
        self.file.close()
        self.socket.close()


KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, ""), " ": (32, " ")}


class Page:
    """One page of a browser of its own. `events` are the protocol's, in order."""

    def __init__(self, browser, timeout=30):
        self.folder = tempfile.mkdtemp(prefix="ga_page_")
        self.timeout, self.events, self.number = timeout, [], 0
        root = ("--no-sandbox",) if os.geteuid() == 0 else ()
        self.process = subprocess.Popen([browser, *OPTIONS, *root, f"--user-data-dir={self.folder}", "about:blank"],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port = self.wait_for_port()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=timeout) as f:
            target = next(t for t in json.load(f) if t["type"] == "page")
        self.web = WebSocket(target["webSocketDebuggerUrl"], timeout)
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def wait_for_port(self):
        end = time.monotonic() + self.timeout
        while time.monotonic() < end and self.process.poll() is None:
            with contextlib.suppress(OSError, IndexError), open(os.path.join(self.folder, "DevToolsActivePort")) as f:
                return int(f.read().split()[0])
            time.sleep(0.05)
        raise RuntimeError(f"the browser did not start: exit code {self.process.poll()}")

    def close(self):
        with contextlib.suppress(Exception):
            self.call("Browser.close")
        with contextlib.suppress(Exception):
            self.web.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, method, **params):
        self.number += 1
        self.web.send(json.dumps({"id": self.number, "method": method, "params": params}))
        while True:
            message = json.loads(self.web.receive())
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def js(self, code):
        result = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True, userGesture=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{code}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, code, seconds=10):
        """Until an expression is true; its value."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(RuntimeError):  # a page that is being left
                if value := self.js(code):
                    return value
            time.sleep(0.02)
        raise AssertionError(f"not true in {seconds} s: {code}\n{self.js('document.body.innerText')}")

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait(f"document.readyState === 'complete' && location.href.startsWith({json.dumps(url)})")

    def type(self, text):
        self.call("Input.insertText", text=text)

    def press(self, key, shift=False):
        code, text = KEYS[key]
        common = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": code, "modifiers": 8 * shift}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)

    def system_theme(self, theme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])

    def shot(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("Page.captureScreenshot")["data"]))
