// One message of a chat: its words, what can be done with it, and which of its branches it is.

import { button, copyButton, element, submitWithKeys } from "./dom.js";
import { drawMarkdown } from "./markdown.js";
import { TokenText } from "./tokens.js";
import { pace } from "./writing.js";

const known = new WeakMap(); // message -> the pieces it arrived in, with the chances of their tokens; forgotten on reload

export function remember(message, text, tokens) {
  known.set(message, [...(known.get(message) ?? []), { text, tokens }]);
}

// What a person wrote stays as it was written; what a model wrote is Markdown.
export function drawWords(place, message) {
  if (message.role === "user") place.textContent = message.content;
  else drawMarkdown(place, message.content);
}

// `can` holds what to do: edit(text), again(), branch(step); without it a message only stands there.
export function drawMessage(message, branches, can) {
  const made = element("article", `message ${message.role}`);
  const who = message.role === "user" ? "You" : message.model || "Model";
  made.setAttribute("aria-label", who);
  made.append(element("h2", "who", who));
  const words = made.appendChild(element("div", "words"));
  drawWords(words, message);
  const tools = made.appendChild(element("div", "tools"));
  if (branches.count > 1) tools.append(branchSwitch(branches, can.branch));
  tools.append(copyButton(() => message.content), action("Edit", () => edit(made, words, message, can.edit)));
  if (message.role === "assistant") tools.append(action("Regenerate", can.again));
  else if (message.chosen === null) tools.append(action("Answer", can.again));
  if (known.has(message)) tools.append(tokensButton(words, message));
  if (message.about) tools.append(element("span", "about", pace(message.about)));
  return made;
}

function action(name, act) {
  const made = button(name, act);
  made.dataset.action = name;
  return made;
}

function branchSwitch({ at, count }, branch) {
  const made = element("span", "branches");
  made.setAttribute("role", "group");
  made.setAttribute("aria-label", "Branches");
  const [before, after] = [button("‹", () => branch(-1), "", "Branch before"), button("›", () => branch(1), "", "Next branch")];
  [before.dataset.action, after.dataset.action] = ["before", "after"];
  before.setAttribute("aria-disabled", at === 0);
  after.setAttribute("aria-disabled", at === count - 1);
  made.append(before, element("span", "", `${at + 1}/${count}`), after);
  return made;
}

function tokensButton(words, message) {
  const made = action("Tokens", () => {
    const shown = made.getAttribute("aria-pressed") !== "true";
    made.setAttribute("aria-pressed", shown);
    words.classList.toggle("written", shown);
    words.replaceChildren();
    if (!shown) return drawWords(words, message);
    const tokens = new TokenText(words);
    for (const piece of known.get(message)) tokens.add(piece.text, piece.tokens);
    return tokens.end();
  });
  made.setAttribute("aria-pressed", false);
  return made;
}

// A field in place of the words. An edited question is asked again; an edited answer is kept, each as a branch of its own.
function edit(made, words, message, done) {
  const form = element("form", "editing");
  const field = form.appendChild(element("textarea"));
  field.setAttribute("aria-label", "Edited message");
  field.value = message.content;
  field.rows = Math.min(14, message.content.split("\n").length + 1);
  const tools = made.querySelector(".tools");
  const close = () => {
    form.replaceWith(words);
    tools.hidden = false;
    tools.querySelector("[data-action=Edit]").focus();
  };
  const go = form.appendChild(element("button", "main", message.role === "user" ? "Send" : "Keep"));
  go.type = "submit";
  form.append(button("Cancel", close));
  const finish = () => (field.value === message.content || !field.value.trim() ? close() : done(field.value));
  submitWithKeys(form, finish, { enter: message.role === "user" });
  field.addEventListener("keydown", event => {
    if (event.key !== "Escape") return;
    event.preventDefault();
    close();
  });
  words.replaceWith(form);
  tools.hidden = true;
  field.focus();
}
