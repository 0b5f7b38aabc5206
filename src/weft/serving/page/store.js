// Conversations in the browser's own database. Where it has none (some private windows), they last as long as the page.

const [NAME, TABLE] = ["weft", "conversations"];
const memory = new Map();
const removed = new Set(); // an answer that is still being written does not bring its conversation back
const others = "BroadcastChannel" in globalThis ? new BroadcastChannel("weft.conversations") : null;

const database = new Promise(resolve => {
  try {
    const request = indexedDB.open(NAME, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(TABLE, { keyPath: "id" });
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => resolve(null);
  } catch {
    resolve(null);
  }
});

async function within(mode, ask, fallback) {
  const opened = await database;
  if (!opened) return fallback();
  return new Promise((resolve, reject) => {
    const transaction = opened.transaction(TABLE, mode);
    const request = ask(transaction.objectStore(TABLE));
    transaction.oncomplete = () => resolve(request.result);
    transaction.onabort = () => reject(transaction.error);
  });
}

export const keeps = async () => Boolean(await database);

// The latest first.
export async function all() {
  const found = await within("readonly", table => table.getAll(), () => [...memory.values()]);
  return found.sort((one, other) => other.changed - one.changed);
}

export async function put(talk) {
  if (removed.has(talk.id)) return;
  await within("readwrite", table => table.put(talk), () => memory.set(talk.id, talk));
  others?.postMessage(talk.id);
}

export async function restore(talk) {
  removed.delete(talk.id);
  await put(talk);
}

export async function remove(id) {
  removed.add(id);
  await within("readwrite", table => table.delete(id), () => memory.delete(id));
  others?.postMessage(id);
}

// Tells when another tab of this browser changed a conversation.
export function onChange(act) {
  others?.addEventListener("message", event => act(event.data));
}
