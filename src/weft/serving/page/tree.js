// A conversation: messages that know which they follow, so that an edited one begins a branch beside the old one.
// Every message, and the conversation itself, remembers which of those that follow it is the chosen one.

export function newConversation() {
  const now = Date.now();
  return { id: `${now.toString(36)}-${Math.random().toString(36).slice(2, 8)}`, name: "", system: "", created: now, changed: now, chosen: null, messages: [] };
}

export const messageAt = (talk, place) => (place === null ? talk : talk.messages[place]);
export const placeOf = (talk, message) => talk.messages.indexOf(message);

// The places of the messages that are read, first to last.
export function path(talk) {
  const found = [];
  for (let place = talk.chosen; place !== null; place = talk.messages[place].chosen) found.push(place);
  return found;
}

// The messages that answer, or stand for, the same: the branches.
export function siblings(talk, place) {
  const { parent } = talk.messages[place];
  return [...talk.messages.keys()].filter(each => talk.messages[each].parent === parent);
}

export function add(talk, parent, message) {
  const place = talk.messages.push({ ...message, parent, chosen: null, at: Date.now() }) - 1;
  choose(talk, place);
  return place;
}

export function choose(talk, place) {
  messageAt(talk, talk.messages[place].parent).chosen = place;
  talk.changed = Date.now();
}

export function title(talk) {
  if (talk.name) return talk.name;
  const words = (talk.messages[0]?.content ?? "").trim().split(/\s+/).join(" ");
  return words.length > 48 ? `${words.slice(0, 47)}…` : words || "New chat";
}

// As the server wants it: from the beginning to a place.
export function asked(talk, place) {
  const messages = [];
  for (let each = place; each !== null; each = talk.messages[each].parent) messages.unshift({ role: talk.messages[each].role, content: talk.messages[each].content });
  return talk.system.trim() ? [{ role: "system", content: talk.system }, ...messages] : messages;
}

export function asMarkdown(talk) {
  const parts = [`# ${title(talk)}`];
  if (talk.system.trim()) parts.push(`## System\n\n${talk.system}`);
  for (const place of path(talk)) {
    const { role, content, model } = talk.messages[place];
    parts.push(`## ${role === "user" ? "User" : model || "Assistant"}\n\n${content}`);
  }
  return `${parts.join("\n\n")}\n`;
}

// A conversation from a file, or null where it is none. Its text is only ever shown as text.
export function checked(found) {
  const number = place => place === null || (Number.isInteger(place) && place >= 0 && place < found.messages.length);
  const whole = (each, at) => each && ["user", "assistant"].includes(each.role) && typeof each.content === "string" && number(each.parent) && number(each.chosen) &&
    (each.parent === null || each.parent < at) && (each.chosen === null || found.messages[each.chosen].parent === at);
  if (!found || !Array.isArray(found.messages) || !number(found.chosen) || !found.messages.every(whole)) return null;
  if (found.chosen !== null && found.messages[found.chosen].parent !== null) return null;
  const text = value => (typeof value === "string" ? value : "");
  const messages = found.messages.map(({ role, content, parent, chosen, at, model }) => ({ role, content, parent, chosen, at: Number(at) || 0, model: text(model) }));
  return { ...newConversation(), name: text(found.name), system: text(found.system), chosen: found.chosen, messages };
}
