// The tab for a conversation.

import { TokenText, element, explainTokens, tokensOf } from "./tokens.js";
import { Writing, submitWithKeys } from "./writing.js";

export function startChat(chosenModel) {
  const section = document.getElementById("chat");
  const [shown, message] = [section.querySelector(".messages"), document.getElementById("message")];
  const writing = new Writing(section);
  let messages = [];
  explainTokens(shown);

  function bubble(role, content = "") {
    const made = shown.appendChild(element("div", `message ${role}`));
    made.append(element("span", "who", role === "user" ? "You" : "Model"));
    const words = made.appendChild(element("div", "written plain", content));
    made.scrollIntoView({ block: "nearest" });
    return words;
  }

  submitWithKeys(section.querySelector("form"), async () => {
    const content = message.value.trim();
    if (writing.running || !content) return;
    const asked = [...messages, { role: "user", content }];
    bubble("user", content);
    const place = bubble("assistant");
    message.value = "";
    const tokens = new TokenText(place);
    let said = "";
    const body = { messages: asked, logprobs: true, top_logprobs: 5 };
    const end = await writing.run("v1/chat/completions", body, { messages: asked }, chosenModel(), choice => {
      const arrived = tokensOf(choice.logprobs);
      tokens.add(choice.delta.content ?? "", arrived);
      said += choice.delta.content ?? "";
      return arrived.length;
    });
    if (end === "failed" && !said) {
      // as if it had not been asked, so that it can be sent again
      for (const gone of [...shown.children].slice(-2)) gone.remove();
      message.value = content;
    } else messages = [...asked, { role: "assistant", content: said }];
    message.focus();
  });

  section.querySelector(".clear").addEventListener("click", () => {
    writing.running?.abort();
    messages = [];
    shown.replaceChildren();
    writing.status.textContent = "";
    message.focus();
  });
}
