// The tab that continues a text, or answers it where the model turns one text into another.

import { element, submitWithKeys } from "./dom.js";
import { answersTexts } from "./models.js";
import { TokenText, explainTokens, tokensOf } from "./tokens.js";
import { Writing } from "./writing.js";

export function startComplete(chosenModel, chooser) {
  const section = document.getElementById("complete");
  const [prompt, shade] = [document.getElementById("prompt"), document.getElementById("shade")];
  const [answer, written] = [section.querySelector(".answer"), section.querySelector(".written")];
  const writing = new Writing(section);
  explainTokens(written);
  shade.addEventListener("change", () => written.classList.toggle("plain", !shade.checked));

  chooser.addEventListener("change", () => {
    const answers = answersTexts(chosenModel());
    section.querySelector("label[for=prompt]").textContent = answers ? "Text to answer or translate" : "Text to continue";
    writing.go.textContent = answers ? "Answer" : "Continue";
  });

  submitWithKeys(section.querySelector("form"), async () => {
    if (writing.running) return;
    const text = prompt.value;
    written.replaceChildren(element("span", "given", answersTexts(chosenModel()) ? `${text}\n` : text));
    answer.hidden = false;
    const tokens = new TokenText(written);
    const { end } = await writing.run("v1/completions", { prompt: text, logprobs: 5 }, { prompt: text }, chosenModel(), choice => {
      const arrived = tokensOf(choice.logprobs);
      tokens.add(choice.text, arrived);
      return arrived.length;
    });
    tokens.end();
    answer.hidden = end === "failed" && !tokens.count;
  });
}
