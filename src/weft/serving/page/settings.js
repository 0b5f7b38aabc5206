// The system prompt and the sampling controls, remembered from one visit to the next.

import { answersTexts } from "./models.js";

const STORED = "weft.sampling";
const DEFAULTS = { temperature: "0.8", top_p: "1", top_k: "", min_p: "0", max_tokens: "", iterations: "", length_factor: "", seed: "", stop: "" };
const DRAWING = ["temperature", "top_p", "top_k", "min_p", "seed"];
const MASK_PREDICT = ["iterations", "length_factor"];
const CONTINUED = 128; // tokens of a continued text where nobody says, which has no end of its own
let defaults = DEFAULTS;
const box = document.getElementById("settings");
const system = box.querySelector("[name=system]");
const inputs = [...box.querySelectorAll("[name]")].filter(input => input !== system);
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
  const said = { temperature: "temperature", top_p: "top-p", top_k: "top-k", min_p: "min-p", iterations: "passes", length_factor: "length ×", seed: "seed" };
  const named = input => said[input.name] && input.value !== "" && (input.name === "temperature" || input.value !== defaults[input.name]);
  const words = offered().filter(named).map(input => `${said[input.name]} ${input.value}`);
  const given = name => offered().some(input => input.name === name && input.value !== "");
  if (given("max_tokens")) words.push(`${box.querySelector("[name=max_tokens]").value} tokens`);
  if (given("stop")) words.push("stop texts");
  if (system.value && !system.closest("label").hidden) words.push("system prompt");
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
  system.closest("label").hidden = !model.offers?.includes("chat");
  fill({ ...defaults, ...stored() });
}

export function startSettings() {
  fill({ ...defaults, ...stored() });
  system.value = stored().system ?? "";
  box.addEventListener("input", event => {
    const told = event.target === system ? system.value : stored().system; // else it may be that of an old conversation
    localStorage.setItem(STORED, JSON.stringify({ ...Object.fromEntries(inputs.map(input => [input.name, input.value])), system: told }));
    summarise();
  });
  document.getElementById("settings-open").addEventListener("click", () => box.showModal());
  document.getElementById("settings-close").addEventListener("click", () => box.close());
  box.addEventListener("click", event => event.target === box && box.close());
  document.getElementById("settings-reset").addEventListener("click", () => {
    localStorage.removeItem(STORED);
    system.value = "";
    fill(defaults);
    system.dispatchEvent(new Event("input"));
  });
}

// The prompt of a conversation stands in the field while it is open; a new one begins with the last that was written.
export const systemPrompt = () => system.value;

export function showSystemPrompt(text) {
  system.value = text ?? stored().system ?? "";
  summarise();
}

export const onSystemPrompt = act => system.addEventListener("input", () => act(system.value));

// As the server wants them; what is left empty is left to the server.
export function sampling(model, chats) {
  const body = chats || answersTexts(model) ? {} : { max_tokens: CONTINUED };
  for (const input of offered()) {
    if (input.name === "stop") {
      const texts = input.value.split("\n").map(line => line.replaceAll("\\n", "\n")).filter(Boolean);
      if (texts.length) body.stop = texts;
    } else if (input.value !== "") body[input.name] = Number(input.value);
  }
  return body;
}
