// The tab that shows which tokens a model looks at.

import { json } from "./api.js";
import { complain, element, moveAmong, submitWithKeys } from "./dom.js";
import { drawMatrix, drawPoints, shade } from "./matrix.js";
import { bar, readable } from "./tokens.js";

const STRONGEST = 6;
const FULL_SHADE = 55; // of the colour behind a token, which stays readable
const NAMES = { text: "tokens at tokens", cross: "translation at source", encoder: "source at source", decoder: "translation at translation" };
const section = document.getElementById("attention");
const find = selector => section.querySelector(selector);
const [viewChooser, layerChooser] = [find("#view"), find("#layer")];
const [heads, looking, looked, matrix] = [".heads", ".looking", ".looked", ".matrix"].map(find);

let latest = null;
let asked = null;
let views = [];
let head = -1; // the mean of all
let row = 0;
let under = () => null;

const view = () => views[viewChooser.selectedIndex];
const weightsOf = number => (number < 0 ? (view().mean ??= mean(view().weights[0])) : view().weights[0][number]);

function mean(all) {
  return all[0].map((line, y) => line.map((_, x) => all.reduce((sum, each) => sum + each[y][x], 0) / all.length));
}

// Null where it failed, or where something else was asked for in the meantime.
async function ask(request) {
  const mine = (latest = Symbol("request"));
  complain(find(".error"), "");
  find(".status").textContent = "reading…";
  let [found, trouble] = [null, ""];
  try {
    found = await json("inspect/attention", request);
  } catch (error) {
    trouble = error.message;
  }
  if (mine !== latest) return null;
  find(".status").textContent = "";
  complain(find(".error"), trouble);
  return found;
}

async function show(model) {
  const request = { model: model.id, text: find("#text").value, layer: 0 };
  const found = await ask(request);
  if (!found) return;
  find(".found").hidden = false;
  asked = request;
  views = found.views;
  viewChooser.replaceChildren(...views.map(each => element("option", "", NAMES[each.name] ?? each.name)));
  find(".views").hidden = views.length < 2;
  newView();
}

function newView() {
  const { layers, rows } = view();
  layerChooser.replaceChildren(...Array.from({ length: layers }, (_, place) => element("option", "", String(place + 1))));
  layerChooser.selectedIndex = Math.min(asked.layer, layers - 1);
  row = rows.length - 1;
  if (layerChooser.selectedIndex === asked.layer) drawAll();
  else newLayer(); // an encoder may have more layers than its decoder
}

async function newLayer() {
  const found = await ask({ ...asked, layer: layerChooser.selectedIndex });
  if (!found) return;
  asked.layer = layerChooser.selectedIndex;
  views = found.views;
  drawAll();
}

function drawAll() {
  head = Math.min(head, view().weights[0].length - 1);
  drawHeads();
  drawStrips();
  choose(row);
}

function drawHeads() {
  const numbers = [-1, ...view().weights[0].keys()];
  heads.replaceChildren(...numbers.map(number => {
    const button = element("button", "head");
    button.type = "button";
    button.setAttribute("role", "radio");
    button.dataset.head = number;
    const picture = button.appendChild(element("canvas"));
    picture.setAttribute("aria-hidden", "true");
    button.append(element("span", "", number < 0 ? "mean" : String(number + 1)));
    drawPoints(picture, weightsOf(number));
    return button;
  }));
  markHead();
}

function markHead() {
  for (const button of heads.children) {
    const chosen = Number(button.dataset.head) === head;
    button.setAttribute("aria-checked", chosen);
    button.tabIndex = chosen ? 0 : -1;
  }
}

function piece(text, clickable) {
  const made = element("span", "piece", text);
  if (!text.trim()) made.setAttribute("aria-label", readable(text));
  if (clickable) made.setAttribute("role", "button");
  return made;
}

function drawStrips() {
  const { name, rows, columns } = view();
  const two = name === "cross";
  looking.replaceChildren(...rows.map(text => piece(text, true)));
  looked.replaceChildren(...(two ? columns.map(text => piece(text, false)) : []));
  looked.hidden = find("#looked-title").hidden = !two;
  find("#looking-title").textContent = two ? "Translation: choose a token" : "Choose a token to see what it looks at";
  find("#looked-title").textContent = "What it looks at in the source";
}

function choose(place) {
  const { rows, columns } = view();
  const weights = weightsOf(head);
  row = place;
  [...looking.children].forEach((each, number) => {
    each.setAttribute("aria-pressed", number === row);
    each.tabIndex = number === row ? 0 : -1;
  });
  const coloured = looked.hidden ? looking : looked;
  [...coloured.children].forEach((each, column) => each.style.setProperty("--weight", `${Math.round(FULL_SHADE * shade(weights[row][column]))}%`));
  const strongest = [...weights[row].entries()].sort((one, other) => other[1] - one[1]).slice(0, STRONGEST);
  find("#strongest-title").textContent = `“${readable(rows[row])}” looks most at`;
  find(".bars").replaceChildren(...strongest.filter(([, weight]) => weight > 0).map(([column, weight]) => numbered(columns, column, weight)));
  paint();
}

// The same text may stand in several places, so each is numbered.
function numbered(columns, column, weight) {
  const made = bar(columns[column], weight);
  made.firstChild.prepend(element("small", "", `${column + 1} `));
  return made;
}

function paint() {
  if (find(".found").hidden || section.hidden) return;
  const { rows, columns } = view();
  under = drawMatrix(matrix, weightsOf(head), rows, columns, row, find(".wide").clientWidth);
  matrix.setAttribute("aria-label", `Attention weights, ${rows.length} rows and ${columns.length} columns, of layer ${asked.layer + 1}`);
}

function pointed(event) {
  const box = matrix.getBoundingClientRect();
  return under(event.clientX - box.left, event.clientY - box.top);
}

export function startAttention(chosenModel, chooser) {
  submitWithKeys(find("form"), () => show(chosenModel()));
  chooser.addEventListener("change", () => (find(".found").hidden = true));
  viewChooser.addEventListener("change", newView);
  layerChooser.addEventListener("change", newLayer);
  moveAmong(heads, ".head");
  for (const kind of ["click", "focusin"]) {
    heads.addEventListener(kind, event => {
      const button = event.target.closest(".head");
      if (!button || Number(button.dataset.head) === head) return;
      head = Number(button.dataset.head);
      markHead();
      choose(row);
    });
  }
  moveAmong(looking, ".piece");
  for (const kind of ["click", "focusin"]) {
    looking.addEventListener(kind, event => {
      const place = [...looking.children].indexOf(event.target.closest(".piece"));
      if (place >= 0 && place !== row) choose(place);
    });
  }
  matrix.addEventListener("click", event => {
    const found = pointed(event);
    if (found) choose(found.row);
  });
  matrix.addEventListener("mousemove", event => {
    const found = pointed(event);
    const { rows, columns } = view();
    const said = found && `“${readable(rows[found.row])}” at “${readable(columns[found.column])}”: ${weightsOf(head)[found.row][found.column].toFixed(3)}`;
    find(".under-pointer").textContent = said || "\u00a0";
  });
  document.addEventListener("theme", () => find(".found").hidden || drawAll());
  addEventListener("resize", paint);
  for (const kind of ["click", "focus"]) document.getElementById("tab-attention").addEventListener(kind, paint);
}
