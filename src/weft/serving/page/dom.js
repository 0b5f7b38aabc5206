// Parts of a page: elements made in one line, arrow keys, the clipboard, files to save.

export function element(name, className = "", text = "") {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text) made.textContent = text;
  return made;
}

export function button(text, action, className = "", label = "") {
  const made = element("button", className, text);
  made.type = "button";
  if (label) made.setAttribute("aria-label", label);
  made.addEventListener("click", action);
  return made;
}

export function complain(place, message) {
  place.textContent = message;
  place.hidden = !message;
}

// One tab stop for all of a place; arrow keys move among them.
export function moveAmong(place, selector) {
  place.addEventListener("keydown", event => {
    const all = [...place.querySelectorAll(selector)];
    const now = all.indexOf(document.activeElement);
    const next = { ArrowRight: now + 1, ArrowDown: now + 1, ArrowLeft: now - 1, ArrowUp: now - 1, Home: 0, End: all.length - 1 }[event.key];
    if (now < 0 || !all[next]) return;
    event.preventDefault();
    all[now].tabIndex = -1;
    all[next].tabIndex = 0;
    all[next].focus();
  });
}

// A form is sent by its button and by Enter; where a text has many lines, by Ctrl Enter.
export function submitWithKeys(form, submit, { enter = false } = {}) {
  form.addEventListener("submit", event => {
    event.preventDefault();
    submit();
  });
  form.querySelector("textarea")?.addEventListener("keydown", event => {
    const sends = enter ? !event.shiftKey : event.ctrlKey || event.metaKey;
    if (event.key !== "Enter" || event.isComposing || !sends) return;
    event.preventDefault();
    submit();
  });
}

// Where an address is neither https nor this machine, browsers have no clipboard but the old one.
export async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const [focused, holder] = [document.activeElement, document.body.appendChild(element("textarea", "aside", text))];
  holder.select();
  document.execCommand("copy");
  holder.remove();
  focused?.focus();
}

export function copyButton(text) {
  const made = button("Copy", async () => {
    await copy(text());
    made.textContent = "Copied";
    setTimeout(() => (made.textContent = "Copy"), 1500);
  });
  return made;
}

export function save(name, text, type) {
  const link = element("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
