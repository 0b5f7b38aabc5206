// Tokens as parts of the page: written one by one, and each with a card that tells what else was likely in its place.

import { element, moveAmong } from "./dom.js";

const card = document.getElementById("token-card");
const known = new WeakMap();
const STRONGEST_SHADE = 50;
const MOST_SURPRISE = 6; // one chance in four hundred
const visible = { " ": "␣", "\n": "⏎", "\t": "⇥" };

// A token as it can be read where it stands alone.
export function readable(text) {
  return text.replace(/[ \n\t]/g, letter => visible[letter]);
}

export function percent(share) {
  const number = 100 * share;
  return number >= 99.95 ? "100 %" : number >= 0.1 ? `${number.toFixed(1)} %` : "< 0.1 %";
}

export function bar(text, share, own = false, spelled = true) {
  const row = element("div", own ? "bar own" : "bar");
  const track = element("i");
  const filled = track.appendChild(element("b"));
  filled.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  row.append(element("code", "", spelled ? readable(text) : text), track, element("em", "", percent(share)));
  return row;
}

// The tokens of an event, whichever of the two forms they come in.
export function tokensOf(logprobs) {
  if (!logprobs) return [];
  if (logprobs.content) {
    return logprobs.content.map(one => ({ text: one.token, chance: Math.exp(one.logprob), others: one.top_logprobs.map(other => [other.token, Math.exp(other.logprob)]) }));
  }
  return logprobs.tokens.map((text, place) => ({
    text,
    chance: Math.exp(logprobs.token_logprobs[place] ?? 0),
    others: Object.entries(logprobs.top_logprobs?.[place] ?? {}).map(([other, value]) => [other, Math.exp(value)]),
  }));
}

// Text arrives when it can no longer change, tokens when they are drawn: those that wait for the rest of a letter, or may
// belong to a stop text, share the part of the text that they turn out to write.
export class TokenText {
  constructor(place) {
    this.place = place;
    this.count = 0;
    this.waiting = [];
  }

  add(text, tokens) {
    this.count += tokens.length;
    this.waiting.push(...tokens);
    while (text) {
      const first = this.waiting[0];
      if (first?.text && text.startsWith(first.text)) {
        this.write(first.text, [this.waiting.shift()]);
        text = text.slice(first.text.length);
      } else {
        this.write(text, this.waiting.splice(0));
        text = "";
      }
    }
  }

  end() {
    if (this.waiting.length) this.write("⏹", this.waiting.splice(0)).classList.add("end");
  }

  write(text, tokens) {
    const span = element("span", "token", text);
    span.tabIndex = this.place.querySelector(".token") ? -1 : 0;
    const chance = tokens.reduce((product, token) => product * token.chance, 1);
    span.style.setProperty("--unlikely", `${Math.round(STRONGEST_SHADE * Math.min(1, -Math.log(chance) / MOST_SURPRISE))}%`);
    known.set(span, tokens);
    this.place.append(span);
    return span;
  }
}

function show(span) {
  const tokens = known.get(span);
  if (!tokens?.length || span.closest("[aria-busy=true]")) return; // nothing pops up under the pointer while a text is written
  card.replaceChildren();
  for (const token of tokens) {
    card.append(element("div", "title", `${readable(token.text)}  ${percent(token.chance)}`));
    const others = token.others.sort((one, other) => other[1] - one[1]);
    card.append(...others.map(([text, chance]) => bar(text, chance, text === token.text)));
  }
  card.hidden = false;
  span.setAttribute("aria-describedby", card.id);
  const [box, size] = [span.getClientRects()[0] ?? span.getBoundingClientRect(), card.getBoundingClientRect()];
  const room = document.documentElement.clientWidth - size.width - 8;
  const below = box.bottom + size.height + 10 < innerHeight || box.top < size.height + 10;
  card.style.left = `${Math.max(8, Math.min(box.left, room)) + scrollX}px`;
  card.style.top = `${(below ? box.bottom + 6 : box.top - size.height - 6) + scrollY}px`;
}

function hide(span) {
  span?.removeAttribute("aria-describedby");
  card.hidden = true;
}

export function explainTokens(place) {
  moveAmong(place, ".token");
  const told = event => event.target.closest?.(".token");
  for (const kind of ["mouseover", "focusin"]) place.addEventListener(kind, event => told(event) && show(told(event)));
  for (const kind of ["mouseout", "focusout"]) place.addEventListener(kind, event => hide(told(event)));
  place.addEventListener("keydown", event => event.key === "Escape" && hide(document.activeElement));
}
