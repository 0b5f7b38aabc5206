// Puts the page together: tabs, the choice of a model, the key.

import { json, rememberKey } from "./api.js";
import { startAttention } from "./attention.js";
import { startChat } from "./chat.js";
import { startComplete } from "./complete.js";
import { startImages } from "./images.js";
import { startSettings, suit } from "./settings.js";
import { element, moveAmong } from "./tokens.js";
import { complain } from "./writing.js";

const [chooser, keyForm, keyInput] = ["model", "key-form", "key"].map(id => document.getElementById(id));
const tabs = [...document.querySelectorAll("[role=tab]")];
let models = [];

const chosenModel = () => models.find(model => model.id === chooser.value) ?? { id: "" };

function open(tab) {
  for (const each of tabs) {
    const chosen = each === tab;
    each.setAttribute("aria-selected", chosen);
    each.tabIndex = chosen ? 0 : -1;
    document.getElementById(each.getAttribute("aria-controls")).hidden = !chosen;
  }
  document.getElementById("settings").hidden = ["tab-attention", "tab-images"].includes(tab.id);
  history.replaceState(null, "", `#${tab.getAttribute("aria-controls")}`);
}

// Tabs for what a model does; one that was open and is not for it gives way to the first that is.
function suitTabs({ offers = [] }) {
  const images = offers.includes("images");
  const suits = { complete: offers.includes("completions"), chat: offers.includes("chat"), attention: !images, images };
  for (const tab of tabs) tab.hidden = !suits[tab.getAttribute("aria-controls")];
  if (tabs.some(tab => tab.hidden && tab.ariaSelected === "true")) open(tabs.find(tab => !tab.hidden));
}

async function loadModels() {
  try {
    models = (await json("v1/models")).data;
    keyForm.hidden = true;
    complain(document.getElementById("page-error"), "");
    chooser.replaceChildren(...models.map(model => element("option", "", model.id)));
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
  tab.addEventListener("click", () => open(tab));
  tab.addEventListener("focus", () => open(tab));
}
moveAmong(document.querySelector("[role=tablist]"), "[role=tab]:not([hidden])");
open(tabs.find(tab => `#${tab.getAttribute("aria-controls")}` === location.hash) ?? tabs[0]);
startSettings();
chooser.addEventListener("change", () => {
  suit(chosenModel());
  suitTabs(chosenModel());
});
startComplete(chosenModel, chooser);
startImages(chosenModel, chooser);
startChat(chosenModel);
startAttention(chosenModel, chooser);
loadModels();
