// Markdown as parts of the page. Nothing is ever parsed as HTML: a tag in a model's text is text.

import { copyButton, element } from "./dom.js";
import { highlighted } from "./highlight.js";
import { inline } from "./inline.js";

const DEEPEST = 12;
const FENCE = /^ {0,3}(`{3,}|~{3,}) *([^\s`]*)/;
const HEADING = /^ {0,3}(#{1,6})(?:\s(.*))?$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?: (.*)|)$/;
const QUOTE = /^ {0,3}>/;
const TASK = /^\[([ xX])\] /;
const sources = new WeakMap();

const indent = line => line.length - line.trimStart().length;
const begins = line => FENCE.test(line) || HEADING.test(line) || QUOTE.test(line) || isRule(line) || isItem(line);
const isItem = line => ITEM.test(line) && indent(line) < 4;

function isRule(line) {
  const bare = line.replaceAll(/\s/g, "");
  return bare.length > 2 && indent(line) < 4 && "*-_".includes(bare[0]) && [...bare].every(letter => letter === bare[0]);
}

// Blocks that have not changed since the last time stay as they are, so that a text can be drawn again at every token.
export function drawMarkdown(place, text) {
  const blocks = parse(text.replaceAll("\t", "    ").split("\n"));
  blocks.forEach((block, number) => {
    const before = place.children[number];
    if (before && sources.get(before) === block.source) return;
    const drawn = draw(block);
    sources.set(drawn, block.source);
    if (before) before.replaceWith(drawn);
    else place.append(drawn);
  });
  while (place.children.length > blocks.length) place.lastElementChild.remove();
}

function parse(lines, depth = 0) {
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (!lines[at].trim()) {
      at += 1;
      continue;
    }
    const [block, next] = (depth < DEEPEST && (code(lines, at) ?? heading(lines, at) ?? rule(lines, at) ?? quote(lines, at, depth) ?? list(lines, at, depth) ?? table(lines, at))) || paragraph(lines, at);
    blocks.push({ ...block, source: `${block.kind}\n${lines.slice(at, next).join("\n")}` });
    at = next;
  }
  return blocks;
}

function code(lines, at) {
  const [, fence, language] = FENCE.exec(lines[at]) ?? [];
  if (!fence || lines[at].trimStart().slice(fence.length).includes("`")) return null;
  const margin = indent(lines[at]);
  const closes = line => indent(line) < 4 && line.trim().length >= fence.length && [...line.trim()].every(letter => letter === fence[0]);
  let end = at + 1;
  while (end < lines.length && !closes(lines[end])) end += 1;
  const text = lines.slice(at + 1, end).map(line => line.slice(Math.min(margin, indent(line)))).join("\n");
  return [{ kind: "code", language, text }, Math.min(end + 1, lines.length)];
}

function heading(lines, at) {
  const [, hashes, words = ""] = HEADING.exec(lines[at]) ?? [];
  if (!hashes) return null;
  let text = words.trim();
  while (text.endsWith("#")) text = text.slice(0, -1);
  return [{ kind: "heading", level: hashes.length, text: text.trim() }, at + 1];
}

function rule(lines, at) {
  return isRule(lines[at]) ? [{ kind: "rule" }, at + 1] : null;
}

function quote(lines, at, depth) {
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) end += 1;
  return end > at ? [{ kind: "quote", blocks: parse(lines.slice(at, end).map(line => line.trimStart().replace(/^> ?/, "")), depth + 1) }, end] : null;
}

// Models indent by two, three or four: what stands two further in than its item belongs to it.
function list(lines, at, depth) {
  const first = isItem(lines[at]) && ITEM.exec(lines[at]);
  if (!first) return null;
  const [base, ordered] = [first[1].length, first[2].length > 1];
  const items = [];
  let end = at;
  while (end < lines.length) {
    const found = ITEM.exec(lines[end]);
    if (!found || isRule(lines[end]) || found[1].length < base || found[1].length > base + 1 || found[2].length > 1 !== ordered) break;
    const item = [found[3] ?? ""];
    for (end += 1; end < lines.length && belongs(lines, end, base); end += 1) item.push(lines[end].slice(Math.min(indent(lines[end]), base + found[2].length + 1)));
    items.push(parse(item, depth + 1));
  }
  return [{ kind: "list", start: ordered ? parseInt(first[2]) : 0, ordered, items }, end];
}

function belongs(lines, at, base) {
  const line = lines[at];
  if (line.trim()) return indent(line) >= base + 2 || (Boolean(lines[at - 1].trim()) && !begins(line));
  const next = lines.slice(at, at + 3).find(each => each.trim());
  return next !== undefined && (indent(next) >= base + 2 || (ITEM.test(next) && indent(next) >= base));
}

function cells(line) {
  const bare = line.trim().replace(/^\|/, "").replace(/(^|[^\\])\|$/, "$1");
  return bare.split(/(?<!\\)\|/).map(cell => cell.trim().replaceAll("\\|", "|"));
}

function table(lines, at) {
  if (!lines[at].includes("|") || !lines[at + 1]?.includes("-")) return null;
  const [head, delimiters] = [cells(lines[at]), cells(lines[at + 1])];
  if (head.length !== delimiters.length || !delimiters.every(cell => /^:?-+:?$/.test(cell))) return null;
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|")) end += 1;
  const sides = delimiters.map(cell => (cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "right") : "left"));
  return [{ kind: "table", head, sides, rows: lines.slice(at + 2, end).map(cells) }, end];
}

function paragraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && !begins(lines[end]) && !table(lines, end)) end += 1;
  return [{ kind: "paragraph", text: lines.slice(at, end).map(line => line.trim()).join("\n") }, end];
}

const drawers = {
  code: drawCode,
  heading: block => written(`h${Math.min(6, block.level + 2)}`, block.text),
  rule: () => element("hr"),
  quote: block => holding("blockquote", block.blocks),
  list: drawList,
  table: drawTable,
  paragraph: block => written("p", block.text),
};

const draw = block => drawers[block.kind](block);

function written(name, text) {
  const made = element(name);
  made.append(inline(text));
  return made;
}

function holding(name, blocks) {
  const made = element(name);
  made.append(...blocks.map(draw));
  return made;
}

function drawCode({ language, text }) {
  const made = element("figure", "code");
  const head = made.appendChild(element("figcaption", "", language));
  head.append(copyButton(() => text));
  const box = made.appendChild(element("pre"));
  box.tabIndex = 0; // a wide one is scrolled by arrow keys
  box.append(highlighted(text, language));
  return made;
}

function drawList({ ordered, start, items }) {
  const made = element(ordered ? "ol" : "ul");
  if (ordered && start !== 1) made.start = start;
  made.append(...items.map(blocks => {
    const single = blocks.filter(block => block.kind === "paragraph").length === 1 && blocks[0].kind === "paragraph";
    if (!single) return holding("li", blocks);
    const item = element("li");
    const box = { " ": "☐ ", x: "☑ " }[TASK.exec(blocks[0].text)?.[1].toLowerCase()] ?? "";
    item.append(box, inline(box ? blocks[0].text.slice(4) : blocks[0].text), ...blocks.slice(1).map(draw));
    return item;
  }));
  return made;
}

function drawTable({ head, sides, rows }) {
  const made = element("div", "wide");
  made.tabIndex = 0;
  const sheet = made.appendChild(element("table"));
  const row = (name, texts) => {
    const line = element("tr");
    line.append(...head.map((_, column) => {
      const cell = written(name, texts[column] ?? "");
      if (sides[column] !== "left") cell.className = sides[column];
      return cell;
    }));
    return line;
  };
  sheet.appendChild(element("thead")).append(row("th", head));
  sheet.appendChild(element("tbody")).append(...rows.map(texts => row("td", texts)));
  return made;
}
