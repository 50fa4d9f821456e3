// The chat page: talks to /v1/models and /v1/chat/completions of the server that it came from. What a model writes
// becomes text nodes and elements made here, never markup.
"use strict";

const $ = (id) => document.getElementById(id);

// ---- What is kept: conversations and settings in localStorage, the API key in sessionStorage ----

const CHAT = "ga.chat.";
// Fields of requests: name, label, attributes of the input. An empty one has the model's default.
const FIELDS = [
  ["temperature", "Temperature", { min: 0, max: 100, step: "any" }],
  ["top_p", "Top-p", { min: 0, max: 1, step: "any" }],
  ["top_k", "Top-k", { min: 0, step: 1 }],
  ["min_p", "Min-p", { min: 0, max: 1, step: "any" }],
  ["repetition_penalty", "Repetition penalty", { min: 0.001, max: 100, step: "any" }],
  ["max_tokens", "Max tokens", { min: 1, step: 1 }],
];
const TEXT_TOKENS = 256; // default length of the continuation of a text
const EXAMPLES = {
  chat: ["What is the capital of France?", "Explain what a hash table is, in three sentences.", "Write a function in C that reverses a string."],
  text: ["The three primary colours are", "Once upon a time, there was a small robot that", "def fibonacci(n):\n"],
};
let settings = { model: "", theme: "" };
let models = new Map(); // entries of /v1/models by name
let refusedKey; // the API key that was refused last
let chat; // the one that is shown
let job;  // the answer that is being written: { chat, message, abort }

function read(key) {
  try { return JSON.parse(localStorage.getItem(key)); } catch { return null; }
}
function write(key, value) {
  try { localStorage.setItem(key, JSON.stringify(value)); } catch (e) { say(`This browser did not keep the conversation: ${e.message}`); }
}
const saveSettings = () => write("ga.settings", settings);

function newChat() {
  const id = Date.now().toString(36) + Math.random().toString(36).slice(2, 8);
  return { id, title: "", system: "", changed: Date.now(), messages: [] };
}
function saveChat(c) {
  if (!c.messages.length && !c.system && !c.title) return;
  c.changed = Date.now();
  write(CHAT + c.id, c);
}
function isChat(c) {
  return c && typeof c.id === "string" && Array.isArray(c.messages) && c.messages.every((m) => typeof m?.content === "string");
}
function allChats() {
  const found = Object.keys(localStorage).filter((k) => k.startsWith(CHAT)).map(read).filter(isChat);
  const shown = found.map((c) => (c.id === chat?.id ? chat : c.id === job?.chat.id ? job.chat : c));
  if (chat && !shown.includes(chat)) shown.push(chat);
  return shown.sort((a, b) => b.changed - a.changed);
}
function titleOf(c) {
  return c.title || c.messages.find((m) => m.role === "user")?.content.trim().slice(0, 60) || "New conversation";
}

// ---- Abilities of models ----

const abilities = () => models.get(settings.model)?.capabilities;
const defaultOf = (name, without) => models.get(settings.model)?.default_sampling?.[name] ?? without;
// Models chat while the list is not loaded, and on servers that do not list capabilities.
const canChat = () => abilities() === undefined || !!abilities()?.includes("chat");
const kindOf = (c) => c.kind ?? (c.messages.length || canChat() ? "chat" : "text");

const canWrite = () => !abilities()?.includes("embedding");

// Why the model cannot go on with a conversation; "" if it can.
function obstacle(c) {
  if (!canWrite()) return `${settings.model} makes embeddings and writes no text.`;
  if (kindOf(c) === "chat" && !canChat()) return `${settings.model} has no chat template: it continues texts, and cannot go on with this chat.`;
  return "";
}

function emptyPage() {
  const kind = kindOf(chat), node = el("div", { className: "empty" });
  if (!canWrite()) return node;
  node.append(el("h1", {}, kind === "chat" ? "Ask something" : "Begin a text"));
  if (kind === "text")
    node.append(el("p", {}, `${settings.model} is a base model: it continues texts. It cannot chat, since it has no chat template.`),
      el("p", {}, "To chat, start the server with a chat model: ", el("code", {}, "ga serve -m smollm2-135m"),
        ", or give this one a template: ", el("code", {}, "--chat-template chatml"), "."));
  node.append(el("div", { className: "examples" }, ...EXAMPLES[kind].map((text) => button(text, () => { $("input").value = text; send(); }))),
    el("p", {}, "Conversations are kept in this browser alone."));
  return node;
}

// ---- The list of conversations ----

function showChat(c) {
  chat = c;
  write("ga.current", c.id);
  $("log").ariaLive = "off"; // a screen reader says new messages, not all of them
  showList();
  showLog();
  setTimeout(() => { $("log").ariaLive = "polite"; }, 300);
}

function showList(renaming) {
  $("chats").replaceChildren(...allChats().map((c) => {
    const current = c === chat, title = titleOf(c);
    const item = el("li", { className: current ? "current" : "" });
    if (current && renaming) {
      const input = el("input", { value: title, ariaLabel: "Name of the conversation" });
      let ended = false; // leaving the field ends it again
      const end = (keep) => {
        if (ended) return;
        ended = true;
        if (keep) { chat.title = input.value.trim(); saveChat(chat); }
        showList();
        $("chats").querySelector(".current .open").focus();
      };
      input.onkeydown = (e) => {
        if (e.isComposing || (e.key !== "Enter" && e.key !== "Escape")) return;
        e.preventDefault();
        e.stopPropagation();
        end(e.key === "Enter");
      };
      input.onchange = () => end(true);
      item.append(input);
      setTimeout(() => input.select());
      return item;
    }
    const open = button(title, () => { showChat(c); toggleMenu(false); $("input").focus(); }, { className: "open", title });
    item.append(open);
    if (!current) return item;
    open.ariaCurrent = "true";
    item.append(el("div", { className: "tools" }, button("Rename", () => showList(true)), button("Delete", () => deleteChat(c))));
    return item;
  }));
}

function deleteChat(c) {
  if (job?.chat === c) stop();
  const kept = structuredClone(c);
  localStorage.removeItem(CHAT + c.id);
  chat = null;
  showChat(allChats()[0] ?? newChat());
  say(`Deleted "${titleOf(kept)}".`, "Undo", () => { write(CHAT + kept.id, kept); showChat(kept); say(""); });
  $("status").querySelector("button").focus();
}

function exportChat() {
  const { title, system, messages } = { ...chat, title: titleOf(chat) };
  const text = JSON.stringify({ title, model: settings.model, kind: kindOf(chat), system, messages }, null, 2);
  const href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  el("a", { href, download: `${title.replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 40) || "conversation"}.json` }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10000);
}

// ---- Messages ----

function statsOf(s) {
  if (!s) return "";
  const parts = [];
  if (s.first) parts.push(`first token ${s.first < 1000 ? `${Math.round(s.first)} ms` : `${(s.first / 1000).toFixed(1)} s`}`);
  if (s.tokens) parts.push(`${s.about ? "about " : ""}${s.tokens} tokens`);
  if (s.speed) parts.push(`${s.speed.toFixed(1)} tokens/s`);
  if (s.end) parts.push(s.end);
  return parts.join(" · ");
}

// Asking again helps where the server was busy or away, and not where it refuses the request. A refused key has to be
// another one first.
function canRetry(m) {
  return m.status === 401 ? sessionStorage.getItem("ga.key") !== refusedKey : !m.status || m.status === 408 || m.status === 429 || m.status >= 500;
}

function errorBox(m, i) {
  const node = el("div", { className: "error", role: "alert" }, el("b", {}, "Error: "), m.error);
  if (canRetry(m)) node.append(button("Retry", () => answer(chat, i)));
  else if (m.status === 401) node.append(button("Enter the key", () => openSettings("key")));
  return node;
}

// Makes an element like another one; what is the same stays, and so do selections in it.
function patch(old, wanted) {
  if (old.isEqualNode(wanted)) return;
  if (old.nodeName !== wanted.nodeName || !["ARTICLE", "DETAILS", "DIV"].includes(old.nodeName)) { old.replaceWith(wanted); return; }
  const have = [...old.childNodes], want = [...wanted.childNodes];
  want.forEach((node, i) => (have[i] ? patch(have[i], node) : old.append(node)));
  have.slice(want.length).forEach((node) => node.remove());
}

function answerNodes(m, i, writing) {
  const nodes = [];
  if (m.reasoning) {
    const open = $("log").children[i]?.querySelector("details")?.open ?? (writing && !m.content);
    nodes.push(el("details", { open }, el("summary", {}, "Reasoning"), el("div", {}, m.reasoning)));
  }
  if (m.content) nodes.push(kindOf(chat) === "text" ? el("div", { className: "body text" }, m.content) : markdown(m.content));
  else if (writing && !m.reasoning) nodes.push(el("p", { className: "wait" }, "Waiting for the first token …"));
  if (m.error) nodes.push(errorBox(m, i));
  return nodes;
}

function messageNode(m, i) {
  const writing = job?.message === m;
  const node = el("article", { className: m.role, ariaLabel: m.role === "user" ? "You" : "Model", ariaBusy: String(writing) });
  const canContinue = kindOf(chat) === "text" && i === chat.messages.length - 1;
  node.shown = JSON.stringify([i, m, writing, canContinue, m.error && canRetry(m)]);
  const tools = el("div", { className: "tools" });
  if (m.role === "user") {
    node.append(el("div", { className: "body" }, m.content));
    tools.append(button("Edit", () => edit(i), { className: "change" }));
  } else {
    node.append(...answerNodes(m, i, writing));
    if (writing) return node;
    if (!m.error) tools.append(button("Regenerate", () => answer(chat, i), { className: "change" }));
    if (!m.error && canContinue) tools.append(button("Continue", () => answer(chat, i + 1), { className: "change" }));
  }
  if (m.content) tools.append(button("Copy", (e) => copy(m.content, e.currentTarget)));
  if (m.stats) tools.append(el("span", {}, statsOf(m.stats)));
  node.append(tools);
  return node;
}

// Pages that come by http from another machine have no clipboard. There the browser copies the selected text.
function copySelected(text) {
  const focus = document.activeElement, field = el("textarea", { value: text, className: "sr" });
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  focus?.focus();
  if (!done) throw new Error("the browser does not allow it");
}

async function copy(text, from) {
  try {
    if (navigator.clipboard) await navigator.clipboard.writeText(text);
    else copySelected(text);
    from.textContent = "Copied";
    setTimeout(() => { from.textContent = "Copy"; }, 2000);
    announce("Copied.");
  } catch (e) { say(`Not copied: ${e.message}`); }
}

// Changes the messages; the view stays at the end if it was there.
function keepEnd(change) {
  const view = $("scroll"), atEnd = view.scrollHeight - view.scrollTop - view.clientHeight < 60;
  change();
  if (atEnd) view.scrollTop = view.scrollHeight;
}

function showLog() {
  const log = $("log");
  keepEnd(() => {
    if (!chat.messages.length) log.replaceChildren(emptyPage());
    chat.messages.forEach((m, i) => {
      const node = messageNode(m, i), old = log.children[i];
      if (!old) log.append(node);
      else if (old.shown !== node.shown) old.replaceWith(node);
    });
    while (chat.messages.length && log.children.length > chat.messages.length) log.lastChild.remove();
  });
  showComposer();
  $("stop").hidden = !job;
  document.title = chat.messages.length ? `${titleOf(chat)} · GA chat` : "GA chat";
}

function showComposer() {
  const why = obstacle(chat), isText = kindOf(chat) === "text";
  for (const change of $("log").querySelectorAll(".change")) change.disabled = !!job || !!why;
  $("log").className = isText ? "texts" : "";
  $("input-label").textContent = $("input").placeholder = isText ? "Beginning of a text" : "Message";
  $("send").textContent = isText ? "Complete" : "Send";
  $("send").disabled = !!why;
  $("send").hidden = !!job;
  $("notice").replaceChildren(why, ...(why && canWrite() ? [button("New text", () => { showChat(newChat()); $("input").focus(); })] : []));
}

function edit(i) {
  const field = el("textarea", { value: chat.messages[i].content, rows: 4, ariaLabel: "Edit the message" });
  const article = $("log").children[i];
  article.shown = "";
  const cancel = () => { showLog(); $("input").focus(); };
  const send = () => {
    if (!field.value.trim() || job) return;
    chat.messages[i].content = field.value;
    answer(chat, i + 1);
    $("input").focus();
  };
  field.onkeydown = (e) => {
    if (isSend(e)) { e.preventDefault(); send(); }
    if (e.key === "Escape") { e.stopPropagation(); cancel(); }
  };
  article.replaceChildren(el("div", { className: "edit" }, field,
    el("div", { className: "tools" }, button("Send", send), button("Cancel", cancel))));
  field.focus();
}

// ---- The server ----

function headers(more) {
  const key = sessionStorage.getItem("ga.key");
  return { ...more, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
}

async function failureOf(response) {
  let text = await response.text(), message = "";
  try { message = JSON.parse(text).error.message; } catch { message = text.startsWith("<") ? "" : text.slice(0, 300); }
  text = `${message || response.statusText || "the server gave no reason"} (status ${response.status})`;
  if (response.status === 401) refusedKey = sessionStorage.getItem("ga.key");
  return Object.assign(new Error(text), { status: response.status });
}

async function call(path, options) {
  const response = await fetch(path, options).catch((e) => {
    throw e.name === "AbortError" ? e : new Error("the server does not answer");
  });
  if (!response.ok) throw await failureOf(response);
  return response;
}

async function loadModels() {
  try {
    const response = await call("v1/models", { headers: headers() });
    models = new Map((await response.json()).data.map((m) => [String(m.id), m]));
    const names = [...models.keys()];
    if (!names.includes(settings.model)) settings.model = names[0] ?? "";
    $("model").replaceChildren(...names.map((n) => el("option", { value: n, textContent: n, selected: n === settings.model })));
    say(names.length ? "" : "The server has no model.");
    showLog();
  } catch (e) {
    if (e.status === 401) say(`No list of models: ${e.message}`, "Enter the key", () => openSettings("key"));
    else say(`No list of models: ${e.message}`, "Retry", loadModels);
  }
}

// Calls `take` with the JSON of every event; true when the stream said that it was done.
async function readEvents(response, take) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { done, value } = await reader.read();
    if (done) return false;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data:")) continue;
      const data = line.slice(5).trim();
      if (data === "[DONE]") return true;
      take(JSON.parse(data));
    }
  }
}

function requestOf(c) {
  const request = { model: settings.model || undefined, stream: true, stream_options: { include_usage: true } };
  for (const [name] of FIELDS) if (settings[name]) request[name] = Number(settings[name]);
  if (kindOf(c) === "text") return { max_tokens: defaultOf("max_tokens", TEXT_TOKENS), ...request, prompt: c.messages.map((m) => m.content).join("") };
  const messages = [];
  for (const { role, content } of c.messages.filter((m) => m.content)) {
    const last = messages.at(-1);
    if (last?.role === role) last.content += `\n\n${content}`; // its answer failed; templates want roles to alternate
    else messages.push({ role, content });
  }
  if (c.system.trim()) messages.unshift({ role: "system", content: c.system });
  return { ...request, messages };
}

async function stream(m, request, signal) {
  const start = performance.now(), stats = (m.stats = { tokens: 0, about: true });
  let first = 0, last = 0;
  const count = (tokens) => {
    stats.tokens = tokens;
    if (tokens > 1 && last > first) stats.speed = ((tokens - 1) * 1000) / (last - first);
  };
  const response = await call(request.messages ? "v1/chat/completions" : "v1/completions",
    { method: "POST", body: JSON.stringify(request), signal, headers: headers({ "Content-Type": "application/json" }) });
  const done = await readEvents(response, (event) => {
    if (event.error) throw new Error(event.error.message ?? "the server failed");
    const choice = event.choices?.[0], delta = choice?.delta ?? { content: choice?.text };
    if (delta.content || delta.reasoning_content) {
      if (delta.content && !m.content && m.reasoning) closeReasoning(m);
      m.content += delta.content ?? "";
      m.reasoning = (m.reasoning ?? "") + (delta.reasoning_content ?? "");
      last = performance.now();
      first ||= last;
      stats.first = first - start;
      count(stats.tokens + 1); // until the server tells the number
      refresh();
    }
    if (choice?.finish_reason === "length") stats.end = "cut at the limit of tokens";
    if (event.usage?.completion_tokens) {
      stats.about = false;
      count(event.usage.completion_tokens);
    }
  });
  if (!done) throw new Error("the connection ended before the answer did");
}

function closeReasoning(m) {
  const details = chat.messages.includes(m) && $("log").lastChild.querySelector("details");
  if (details) details.open = false;
}

let refreshing = 0;
function refresh() {
  refreshing ||= setTimeout(() => {
    refreshing = 0;
    const i = chat.messages.indexOf(job?.message);
    if (i >= 0) keepEnd(() => patch($("log").children[i], el("article", {}, ...answerNodes(job.message, i, true))));
  }, 40);
}

// Asks for message i of a conversation; what stood there and after it goes.
async function answer(c, i) {
  if (job) return;
  const message = { role: "assistant", content: "" }, abort = new AbortController();
  c.kind ??= kindOf(c);
  c.messages.length = i;
  const request = requestOf(c);
  c.messages.push(message);
  job = { chat: c, message, abort };
  saveChat(c);
  showList();
  showLog();
  if (document.activeElement === document.body) $("input").focus(); // the button that was pressed is gone
  $("scroll").scrollTop = $("scroll").scrollHeight;
  say("");
  announce("Writing …");
  try {
    await stream(message, request, abort.signal);
    announce("The answer is complete.");
  } catch (e) {
    if (abort.signal.aborted) message.stats.end = "stopped";
    else Object.assign(message, { error: e.message, status: e.status });
    announce(abort.signal.aborted ? "Stopped." : ""); // an error box is an alert
    if (e.status === 400) loadModels(); // the model is loaded now, and its capabilities are known
  }
  abort.abort(); // after an error the server may still be writing
  job = null;
  if (localStorage.getItem(CHAT + c.id)) saveChat(c);
  if (!$("chats").querySelector("input")) showList(); // unless one is being renamed
  if (c === chat) showLog();
}

function stop() {
  job?.abort.abort();
}

// ---- Controls ----

function say(text, action, run) {
  $("status").replaceChildren(text, ...(action ? [button(action, run)] : []));
}
// Says something to screen readers alone: others see it.
function announce(text) {
  $("said").textContent = text;
}
const isSend = (e) => e.key === "Enter" && !e.shiftKey && !e.isComposing;

function fitInput() {
  const input = $("input");
  input.style.height = "auto";
  input.style.height = `${input.scrollHeight + 2}px`;
}

function send() {
  const content = $("input").value;
  if (!content.trim() || job || obstacle(chat)) return;
  chat.kind ??= kindOf(chat);
  chat.messages.push({ role: "user", content });
  $("input").value = "";
  fitInput();
  answer(chat, chat.messages.length);
}

function toggleMenu(open) {
  $("side").classList.toggle("open", open);
  $("menu").ariaExpanded = String(open);
}

const systemDark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (settings.theme ? settings.theme === "dark" : systemDark.matches);
function showTheme() {
  document.documentElement.dataset.theme = settings.theme;
  $("theme").ariaPressed = String(isDark());
}

// ---- Settings ----

function showFields() {
  for (const [name] of FIELDS) {
    $(name).value = settings[name] ?? "";
    $(name).placeholder = defaultOf(name, name !== "max_tokens" ? "the model's" : kindOf(chat) === "text" ? TEXT_TOKENS : "to the end");
  }
  $("system").placeholder = models.get(settings.model)?.default_system ?? "none";
}

function openSettings(focus) {
  $("system").value = chat.system;
  $("system").disabled = kindOf(chat) === "text";
  $("key").value = sessionStorage.getItem("ga.key") ?? "";
  showFields();
  $("settings").showModal();
  if (focus) $(focus).focus();
}

function makeFields() {
  for (const [name, label, attributes] of FIELDS) {
    const input = el("input", { id: name, type: "number", ...attributes });
    input.onchange = () => {
      if (!input.reportValidity()) return; // the former value stays
      settings[name] = input.value;
      saveSettings();
    };
    $("fields").append(el("label", {}, label, input));
  }
}

function useDefaults() {
  for (const [name] of FIELDS) delete settings[name];
  settings.theme = "";
  saveSettings();
  showTheme();
  showFields();
}

function start() {
  const { maxTokens, ...kept } = read("ga.settings") ?? {}; // the former name of max_tokens
  settings = { ...settings, max_tokens: maxTokens, ...kept };
  makeFields();
  showTheme();
  systemDark.onchange = showTheme;
  $("theme").onclick = () => { settings.theme = isDark() ? "light" : "dark"; saveSettings(); showTheme(); };
  $("menu").onclick = () => { toggleMenu(!$("side").classList.contains("open")); };
  $("new").onclick = () => { showChat(chat.messages.length ? newChat() : chat); toggleMenu(false); $("input").focus(); };
  $("model").onchange = () => { settings.model = $("model").value; saveSettings(); showLog(); };
  $("stop").onclick = () => { stop(); $("input").focus(); };
  $("input").oninput = fitInput;
  $("input").onkeydown = (e) => { if (isSend(e)) { e.preventDefault(); send(); } };
  $("composer").onsubmit = (e) => { e.preventDefault(); send(); };
  $("export").onclick = exportChat;
  $("open-settings").onclick = () => openSettings();
  $("defaults").onclick = useDefaults;
  $("close-settings").onclick = () => $("settings").close();
  $("system").oninput = () => { chat.system = $("system").value; saveChat(chat); };
  $("key").onchange = () => { sessionStorage.setItem("ga.key", $("key").value.trim()); loadModels(); };
  document.addEventListener("keydown", (e) => {
    if (e.key !== "Escape" || $("settings").open) return;
    if ($("side").classList.contains("open")) { toggleMenu(false); $("menu").focus(); } else stop();
  });
  document.addEventListener("pointerdown", (e) => {
    if (!$("side").contains(e.target) && !$("menu").contains(e.target)) toggleMenu(false);
  });
  addEventListener("pagehide", () => { if (job) saveChat(job.chat); });
  addEventListener("storage", () => showList()); // another tab
  showChat(allChats().find((c) => c.id === read("ga.current")) ?? allChats()[0] ?? newChat());
  loadModels();
  $("input").focus();
}

start();
