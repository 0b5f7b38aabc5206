// The tab that continues a text.

import { TokenText, element, explainTokens, tokensOf } from "./tokens.js";
import { Writing, submitWithKeys } from "./writing.js";

export function startComplete(chosenModel) {
  const section = document.getElementById("complete");
  const [prompt, shade] = [document.getElementById("prompt"), document.getElementById("shade")];
  const [answer, written] = [section.querySelector(".answer"), section.querySelector(".written")];
  const writing = new Writing(section);
  explainTokens(written);
  shade.addEventListener("change", () => written.classList.toggle("plain", !shade.checked));

  submitWithKeys(section.querySelector("form"), async () => {
    if (writing.running) return;
    const text = prompt.value;
    written.replaceChildren(element("span", "given", text));
    answer.hidden = false;
    const tokens = new TokenText(written);
    const end = await writing.run("v1/completions", { prompt: text, logprobs: 5 }, { prompt: text }, chosenModel(), choice => {
      const arrived = tokensOf(choice.logprobs);
      tokens.add(choice.text, arrived);
      return arrived.length;
    });
    tokens.end();
    answer.hidden = end === "failed" && !tokens.count;
  });
}
