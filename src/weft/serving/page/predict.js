// The tab of a model that tells something: the class of a text, a row, an image or a sound, the tags of words, the answer in a passage.

import { json } from "./api.js";
import { complain, element, submitWithKeys } from "./dom.js";
import { taskOf } from "./models.js";
import { draw, drawTable, rowsOf } from "./results.js";

const TOGETHER = 256; // rows of a request; an image or a sound is one of its own

export function startPredictions(chosenModel, chooser) {
  const section = document.getElementById("predict");
  const [form, fields, drop, status, error, results] = ["form", ".fields", ".drop", ".status", ".error", ".results"].map(name => section.querySelector(name));
  const file = drop.querySelector("input");
  let [task, running] = [null, null];

  chooser.addEventListener("change", () => {
    running?.abort();
    task = taskOf(chosenModel());
    results.replaceChildren();
    status.textContent = "";
    complain(error, "");
    if (!task) return;
    fields.replaceChildren(...(task.files ? [] : task.fields.map(field)));
    drop.hidden = false;
    drop.querySelector(".what").textContent = task.files ? `${task.images ? "Images" : "Sounds"}: drop them here, paste them, or choose` : "or a CSV or JSONL file of many rows: drop it here, or choose";
    file.accept = task.images ? "image/png,image/jpeg,image/webp,image/bmp" : task.files ? ".wav,.flac,.ogg,.opus,.mp3" : ".csv,.tsv,.jsonl,.txt";
    file.multiple = task.files;
    for (const each of section.querySelectorAll("button.main, .hint")) each.hidden = task.files;
  });

  function field(name) {
    const made = element("label", task.long ? "long" : "", `${name} `);
    const input = made.appendChild(element(task.long ? "textarea" : "input"));
    input.dataset.field = name;
    if (task.long) input.rows = name === "paragraph" ? 6 : 2;
    input.spellcheck = false;
    return made;
  }

  const typed = () => Object.fromEntries([...fields.querySelectorAll("[data-field]")].map(input => [input.dataset.field, input.value]));

  // The rows are asked a part at a time, and `show` gets what is known of them so far.
  async function predict(rows, show, together = TOGETHER) {
    running?.abort();
    const mine = (running = new AbortController());
    complain(error, "");
    section.setAttribute("aria-busy", true);
    const begin = performance.now();
    const data = [];
    try {
      while (data.length < rows.length) {
        status.textContent = rows.length > together ? `${data.length} of ${rows.length} …` : "reading…";
        const part = rows.slice(data.length, data.length + together);
        data.push(...(await json("v1/predictions", { model: chosenModel().id, rows: part }, mine.signal)).data);
        show(data);
      }
      status.textContent = `${data.length} ${data.length === 1 ? "row" : "rows"} in ${((performance.now() - begin) / 1000).toFixed(2)} s`;
    } catch (problem) {
      if (mine !== running) return;
      status.textContent = "";
      complain(error, problem.name === "AbortError" ? "" : problem.message);
    }
    section.setAttribute("aria-busy", false);
  }

  // Images are pictures to look at and sounds have names, above what is told of each; rows of a file become a table to be saved.
  async function read(files) {
    if (!files.length) return;
    try {
      if (task.files) {
        const rows = await Promise.all(files.map(async each => ({ [task.fields[0]]: await base64(each) })));
        const given = each => (task.images ? { picture: each } : { name: each.name });
        await predict(rows, data => results.prepend(draw(data.at(-1), given(files[data.length - 1]))), 1);
      } else {
        const rows = rowsOf(files[0].name, await files[0].text(), task.fields);
        await predict(rows, data => results.replaceChildren(drawTable(rows.slice(0, data.length), data)));
      }
    } catch (problem) {
      complain(error, problem.message);
    }
  }

  submitWithKeys(form, () => {
    if (task.files) return;
    const row = typed();
    predict([row], data => results.replaceChildren(...data.map(one => draw(one, { row }))));
  });
  form.addEventListener("keydown", event => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.defaultPrevented) return;
    event.preventDefault();
    form.requestSubmit();
  });
  file.addEventListener("change", async () => {
    await read([...file.files]);
    file.value = "";
  });
  for (const kind of ["dragover", "dragleave", "drop"]) {
    section.addEventListener(kind, event => {
      event.preventDefault();
      drop.classList.toggle("over", kind === "dragover");
      if (kind === "drop") read([...event.dataTransfer.files]);
    });
  }
  document.addEventListener("paste", event => !section.hidden && task?.files && read([...event.clipboardData.files]));
}

async function base64(file) {
  const reader = new FileReader();
  await new Promise((resolve, reject) => {
    [reader.onload, reader.onerror] = [resolve, () => reject(new Error(`${file.name} cannot be read`))];
    reader.readAsDataURL(file);
  });
  return reader.result.slice(reader.result.indexOf(",") + 1);
}
