// The chat page: talks to /v1/models and /v1/chat/completions of the server that it came from. What a model writes
// becomes text nodes and elements made here, never markup.
"use strict";

const $ = (id) => document.getElementById(id);

// ---- What is kept: conversations and settings in localStorage, the API key in sessionStorage ----

const CHAT = "ga.chat.";
let settings = { model: "", temperature: "", maxTokens: "", theme: "" };
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
  const text = JSON.stringify({ title, model: settings.model, system, messages }, null, 2);
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

function errorBox(m, i) {
  return el("div", { className: "error", role: "alert" }, el("b", {}, "Error: "), m.error,
    button("Retry", () => answer(chat, i)));
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
  if (m.content) nodes.push(markdown(m.content));
  else if (writing && !m.reasoning) nodes.push(el("p", { className: "wait" }, "Waiting for the first token …"));
  if (m.error) nodes.push(errorBox(m, i));
  return nodes;
}

function messageNode(m, i) {
  const writing = job?.message === m;
  const node = el("article", { className: m.role, ariaLabel: m.role === "user" ? "You" : "Model", ariaBusy: String(writing) });
  node.shown = JSON.stringify([i, m, writing]);
  const tools = el("div", { className: "tools" });
  if (m.role === "user") {
    node.append(el("div", { className: "body" }, m.content));
    tools.append(button("Edit", () => edit(i), { className: "change" }));
  } else {
    node.append(...answerNodes(m, i, writing));
    if (writing) return node;
    if (!m.error) tools.append(button("Regenerate", () => answer(chat, i), { className: "change" }));
  }
  if (navigator.clipboard && m.content) tools.append(button("Copy", () => copy(m.content)));
  if (m.stats) tools.append(el("span", {}, statsOf(m.stats)));
  node.append(tools);
  return node;
}

async function copy(text) {
  try { await navigator.clipboard.writeText(text); say("Copied."); } catch (e) { say(`Not copied: ${e.message}`); }
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
    if (!chat.messages.length)
      log.replaceChildren(el("div", { className: "empty" }, el("h1", {}, "Ask something"),
        el("p", {}, "Conversations are kept in this browser alone.")));
    chat.messages.forEach((m, i) => {
      const node = messageNode(m, i), old = log.children[i];
      if (!old) log.append(node);
      else if (old.shown !== node.shown) old.replaceWith(node);
    });
    while (chat.messages.length && log.children.length > chat.messages.length) log.lastChild.remove();
  });
  for (const change of log.querySelectorAll(".change")) change.disabled = !!job;
  $("send").hidden = !!job;
  $("stop").hidden = !job;
  document.title = chat.messages.length ? `${titleOf(chat)} · GA chat` : "GA chat";
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
  return new Error(response.status === 401 ? `${text}. The API key is in the settings.` : text);
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
    const names = (await response.json()).data.map((m) => String(m.id));
    if (!names.includes(settings.model)) settings.model = names[0] ?? "";
    $("model").replaceChildren(...names.map((n) => el("option", { value: n, textContent: n, selected: n === settings.model })));
    say(names.length ? "" : "The server has no model.");
  } catch (e) {
    say(`No list of models: ${e.message}`, "Retry", loadModels);
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
  const messages = [];
  for (const { role, content } of c.messages.filter((m) => m.content)) {
    const last = messages.at(-1);
    if (last?.role === role) last.content += `\n\n${content}`; // its answer failed; templates want roles to alternate
    else messages.push({ role, content });
  }
  if (c.system.trim()) messages.unshift({ role: "system", content: c.system });
  const request = { model: settings.model || undefined, messages, stream: true, stream_options: { include_usage: true } };
  if (settings.temperature !== "") request.temperature = Number(settings.temperature);
  if (settings.maxTokens !== "") request.max_tokens = Number(settings.maxTokens);
  return request;
}

async function stream(m, body, signal) {
  const start = performance.now(), stats = (m.stats = { tokens: 0, about: true });
  let first = 0, last = 0;
  const count = (tokens) => {
    stats.tokens = tokens;
    if (tokens > 1 && last > first) stats.speed = ((tokens - 1) * 1000) / (last - first);
  };
  const response = await call("v1/chat/completions", { method: "POST", body, signal, headers: headers({ "Content-Type": "application/json" }) });
  const done = await readEvents(response, (event) => {
    if (event.error) throw new Error(event.error.message ?? "the server failed");
    const choice = event.choices?.[0], delta = choice?.delta ?? {};
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
  c.messages.length = i;
  const body = JSON.stringify(requestOf(c));
  c.messages.push(message);
  job = { chat: c, message, abort };
  saveChat(c);
  showList();
  showLog();
  if (document.activeElement === document.body) $("input").focus(); // the button that was pressed is gone
  $("scroll").scrollTop = $("scroll").scrollHeight;
  say("Writing …");
  try {
    await stream(message, body, abort.signal);
    say("The answer is complete.");
  } catch (e) {
    if (abort.signal.aborted) message.stats.end = "stopped";
    else message.error = e.message;
    say(abort.signal.aborted ? "Stopped." : "The answer failed.");
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
const isSend = (e) => e.key === "Enter" && !e.shiftKey && !e.isComposing;

function fitInput() {
  const input = $("input");
  input.style.height = "auto";
  input.style.height = `${input.scrollHeight + 2}px`;
}

function send() {
  const content = $("input").value;
  if (!content.trim() || job) return;
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

function start() {
  settings = { ...settings, ...read("ga.settings") };
  showTheme();
  systemDark.onchange = showTheme;
  $("theme").onclick = () => { settings.theme = isDark() ? "light" : "dark"; saveSettings(); showTheme(); };
  $("menu").onclick = () => { toggleMenu(!$("side").classList.contains("open")); };
  $("new").onclick = () => { showChat(chat.messages.length ? newChat() : chat); toggleMenu(false); $("input").focus(); };
  $("model").onchange = () => { settings.model = $("model").value; saveSettings(); };
  $("stop").onclick = () => { stop(); $("input").focus(); };
  $("input").oninput = fitInput;
  $("input").onkeydown = (e) => { if (isSend(e)) { e.preventDefault(); send(); } };
  $("composer").onsubmit = (e) => { e.preventDefault(); send(); };
  $("export").onclick = exportChat;
  $("open-settings").onclick = () => {
    $("system").value = chat.system;
    $("temperature").value = settings.temperature;
    $("max-tokens").value = settings.maxTokens;
    $("key").value = sessionStorage.getItem("ga.key") ?? "";
    $("settings").showModal();
  };
  $("close-settings").onclick = () => $("settings").close();
  $("system").oninput = () => { chat.system = $("system").value; saveChat(chat); };
  for (const [id, name] of [["temperature", "temperature"], ["max-tokens", "maxTokens"]])
    $(id).onchange = () => { settings[name] = $(id).checkValidity() ? $(id).value : ""; $(id).reportValidity(); saveSettings(); };
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
