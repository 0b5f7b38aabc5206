// The tab for conversations: what is said, said again, edited and branched.

import { element, submitWithKeys } from "./dom.js";
import { drawMessage, drawWords, remember } from "./message.js";
import { trainedToChat } from "./models.js";
import { onSystemPrompt, showSystemPrompt, systemPrompt } from "./settings.js";
import { startConversations } from "./sidebar.js";
import * as store from "./store.js";
import { explainTokens, tokensOf } from "./tokens.js";
import { add, asked, choose, newConversation, path, siblings } from "./tree.js";
import { Writing } from "./writing.js";

const SAVED_EVERY = 1000; // milliseconds, while an answer is written
const NEAR = 80; // pixels from the end at which a reader follows what is written

export function startChat(chosenModel, chooser) {
  const section = document.getElementById("chat");
  const [shown, note, form] = [".messages", ".note", "form.ask"].map(name => section.querySelector(name));
  const field = document.getElementById("message");
  const writing = new Writing(section, { short: true });
  let talk = newConversation();
  explainTokens(shown);

  const list = startConversations({ current: () => talk, open, blank: () => open(newConversation()) });

  async function keep() {
    try {
      await store.put(talk);
    } catch (error) {
      writing.error.textContent = `This conversation could not be kept: ${error?.message ?? "the browser refused"}.`;
      writing.error.hidden = false;
    }
    list.refresh();
  }

  function open(found) {
    writing.stop();
    talk = found;
    showSystemPrompt(talk.messages.length ? talk.system : null);
    writing.status.textContent = "";
    writing.error.hidden = true;
    draw();
    list.refresh();
    scrollTo({ top: document.documentElement.scrollHeight });
  }

  function draw() {
    const focused = document.activeElement?.dataset?.action;
    const at = [...shown.children].indexOf(document.activeElement?.closest(".message"));
    shown.replaceChildren(...path(talk).map(drawn));
    section.classList.toggle("empty", !shown.children.length);
    if (at >= 0) (shown.children[at]?.querySelector(`[data-action="${focused}"]`) ?? field).focus();
  }

  function drawn(place) {
    const [message, all] = [talk.messages[place], siblings(talk, place)];
    const at = all.indexOf(place);
    return drawMessage(message, { at, count: all.length }, {
      edit: text => edited(place, text),
      again: () => answer(message.role === "user" ? place : message.parent),
      branch: step => {
        if (writing.running || all[at + step] === undefined) return;
        choose(talk, all[at + step]);
        draw();
        keep();
      },
    });
  }

  async function edited(place, content) {
    if (writing.running) return;
    const { parent, role } = talk.messages[place];
    const branch = add(talk, parent, { role, content });
    field.focus();
    if (role === "user") await answer(branch);
    else {
      draw();
      keep();
    }
  }

  async function answer(parent) {
    if (writing.running || parent === null) return;
    const [mine, model] = [talk, chosenModel()];
    mine.system = systemPrompt();
    const messages = asked(mine, parent);
    const message = mine.messages[add(mine, parent, { role: "assistant", content: "", model: model.id })];
    draw();
    keep();
    const words = shown.lastElementChild.querySelector(".words");
    let [scheduled, saved] = [false, performance.now()];
    const paint = () => {
      scheduled = false;
      if (mine !== talk) return;
      const follows = document.documentElement.scrollHeight - innerHeight - scrollY < NEAR;
      drawWords(words, message);
      if (follows) scrollTo({ top: document.documentElement.scrollHeight });
    };
    scrollTo({ top: document.documentElement.scrollHeight });
    const told = await writing.run("v1/chat/completions", { messages, logprobs: true, top_logprobs: 5 }, { messages }, model, choice => {
      const [text, tokens] = [choice.delta.content ?? "", tokensOf(choice.logprobs)];
      message.content += text;
      if (tokens.length) remember(message, text, tokens);
      if (!scheduled) requestAnimationFrame(paint);
      scheduled = true;
      if (performance.now() - saved > SAVED_EVERY) {
        saved = performance.now();
        store.put(mine).catch(() => null);
      }
      return tokens.length;
    });
    ended(mine, message, told);
  }

  // What was not even begun leaves no message behind, so that it can be asked for again.
  function ended(mine, message, told) {
    if (!message.content && told.end !== "stop" && told.end !== "length") {
      mine.messages.pop();
      const before = mine.messages.findLastIndex(each => each.parent === message.parent);
      mine.messages[message.parent].chosen = before < 0 ? null : before;
    } else message.about = { tokens: told.tokens, pace: told.pace, first: told.first };
    if (mine !== talk) {
      writing.status.textContent = "";
      return store.put(mine);
    }
    if (message.about) shown.lastElementChild.replaceWith(drawn(mine.messages.indexOf(message)));
    else draw();
    return keep();
  }

  async function send() {
    const content = field.value.trim();
    if (writing.running || !content) return;
    field.value = "";
    grow();
    const last = path(talk).at(-1) ?? null;
    await answer(add(talk, last, { role: "user", content }));
  }

  function grow() {
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight + 2, 0.4 * innerHeight)}px`;
  }

  submitWithKeys(form, send, { enter: true });
  field.addEventListener("input", grow);
  onSystemPrompt(text => {
    if (!talk.messages.length) return;
    talk.system = text;
    keep();
  });
  store.onChange(async id => {
    const found = id === talk.id && !writing.running && (await store.all()).find(each => each.id === id);
    if (found && !shown.querySelector(".editing")) {
      talk = found;
      draw();
    }
    list.refresh();
  });
  chooser.addEventListener("change", () => {
    const plain = chosenModel().id && !trainedToChat(chosenModel());
    note.hidden = !plain;
    section.querySelector(".greeting").textContent = `Chat with ${chosenModel().id}`;
  });
  // Letters typed where no field has the focus are meant for the message.
  document.addEventListener("keydown", event => {
    if (section.hidden || document.querySelector("dialog[open]") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.activeElement === document.body && event.key.length === 1 && event.key !== " ") field.focus();
  });
  document.addEventListener("keydown", event => {
    if (!(event.ctrlKey && event.shiftKey && event.code === "KeyO") || section.hidden) return;
    event.preventDefault();
    open(newConversation());
    field.focus();
  });
  list.restore();
}
