// What Complete and Chat have in common: one answer at a time that can be stopped, told about in a status line.

import { events, json } from "./api.js";
import { answersTexts } from "./models.js";
import { sampling } from "./settings.js";

export class Writing {
  constructor(section) {
    this.section = section;
    this.running = null;
    this.go = section.querySelector("button.main");
    this.halt = section.querySelector("button.stop");
    this.halt.addEventListener("click", () => this.running?.abort());
    section.addEventListener("keydown", event => event.key === "Escape" && this.running?.abort());
    this.status = section.querySelector(".status");
    this.error = section.querySelector(".error");
  }

  // `sized` is what /tokenize counts; `write` gets each choice as it comes. Returns why the answer ended.
  async run(path, body, sized, model, write) {
    if (this.running) return "";
    this.running = new AbortController();
    const signal = this.running.signal;
    this.busy(true);
    complain(this.error, "");
    this.status.textContent = "writing…";
    const begin = performance.now();
    let count = 0;
    let end = "";
    try {
      const settings = await fitting(sampling(), sized, model, signal);
      for await (const event of events(path, { ...body, ...settings, model: model.id }, signal)) {
        for (const choice of event.choices) {
          count += write(choice);
          end = choice.finish_reason ?? end;
        }
      }
    } catch (error) {
      end = error.name === "AbortError" ? "stopped" : "failed";
      if (end === "failed") complain(this.error, error.message);
    }
    this.running = null;
    this.busy(false);
    this.status.textContent = told(end, count, performance.now() - begin);
    return end;
  }

  busy(now) {
    const within = this.section.contains(document.activeElement) && document.activeElement.tagName === "BUTTON";
    this.go.hidden = now;
    this.halt.hidden = !now;
    if (within) (now ? this.halt : this.go).focus();
  }
}

export function complain(place, message) {
  place.textContent = message;
  place.hidden = !message;
}

function told(end, count, milliseconds) {
  const ways = { stop: "ended by itself or at a stop text", length: "as long as it may be", stopped: "stopped", failed: "failed" };
  const pace = milliseconds > 0 ? `, ${(count / (milliseconds / 1000)).toFixed(count > 50 ? 0 : 1)} per second` : "";
  return `${count} tokens${pace} · ${ways[end] ?? "ended"}`;
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

export function submitWithKeys(form, submit) {
  form.addEventListener("submit", event => {
    event.preventDefault();
    submit();
  });
  form.querySelector("textarea").addEventListener("keydown", event => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    submit();
  });
}
