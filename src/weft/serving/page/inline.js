// What stands within a line of Markdown: emphasis, code, links.

import { element } from "./dom.js";

const LONGEST_LABEL = 1000;
const DEEPEST = 4;
const SAFE = /^(https?:\/\/|mailto:)/i;
const ADDRESS = /https?:\/\/[^\s<>"`]+/y;
const ESCAPED = /\\([!"#$%&'*+,\-./:;<=>?@^_`{|}~])/y; // not brackets: \( and \[ begin formulas
const PLAIN = /[^\\`*_~[!<h]+/y;
const isSpace = letter => !letter || /\s/.test(letter);
const isWord = letter => Boolean(letter) && /[\p{L}\p{N}]/u.test(letter);

// A fragment with the parts of a text.
export function inline(text, depth = 0) {
  const made = document.createDocumentFragment();
  const delimiters = [];
  let at = 0;
  while (at < text.length) {
    const [node, next, delimiter] = special(text, at, depth) ?? plain(text, at);
    made.append(node);
    if (delimiter) delimiters.push({ ...delimiter, node });
    at = next;
  }
  emphasise(delimiters);
  made.normalize();
  return made;
}

function matched(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

function plain(text, at) {
  const found = matched(PLAIN, text, at)?.[0] ?? text[at];
  return [document.createTextNode(found), at + found.length];
}

function special(text, at, depth) {
  const letter = text[at];
  if (letter === "\\") return escaped(text, at);
  if (letter === "`") return codeSpan(text, at);
  if (letter === "h" && !isWord(text[at - 1])) return address(text, at);
  if (letter === "<") return bracketed(text, at);
  if ((letter === "[" || letter === "!") && depth < DEEPEST) return link(text, at, depth);
  return "*_~".includes(letter) ? run(text, at) : null;
}

function escaped(text, at) {
  const found = matched(ESCAPED, text, at);
  return found && [document.createTextNode(found[1]), at + 2];
}

function codeSpan(text, at) {
  let ticks = at;
  while (text[ticks] === "`") ticks += 1;
  const fence = text.slice(at, ticks);
  let end = text.indexOf(fence, ticks);
  while (end >= 0 && text[end + fence.length] === "`") {
    let past = end;
    while (text[past] === "`") past += 1;
    end = text.indexOf(fence, past);
  }
  if (end < 0) return [document.createTextNode(fence), ticks];
  const inside = text.slice(ticks, end).replaceAll("\n", " ");
  return [element("code", "", /^ .*\S.* $/.test(inside) ? inside.slice(1, -1) : inside), end + fence.length];
}

function anchor(href, content) {
  const made = element("a");
  made.href = href;
  made.target = "_blank";
  made.rel = "noopener noreferrer";
  made.append(content);
  return made;
}

function address(text, at) {
  let found = matched(ADDRESS, text, at)?.[0];
  if (!found) return null;
  while (".,;:!?'*_~".includes(found.at(-1)) || (found.endsWith(")") && !found.includes("("))) found = found.slice(0, -1);
  return [anchor(found, found), at + found.length];
}

function bracketed(text, at) {
  const end = text.slice(at, at + LONGEST_LABEL).indexOf(">");
  const inside = end > 0 ? text.slice(at + 1, at + end) : "";
  return SAFE.test(inside) && !/\s/.test(inside) ? [anchor(inside, inside), at + end + 1] : null;
}

// [words](address), and ![words](address): a picture from elsewhere is not loaded, it is linked to.
function link(text, at, depth) {
  const begin = text[at] === "!" ? at + 1 : at;
  const middle = text[begin] === "[" ? closing(text, begin, "[", "]") : -1;
  if (middle < 0 || text[middle + 1] !== "(") return null;
  const end = closing(text, middle + 1, "(", ")");
  if (end < 0) return null;
  const href = text.slice(middle + 2, end).trim().split(/\s/)[0].replace(/^<|>$/g, "");
  const words = text.slice(begin + 1, middle);
  return SAFE.test(href) ? [anchor(href, inline(words || href, depth + 1)), end + 1] : null;
}

function closing(text, at, open, close) {
  let deep = 0;
  for (let place = at; place < Math.min(text.length, at + LONGEST_LABEL); place += 1) {
    if (text[place] === "\\") place += 1;
    else if (text[place] === open) deep += 1;
    else if (text[place] === close && --deep === 0) return place;
  }
  return -1;
}

// A run of delimiters that may open or close an emphasis. _ does as CommonMark has it, not within a word; the others need no space
// or sign beside them, as **重要：** in scripts without spaces has none.
function run(text, at) {
  let end = at;
  while (text[end] === text[at]) end += 1;
  const [before, after] = [text[at - 1], text[end]];
  const low = text[at] === "_";
  const opens = !isSpace(after) && !(low && isWord(before));
  const closes = !isSpace(before) && !(low && isWord(after));
  const delimiter = { letter: text[at], count: end - at, opens, closes };
  return [document.createTextNode(text.slice(at, end)), end, delimiter];
}

function emphasise(delimiters) {
  const open = [];
  for (const delimiter of delimiters) {
    while (delimiter.closes && delimiter.count) {
      const place = open.findLastIndex(each => each.letter === delimiter.letter && (delimiter.letter !== "~" || Math.min(each.count, delimiter.count) > 1));
      if (place < 0) break;
      wrap(open[place], delimiter);
      open.length = open[place].count ? place + 1 : place;
    }
    if (delimiter.opens && delimiter.count) open.push(delimiter);
  }
}

function wrap(opener, closer) {
  const both = Math.min(opener.count, closer.count) > 1 ? 2 : 1;
  const made = element(opener.letter === "~" ? "del" : both > 1 ? "strong" : "em");
  while (opener.node.nextSibling !== closer.node) made.append(opener.node.nextSibling);
  opener.node.after(made);
  for (const delimiter of [opener, closer]) {
    delimiter.count -= both;
    delimiter.node.data = delimiter.letter.repeat(delimiter.count);
  }
}
