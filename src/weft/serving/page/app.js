// Puts the page together: tabs, the choice of a model, the key, light and dark.

import { json, rememberKey } from "./api.js";
import { startAttention } from "./attention.js";
import { startChat } from "./chat.js";
import { startComplete } from "./complete.js";
import { complain, element, moveAmong } from "./dom.js";
import { startImages } from "./images.js";
import { tabsOf } from "./models.js";
import { startPredictions } from "./predict.js";
import { startSettings, suit } from "./settings.js";

const MODEL = "weft.model";
const SAMPLED = ["chat", "complete"]; // tabs whose answers are drawn as the settings say
const [chooser, keyForm, keyInput, theme] = ["model", "key-form", "key", "theme"].map(id => document.getElementById(id));
const tabs = [...document.querySelectorAll("[role=tab]")];
const nameOf = tab => tab.getAttribute("aria-controls");
let models = [];

const chosenModel = () => models.find(model => model.id === chooser.value) ?? { id: "" };

function open(tab) {
  for (const each of tabs) {
    const chosen = each === tab;
    each.setAttribute("aria-selected", chosen);
    each.tabIndex = chosen ? 0 : -1;
    document.getElementById(nameOf(each)).hidden = !chosen;
  }
  document.body.dataset.tab = nameOf(tab);
  document.getElementById("settings-open").hidden = !SAMPLED.includes(nameOf(tab));
}

// The tab that somebody chose stays open for another model too, where it has that one.
function choose(tab) {
  open(tab);
  history.replaceState(null, "", `#${nameOf(tab)}`);
}

function suitTabs(model) {
  const suits = tabsOf(model);
  for (const tab of tabs) tab.hidden = !suits.includes(nameOf(tab));
  const wanted = location.hash.slice(1);
  const name = suits.includes(wanted) ? wanted : suits[0];
  if (name) open(tabs.find(tab => nameOf(tab) === name));
}

async function loadModels() {
  try {
    models = (await json("v1/models")).data;
    keyForm.hidden = true;
    complain(document.getElementById("page-error"), "");
    chooser.replaceChildren(...models.map(model => element("option", "", model.id)));
    if (models.some(model => model.id === localStorage.getItem(MODEL))) chooser.value = localStorage.getItem(MODEL);
    chooser.dispatchEvent(new Event("change"));
  } catch (error) {
    if (error.status !== 401) complain(document.getElementById("page-error"), error.message);
  }
}

document.addEventListener("key-needed", event => {
  keyForm.hidden = false;
  if (event.detail) complain(document.getElementById("page-error"), "The server does not know this key.");
  keyInput.focus();
});
keyForm.addEventListener("submit", event => {
  event.preventDefault();
  rememberKey(keyInput.value);
  loadModels();
});

for (const tab of tabs) {
  tab.addEventListener("click", () => choose(tab));
  tab.addEventListener("focus", () => choose(tab));
}
moveAmong(document.querySelector("[role=tablist]"), "[role=tab]:not([hidden])");

function nameTheme() {
  theme.textContent = document.documentElement.dataset.theme === "dark" ? "Light" : "Dark";
}
theme.addEventListener("click", () => document.dispatchEvent(new Event("switch-theme")));
document.addEventListener("theme", nameTheme);
nameTheme();

startSettings();
chooser.addEventListener("change", () => {
  suit(chosenModel());
  suitTabs(chosenModel());
});
chooser.addEventListener("input", () => localStorage.setItem(MODEL, chooser.value));
startComplete(chosenModel, chooser);
startImages(chosenModel, chooser);
startChat(chosenModel, chooser);
startPredictions(chosenModel, chooser);
startAttention(chosenModel, chooser);
loadModels();
