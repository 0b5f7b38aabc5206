// The sampling controls, remembered from one visit to the next.

import { answersTexts } from "./models.js";

const STORED = "weft.sampling";
const DEFAULTS = { temperature: "0.8", top_p: "1", top_k: "", min_p: "0", max_tokens: "128", iterations: "", length_factor: "", seed: "", stop: "" };
const DRAWING = ["temperature", "top_p", "top_k", "min_p", "seed"];
const MASK_PREDICT = ["iterations", "length_factor"];
let defaults = DEFAULTS;
const box = document.getElementById("settings");
const inputs = [...box.querySelectorAll("[name]")];
const offered = () => inputs.filter(input => !input.closest("label").hidden);

function stored() {
  try {
    return JSON.parse(localStorage.getItem(STORED)) ?? {};
  } catch {
    return {};
  }
}

function fill(values) {
  for (const input of inputs) input.value = values[input.name] ?? "";
  summarise();
}

function summarise() {
  const said = { temperature: "temperature", top_p: "top-p", top_k: "top-k", min_p: "min-p", iterations: "passes", length_factor: "length ×", seed: "seed", stop: "stop" };
  const told = offered().filter(input => input.value !== "" && (["temperature", "max_tokens"].includes(input.name) || input.value !== defaults[input.name]));
  const words = told.map(input => (input.name === "max_tokens" ? `${input.value} tokens` : `${said[input.name]} ${input.name === "stop" ? "texts" : input.value}`));
  document.getElementById("settings-summary").textContent = words.join(" · ");
}

// A translation is not drawn, unless somebody wishes so; one that is made at once never is.
export function suit(model) {
  defaults = answersTexts(model) ? { ...DEFAULTS, temperature: "0" } : DEFAULTS;
  for (const input of inputs) {
    const [drawn, filled] = [DRAWING.includes(input.name), MASK_PREDICT.includes(input.name)];
    input.closest("label").hidden = model.mask_predict ? drawn || (filled && model.mask_predict.fixed) : filled;
    if (input.name === "iterations" && model.mask_predict) input.placeholder = model.mask_predict.iterations;
  }
  fill({ ...defaults, ...stored() });
}

export function startSettings() {
  fill({ ...defaults, ...stored() });
  box.addEventListener("input", () => {
    localStorage.setItem(STORED, JSON.stringify(Object.fromEntries(inputs.map(input => [input.name, input.value]))));
    summarise();
  });
  document.getElementById("settings-reset").addEventListener("click", () => {
    localStorage.removeItem(STORED);
    fill(defaults);
  });
}

// As the server wants them; what is left empty is left to the server.
export function sampling() {
  const body = {};
  for (const input of offered()) {
    if (input.name === "stop") {
      const texts = input.value.split("\n").map(line => line.replaceAll("\\n", "\n")).filter(Boolean);
      if (texts.length) body.stop = texts;
    } else if (input.value !== "") body[input.name] = Number(input.value);
  }
  return body;
}
