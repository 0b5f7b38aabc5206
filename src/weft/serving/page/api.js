// Calls to the server this page came from: JSON, streams of events, and the key where one is asked for.

const KEY = "weft.key";

export class ServerError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function rememberKey(key) {
  sessionStorage.setItem(KEY, key);
}

async function call(path, body, signal) {
  const key = sessionStorage.getItem(KEY);
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  const request = body ? { method: "POST", body: JSON.stringify(body), headers: { ...headers, "Content-Type": "application/json" } } : { headers };
  let reply;
  try {
    reply = await fetch(path, { ...request, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError(0, "The server cannot be reached.");
  }
  if (reply.ok) return reply;
  const said = await reply.json().catch(() => null);
  if (reply.status === 401) document.dispatchEvent(new CustomEvent("key-needed", { detail: Boolean(key) }));
  throw new ServerError(reply.status, said?.error?.message ?? `The server answered ${reply.status}.`);
}

export async function json(path, body, signal) {
  return (await call(path, body, signal)).json();
}

// Each event of a stream as an object; an error among them is thrown.
export async function* events(path, body, signal) {
  const reply = await call(path, { ...body, stream: true }, signal);
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const data = part.replace(/^data: /, "");
      if (data === "[DONE]") return;
      const event = JSON.parse(data);
      if (event.error) throw new ServerError(500, event.error.message);
      yield event;
    }
  }
}
