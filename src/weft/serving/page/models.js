// What is known of a model.

// Whether it turns one text into another, instead of going on with it.
export const answersTexts = model => Boolean(model.answers);

// Whether it came with a template of its own, and so was trained to chat.
export const trainedToChat = model => model.template === "own";

// The tabs for what a model does; the one that is opened where nobody chose stands first.
export function tabsOf(model) {
  const offers = model.offers ?? [];
  const found = ["predict", "images"].filter(name => offers.includes({ predict: "predictions", images: "images" }[name]));
  const writes = [offers.includes("chat") && "chat", offers.includes("completions") && "complete"].filter(Boolean);
  found.push(...(trainedToChat(model) ? writes : writes.reverse()));
  return offers.some(name => ["completions", "embeddings"].includes(name)) ? [...found, "attention"] : found;
}

const FIELDS = { answer: ["question", "paragraph"], choice: ["context", "choice1", "choice2"], tags: ["words"] };

// What it predicts: the fields of a row, and whether they are images or other files. Null where it predicts nothing.
export function taskOf(model) {
  if (!model.predictions) return null;
  const { kind, asked } = model.predictions;
  const [images, sounds] = [asked[0] === "picture.png", asked[0] === "sound.wav"];
  const columns = asked.every(each => each.includes("=")) && asked.map(each => each.slice(0, each.lastIndexOf("=")));
  const texts = asked.length > 1 ? asked.map((_, number) => `text${number + 1}`) : ["text"];
  const files = images || sounds;
  return { kind, images, files, fields: images ? ["image"] : sounds ? ["sound"] : columns || FIELDS[kind] || texts, long: !columns };
}
