// The tab of a model that draws images: a sheet of them, of one class where the model knows classes.

import { json } from "./api.js";
import { complain, element } from "./dom.js";

const ANY = "any";

export function startImages(chosenModel, chooser) {
  const section = document.getElementById("images");
  const [label, number, seed] = ["label", "number", "image-seed"].map(id => document.getElementById(id));
  const [sheet, status, error] = [".sheet", ".status", ".error"].map(name => section.querySelector(name));
  const [go, halt] = ["button.main", "button.stop"].map(name => section.querySelector(name));
  let running = null;

  chooser.addEventListener("change", () => {
    running?.abort();
    const labels = chosenModel().images?.labels ?? [];
    label.replaceChildren(...[ANY, ...labels].map((name, place) => {
      const option = element("option", "", name);
      option.value = place ? name : "";
      return option;
    }));
    label.closest("label").hidden = !labels.length;
    sheet.replaceChildren();
    sheet.parentElement.hidden = true;
    status.textContent = "";
    complain(error, "");
  });

  function busy(now) {
    const within = section.contains(document.activeElement) && document.activeElement.tagName === "BUTTON";
    go.hidden = now;
    halt.hidden = !now;
    if (within) (now ? halt : go).focus();
  }

  function show(reply, size, asked) {
    sheet.replaceChildren(...reply.data.map((each, place) => {
      const link = element("a", "");
      const image = link.appendChild(element("img", ""));
      link.href = image.src = `data:image/png;base64,${each.b64_json}`;
      link.download = `${asked || "image"}-seed${reply.seed}-${place + 1}.png`;
      image.alt = `Image ${place + 1} of ${reply.data.length}${asked ? `, ${asked}` : ""}`;
      [image.width, image.height] = size.split("x").map(Number);
      return link;
    }));
    sheet.parentElement.hidden = false;
  }

  async function draw() {
    if (running) return;
    running = new AbortController();
    busy(true);
    complain(error, "");
    status.textContent = "drawing…";
    const begin = performance.now();
    const [model, asked] = [chosenModel(), label.value];
    const body = { model: model.id, prompt: asked, n: Number(number.value), ...(seed.value === "" ? {} : { seed: Number(seed.value) }) };
    try {
      const reply = await json("v1/images/generations", body, running.signal);
      show(reply, model.images.size, asked);
      const count = reply.data.length;
      const seconds = ((performance.now() - begin) / 1000).toFixed(1);
      status.textContent = `${count} ${count > 1 ? "images" : "image"} of ${model.images.size.replace("x", " × ")} · seed ${reply.seed} · ${seconds} s`;
    } catch (problem) {
      status.textContent = problem.name === "AbortError" ? "stopped" : "";
      if (problem.name !== "AbortError") complain(error, problem.message);
    }
    running = null;
    busy(false);
  }

  section.querySelector("form").addEventListener("submit", event => {
    event.preventDefault();
    draw();
  });
  halt.addEventListener("click", () => running?.abort());
  section.addEventListener("keydown", event => event.key === "Escape" && running?.abort());
}
