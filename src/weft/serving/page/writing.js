// What Complete and Chat have in common: one answer at a time that can be stopped, told about in a status line.

import { events, json } from "./api.js";
import { complain } from "./dom.js";
import { answersTexts } from "./models.js";
import { sampling } from "./settings.js";

export class Writing {
  // short: where the number and pace of tokens are told elsewhere.
  constructor(section, { short = false } = {}) {
    this.section = section;
    this.short = short;
    this.running = null;
    this.go = section.querySelector("button.main");
    this.halt = section.querySelector("button.stop");
    this.halt.addEventListener("click", () => this.stop());
    this.status = section.querySelector(".status");
    this.error = section.querySelector(".error");
    document.addEventListener("keydown", event => event.key === "Escape" && !event.defaultPrevented && !section.hidden && !document.querySelector("dialog[open]") && this.stop());
  }

  stop() {
    this.running?.abort();
  }

  // `sized` is what /tokenize counts; `write` gets each choice as it comes and returns how many tokens it had.
  // Returns what became of it: why it ended, its tokens, and its seconds up to the first token and from there on.
  async run(path, body, sized, model, write) {
    this.running = new AbortController();
    const signal = this.running.signal;
    this.busy(true);
    complain(this.error, "");
    this.status.textContent = "writing…";
    const told = { end: "", tokens: 0, first: 0, seconds: 0, prompt: 0 };
    const begin = performance.now();
    let [started, opening] = [begin, 0];
    try {
      const settings = await fitting(sampling(model, "messages" in body), sized, model, signal);
      const request = { ...body, ...settings, model: model.id, stream_options: { include_usage: true } };
      for await (const event of events(path, request, signal)) {
        told.prompt = event.usage?.prompt_tokens ?? told.prompt;
        for (const choice of event.choices) {
          const arrived = write(choice);
          if (arrived && !told.tokens) [started, opening] = [performance.now(), arrived];
          told.tokens += arrived;
          told.end = choice.finish_reason ?? told.end;
        }
      }
    } catch (error) {
      told.end = error.name === "AbortError" ? "stopped" : "failed";
      if (told.end === "failed") complain(this.error, error.message);
    }
    told.first = (started - begin) / 1000;
    told.seconds = (performance.now() - started) / 1000;
    told.pace = told.seconds > 0 ? (told.tokens - opening) / told.seconds : 0; // the first tokens are the prompt's time
    this.running = null;
    this.busy(false);
    this.status.textContent = summary(told, model, this.short);
    return told;
  }

  busy(now) {
    const within = [this.go, this.halt].includes(document.activeElement);
    this.section.setAttribute("aria-busy", now);
    this.go.hidden = now;
    this.halt.hidden = !now;
    if (within) (now ? this.halt : this.go).focus();
  }
}

export function pace({ tokens, pace, first }) {
  const speed = tokens > 1 && pace ? ` · ${pace.toFixed(pace < 10 ? 1 : 0)} tokens/s` : "";
  const wait = tokens ? ` · first after ${first.toFixed(2)} s` : "";
  return `${tokens} ${tokens === 1 ? "token" : "tokens"}${speed}${wait}`;
}

function summary(told, model, short) {
  const ways = { stop: short ? "ended" : "ended by itself or at a stop text", length: "as long as it may be", stopped: "stopped", failed: "failed" };
  if (told.end === "failed" && !told.tokens) return "";
  const used = told.prompt && model.max_model_len ? `${told.prompt + told.tokens} of ${model.max_model_len} tokens of context` : "";
  return [short ? "" : pace(told), ways[told.end] ?? "ended", used].filter(Boolean).join(" · ");
}

// No longer than fits behind the prompt, or after the mark of a start where an answer has a context of its own: where it is short,
// the wish for many tokens would be refused.
async function fitting(settings, sized, model, signal) {
  if (!model.max_model_len || !settings.max_tokens) return settings;
  if (answersTexts(model)) {
    const most = model.mask_predict?.longest ?? model.max_model_len - 1;
    return { ...settings, max_tokens: Math.max(1, Math.min(settings.max_tokens, most)) };
  }
  const { count } = await json("tokenize", { ...sized, model: model.id }, signal);
  return { ...settings, max_tokens: Math.max(1, Math.min(settings.max_tokens, model.max_model_len - count)) };
}
