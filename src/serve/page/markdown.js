// Markdown as elements. Text of a model becomes text nodes and elements made here, never markup.
"use strict";

// An element with properties and children; strings become text.
function el(tag, props, ...children) {
  const node = Object.assign(document.createElement(tag), props);
  node.append(...children);
  return node;
}
function button(text, onclick, props) {
  return el("button", { type: "button", textContent: text, onclick, ...props });
}

const SPAN = new RegExp(
  [
    "(?<ticks>`{1,8})(?!`)(?<code>[^]{1,4000}?[^`])\\k<ticks>(?!`)|(?<one>`[^`\\n]`)",
    "\\*\\*(?=\\S)(?<bold>[^]{1,2000}?\\S|\\S)\\*\\*(?!\\*)|(?<!\\w)__(?=\\S)(?<bold2>[^]{1,2000}?\\S|\\S)__(?!\\w)",
    "\\*(?=[^\\s*])(?<italic>[^*]{0,2000}?[^\\s*])\\*(?!\\*)|(?<!\\w)_(?=[^\\s_])(?<italic2>[^_]{0,2000}?[^\\s_])_(?!\\w)",
    "\\[(?<label>[^\\[\\]]{1,500})\\]\\((?<target>https?://[^\\s()<>]{1,2000}(?:\\([^\\s()<>]{0,200}\\))?)\\)",
    "(?<url>https?://[^\\s<>\"'`*]{1,2000}[^\\s<>\"'`*.,:;!?)\\]])",
    "\\\\(?<plain>[\\\\`*_{}\\[\\]()#+.!|~>-])",
  ].join("|"), "g");

function link(text, address) {
  let url;
  try { url = new URL(address); } catch { return text; }
  if (url.protocol !== "http:" && url.protocol !== "https:") return text;
  return el("a", { href: url.href, target: "_blank", rel: "noopener noreferrer" }, text);
}

function spans(parent, text, depth = 0) {
  let at = 0;
  for (const found of depth < 6 ? text.matchAll(SPAN) : []) {
    const g = found.groups;
    const inner = (tag, s) => { const node = el(tag); spans(node, s, depth + 1); return node; };
    parent.append(text.slice(at, found.index));
    at = found.index + found[0].length;
    if (g.code ?? g.one) parent.append(el("code", { textContent: g.code ? g.code.replace(/^ (.*) $/s, "$1") : g.one[1] }));
    else if (g.bold ?? g.bold2) parent.append(inner("strong", g.bold ?? g.bold2));
    else if (g.italic ?? g.italic2) parent.append(inner("em", g.italic ?? g.italic2));
    else if (g.label) parent.append(link(g.label, g.target));
    else if (g.url) parent.append(link(g.url, g.url));
    else parent.append(g.plain);
  }
  parent.append(text.slice(at));
}

const ITEM = /^( {0,12})([-*+]|\d{1,9}[.)])( +|$)/;
const FENCE = /^ {0,3}(`{3,}|~{3,}) *([\w+#.-]{0,30})[^`]*$/;
const HEADING = /^ {0,3}(#{1,6}) +(.*?) *#*$/;
const RULE = /^ {0,3}([-*_])( *\1){2,} *$/;
const QUOTE = /^ {0,3}> ?/;

function codeBlock(lines, i, parent) {
  const [, mark, language] = FENCE.exec(lines[i]);
  const code = [];
  const isEnd = (line) => line.trim().startsWith(mark) && !line.trim().replaceAll(mark[0], "");
  for (i++; i < lines.length && !isEnd(lines[i]); i++) code.push(lines[i]);
  const node = el("div", { className: "code" },
    el("div", { className: "bar" }, el("span", { className: "grow" }, language),
      button("Copy", (e) => copy(node.querySelector("code").textContent, e.currentTarget), { ariaLabel: "Copy the code" })),
    el("pre", { tabIndex: 0 }, el("code", { textContent: code.join("\n") })));
  parent.append(node);
  return i + 1;
}

function list(lines, i, parent, depth) {
  const first = ITEM.exec(lines[i]);
  const ordered = /\d/.test(first[2]);
  const node = el(ordered ? "ol" : "ul", ordered ? { start: parseInt(first[2], 10) } : {});
  parent.append(node);
  for (let found; i < lines.length && (found = ITEM.exec(lines[i])) && /\d/.test(found[2]) === ordered &&
       found[1].length < first[1].length + 2 && !RULE.test(lines[i]);) {
    const inner = [lines[i].slice(found[0].length)];
    const least = found[1].length + 2;
    const isInner = (line) => line !== undefined && line.search(/\S/) >= least;
    for (i++; i < lines.length && (isInner(lines[i]) || (!lines[i].trim() && isInner(lines[i + 1]))); i++)
      inner.push(lines[i].slice(Math.min(found[0].length, Math.max(lines[i].search(/\S/), 0))));
    const item = el("li");
    blocks(inner, item, depth + 1);
    if (item.firstChild?.nodeName === "P") item.firstChild.replaceWith(...item.firstChild.childNodes);
    node.append(item);
    while (i + 1 < lines.length && !lines[i].trim() && ITEM.test(lines[i + 1])) i++;
  }
  return i;
}

function blocks(lines, parent, depth = 0) {
  let text = [];
  const endText = () => {
    if (text.length) { const p = el("p"); spans(p, text.join("\n")); parent.append(p); }
    text = [];
  };
  for (let i = 0, found; i < lines.length;) {
    const line = lines[i];
    const isItem = depth < 12 && ITEM.test(line) && !RULE.test(line);
    if (FENCE.test(line)) { endText(); i = codeBlock(lines, i, parent); continue; }
    if (isItem) { endText(); i = list(lines, i, parent, depth); continue; }
    if (depth < 12 && QUOTE.test(line)) {
      endText();
      const inner = [], node = el("blockquote");
      for (; i < lines.length && QUOTE.test(lines[i]); i++) inner.push(lines[i].replace(QUOTE, ""));
      blocks(inner, node, depth + 1);
      parent.append(node);
      continue;
    }
    i++;
    if (!line.trim()) endText();
    else if (RULE.test(line)) { endText(); parent.append(el("hr")); }
    else if ((found = HEADING.exec(line))) {
      endText();
      const node = el(`h${Math.min(found[1].length + 1, 6)}`); // the page has h1
      spans(node, found[2]);
      parent.append(node);
    } else text.push(line);
  }
  endText();
}

function markdown(text) {
  const body = el("div", { className: "body" });
  blocks(text.replaceAll("\t", "    ").split("\n"), body);
  return body;
}
