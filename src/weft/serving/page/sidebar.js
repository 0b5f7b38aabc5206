// The list of conversations: opened, named, deleted and brought back, saved to a file and read from one.

import { button, element, save } from "./dom.js";
import * as store from "./store.js";
import { asMarkdown, checked, title } from "./tree.js";

const OPENED = "weft.conversation";
const MANY = 8; // conversations from which on they can be searched

export function startConversations({ current, open, blank }) {
  const box = document.getElementById("conversations");
  const [list, search, said, file, toggle] = [".talks", "[type=search]", ".said", "[type=file]", "#conversations-toggle"].map(name => box.querySelector(name) ?? document.querySelector(name));
  let [renaming, drawn] = [false, ""];

  async function refresh() {
    const all = await store.all();
    localStorage.setItem(OPENED, current().id);
    search.hidden = all.length < MANY;
    if (renaming) return;
    const within = list.contains(document.activeElement) ? document.activeElement.textContent : null;
    const wanted = search.hidden ? "" : search.value.toLowerCase();
    const matches = talk => title(talk).toLowerCase().includes(wanted) || (wanted && talk.messages.some(each => each.content.toLowerCase().includes(wanted)));
    const shown = all.filter(matches);
    const rows = JSON.stringify([current().id, shown.map(talk => [talk.id, title(talk)])]);
    if (rows === drawn) return; // a row that is drawn anew while it is clicked would lose the click
    drawn = rows;
    list.replaceChildren(...shown.map(row));
    if (within !== null) [...list.querySelectorAll("button")].find(each => each.textContent === within)?.focus();
  }

  function row(talk) {
    const mine = talk.id === current().id;
    const made = element("li", mine ? "current" : "");
    const name = made.appendChild(button(title(talk), async () => {
      if (!mine) open((await store.all()).find(each => each.id === talk.id) ?? talk);
      fold(true);
    }, "talk"));
    if (!mine) return made;
    name.setAttribute("aria-current", "true");
    const tools = made.appendChild(element("div", "tools"));
    tools.append(
      button("Rename", () => rename(made, name, talk)),
      button("Markdown", () => save(`${fileName(current())}.md`, asMarkdown(current()), "text/markdown"), "", "Export as Markdown"),
      button("JSON", () => save(`${fileName(current())}.json`, JSON.stringify(current(), null, 1), "application/json"), "", "Export as JSON"),
      button("Delete", () => remove(current())),
    );
    return made;
  }

  function rename(made, name, talk) {
    const field = element("input");
    field.value = title(talk);
    field.setAttribute("aria-label", "Name of the conversation");
    renaming = true;
    const done = async kept => {
      if (!renaming) return;
      renaming = false;
      if (kept) {
        talk.name = current().name = field.value.trim();
        await store.put(current());
      }
      drawn = "";
      await refresh();
      list.querySelector(".current .talk")?.focus();
    };
    field.addEventListener("keydown", event => {
      if (event.key === "Escape") event.preventDefault();
      if (["Enter", "Escape"].includes(event.key)) done(event.key === "Enter");
    });
    field.addEventListener("blur", () => done(true));
    name.replaceWith(field);
    field.select();
  }

  async function remove(talk) {
    const gone = current();
    await store.remove(talk.id);
    blank();
    said.replaceChildren(`Deleted “${title(talk)}”. `, button("Undo", async () => {
      await store.restore(gone);
      said.replaceChildren();
      open(gone);
      list.querySelector(".current .talk")?.focus();
    }));
    said.querySelector("button").focus();
  }

  function fold(closed) {
    box.classList.toggle("open", !closed);
    toggle.setAttribute("aria-expanded", !closed);
  }

  async function read() {
    said.replaceChildren();
    try {
      const found = JSON.parse(await file.files[0].text());
      const talks = (Array.isArray(found) ? found : [found]).map(checked);
      if (!talks.length || talks.includes(null)) throw new Error("it holds no conversation of this page");
      for (const talk of talks) await store.put(talk);
      open(talks[0]);
    } catch (error) {
      said.replaceChildren(`This file cannot be read: ${error.message}.`);
    }
    file.value = "";
  }

  box.querySelector(".new").addEventListener("click", () => {
    blank();
    fold(true);
    document.getElementById("message").focus();
  });
  box.querySelector(".all").addEventListener("click", async () => save("weft-conversations.json", JSON.stringify(await store.all(), null, 1), "application/json"));
  box.querySelector(".import").addEventListener("click", () => file.click());
  file.addEventListener("change", read);
  search.addEventListener("input", refresh);
  toggle.addEventListener("click", () => fold(box.classList.contains("open")));
  box.addEventListener("keydown", event => event.key === "Escape" && !event.defaultPrevented && fold(true));

  return {
    refresh,
    // The conversation that was open when the page was left.
    async restore() {
      const found = (await store.all()).find(talk => talk.id === localStorage.getItem(OPENED));
      if (found) open(found);
      else refresh();
      if (!(await store.keeps())) said.replaceChildren("This browser keeps conversations only as long as the page is open.");
    },
  };
}

function fileName(talk) {
  return title(talk).replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 40) || "conversation";
}
