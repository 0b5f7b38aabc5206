// The sampling controls, remembered from one visit to the next.

const STORED = "weft.sampling";
const DEFAULTS = { temperature: "0.8", top_p: "1", top_k: "", min_p: "0", max_tokens: "128", seed: "", stop: "" };
let defaults = DEFAULTS;
const box = document.getElementById("settings");
const inputs = [...box.querySelectorAll("[name]")];

function stored() {
  try {
    return JSON.parse(localStorage.getItem(STORED)) ?? {};
  } catch {
    return {};
  }
}

function fill(values) {
  for (const input of inputs) input.value = values[input.name];
  summarise();
}

function summarise() {
  const said = { temperature: "temperature", max_tokens: "tokens", top_p: "top-p", top_k: "top-k", min_p: "min-p", seed: "seed", stop: "stop" };
  const told = inputs.filter(input => input.value !== "" && (["temperature", "max_tokens"].includes(input.name) || input.value !== defaults[input.name]));
  const words = told.map(input => (input.name === "max_tokens" ? `${input.value} tokens` : `${said[input.name]} ${input.name === "stop" ? "texts" : input.value}`));
  document.getElementById("settings-summary").textContent = words.join(" · ");
}

// A translation is not drawn, unless somebody wishes so.
export function suit(answers) {
  defaults = answers ? { ...DEFAULTS, temperature: "0" } : DEFAULTS;
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
  for (const input of inputs) {
    if (input.name === "stop") {
      const texts = input.value.split("\n").map(line => line.replaceAll("\\n", "\n")).filter(Boolean);
      if (texts.length) body.stop = texts;
    } else if (input.value !== "") body[input.name] = Number(input.value);
  }
  return body;
}
