// What a model tells, drawn: chances as bars, tags and answers within the text they belong to, many rows as a table.

import { button, element, save } from "./dom.js";
import { bar } from "./tokens.js";

const MOST_BARS = 10;
const MOST_ROWS = 200; // shown; all are saved
const COLOURS = 6;

export function draw(one, { row = {}, picture = null, name = picture?.name } = {}) {
  const made = element("div", "card result");
  if (picture) made.append(pictured(picture));
  const told = made.appendChild(element("div", "told"));
  if (name) told.append(element("p", "status", name));
  if (one.error) told.append(element("p", "error", one.error));
  else if (one.tags) told.append(spans(row.words, located(one, row.words)));
  else told.append(element("p", "label", said(one)));
  if (one.no_answer !== undefined) told.append(...answered(one, row.paragraph));
  if (one.probabilities) told.append(bars(one.probabilities, one.prediction));
  else if (one.probability !== undefined) told.append(bar("probability", one.probability, true, false));
  return made;
}

const rounded = number => (Number.isFinite(number) ? String(Number(number.toPrecision(5))) : String(number));

function pictured(file) {
  const made = element("img");
  made.alt = file.name;
  const reader = new FileReader();
  reader.onload = () => (made.src = reader.result);
  reader.readAsDataURL(file);
  return made;
}

function bars(probabilities, label) {
  const made = element("div", "bars");
  const sorted = Object.entries(probabilities).sort((one, other) => other[1] - one[1]);
  made.append(...sorted.slice(0, MOST_BARS).map(([name, chance]) => bar(name, chance, name === String(label), false)));
  if (sorted.length > MOST_BARS) made.append(element("p", "status", `and ${sorted.length - MOST_BARS} less likely ones`));
  return made;
}

// Where in a text its words stand that have a tag, one after the other.
function located({ words, tags }, text) {
  let at = 0;
  const found = words.map((word, place) => {
    const from = text.indexOf(word, at);
    at = from + word.length;
    return { start: [...text.slice(0, from)].length, end: [...text.slice(0, at)].length, label: tags[place] };
  });
  return found.filter(({ label }) => label !== "O");
}

// Offsets count characters as Python does, which are not always JavaScript's.
export function spans(text, found) {
  const letters = [...text];
  const made = element("p", "spans");
  let at = 0;
  for (const { start, end, label } of [...found].sort((one, other) => one.start - other.start)) {
    if (start < at || end <= start) continue;
    const mark = element("mark", "", letters.slice(start, end).join(""));
    if (label) {
      mark.append(element("small", "", label));
      mark.dataset.colour = [...label.replace(/^[BI]-/, "")].reduce((sum, letter) => (31 * sum + letter.codePointAt(0)) % 997, 7) % COLOURS;
    }
    made.append(letters.slice(at, start).join(""), mark);
    at = end;
  }
  made.append(letters.slice(at).join(""));
  return made;
}

// The answer within its paragraph.
function answered({ prediction, start, no_answer: none }, paragraph) {
  const chance = bar("no answer", none, false, false);
  return prediction ? [spans(paragraph, [{ start, end: start + [...prediction].length, label: "" }]), chance] : [chance];
}

// A result in one line.
function said(one) {
  if (one.error) return one.error;
  if (one.tags) return one.tags.join(" ");
  if (typeof one.prediction === "number") return rounded(one.prediction);
  return one.prediction || "no answer";
}

export function drawTable(rows, data) {
  const heads = [...new Set(rows.flatMap(Object.keys)), "prediction", "probability"];
  const lines = rows.map((row, place) => [...heads.slice(0, -2).map(head => String(row[head] ?? "")), said(data[place]), data[place].probability?.toFixed(4) ?? ""]);
  const made = element("div", "card result");
  const quoted = cell => (/[",\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
  made.append(button("Save as CSV", () => save("predictions.csv", `${[heads, ...lines].map(line => line.map(quoted).join(",")).join("\n")}\n`, "text/csv")));
  const box = made.appendChild(element("div", "wide"));
  [box.tabIndex, box.ariaLabel] = [0, "Rows with their predictions"];
  box.setAttribute("role", "group");
  const table = box.appendChild(element("table"));
  const line = (name, cells) => {
    const drawn = element("tr");
    drawn.append(...cells.map(cell => element(name, "", cell)));
    return drawn;
  };
  table.appendChild(element("thead")).append(line("th", heads));
  table.appendChild(element("tbody")).append(...lines.slice(0, MOST_ROWS).map(cells => line("td", cells)));
  if (lines.length > MOST_ROWS) made.append(element("p", "status", `the first ${MOST_ROWS} of ${lines.length} rows; the file has them all`));
  return made;
}

const USUAL = ["id", "label", "text", "sentence", "text1", "sentence1", "premise", "question", "context", "paragraph", "passage", "words", "tokens"];

// Rows of a CSV, TSV, JSONL or plain file: objects from column to value. A first line that names columns is known by them.
export function rowsOf(name, text, fields) {
  if (/\.jsonl?$/i.test(name)) return lines(text).map((line, number) => parsed(line, number));
  if (/\.txt$/i.test(name)) return lines(text).map(line => ({ [fields[0]]: line }));
  const table = separated(text.replace(/^\ufeff/, ""), /\.tsv$/i.test(name) || (!text.includes(",") && text.includes("\t")) ? "\t" : ",");
  const named = table[0]?.some(cell => fields.includes(cell) || USUAL.includes(cell.toLowerCase()));
  const heads = named ? table.shift() : fields;
  return table.map(cells => Object.fromEntries(heads.map((head, column) => [head, cells[column] ?? ""])));
}

const lines = text => text.split(/\r?\n/).filter(line => line.trim());

function parsed(line, number) {
  try {
    return JSON.parse(line);
  } catch {
    throw new Error(`Line ${number + 1} is no JSON.`);
  }
}

// Cells of a table, where quotes may hold separators, line breaks and doubled quotes.
function separated(text, mark) {
  const table = [[]];
  let [cell, quoted] = ["", false];
  const end = () => table.at(-1).push(cell) && (cell = "");
  for (let at = 0; at < text.length; at += 1) {
    const letter = text[at];
    if (quoted) {
      if (letter !== '"') cell += letter;
      else if (text[at + 1] === '"') cell += text[(at += 1)];
      else quoted = false;
    } else if (letter === '"' && !cell) quoted = true;
    else if (letter === mark) end();
    else if (letter === "\n") {
      end();
      table.push([]);
    } else if (letter !== "\r") cell += letter;
  }
  end();
  return table.filter(row => row.some(each => each.trim()));
}
