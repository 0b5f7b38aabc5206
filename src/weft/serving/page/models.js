// What is known of a model.

// Whether it turns one text into another, instead of going on with it.
export function answersTexts(model) {
  return Boolean(model.offers?.includes("completions") && !model.offers.includes("chat"));
}
