// Attention weights as a picture: rows look at columns.

import { readable } from "./tokens.js";

const SMALLEST_CELL = 3;
const LARGEST_CELL = 24;
const LETTERED_CELL = 11;
const HIGHEST = 620;
const LONGEST_LABEL = 84;
const FONT = "11px ui-monospace, Menlo, Consolas, monospace";

export const shade = weight => Math.sqrt(weight);

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function sized(canvas, width, height) {
  const sharp = devicePixelRatio || 1;
  [canvas.width, canvas.height] = [width * sharp, height * sharp];
  [canvas.style.width, canvas.style.height] = [`${width}px`, `${height}px`];
  const pen = canvas.getContext("2d");
  pen.scale(sharp, sharp);
  return pen;
}

// One point for each weight; whoever shows it makes it larger.
export function drawPoints(canvas, weights) {
  [canvas.width, canvas.height] = [weights[0].length, weights.length];
  const [red, green, blue] = colour("--c0").match(/[0-9a-f]{2}/gi).map(part => parseInt(part, 16));
  const points = new ImageData(canvas.width, canvas.height);
  weights.flat().forEach((weight, place) => points.data.set([red, green, blue, 255 * shade(weight)], 4 * place));
  canvas.getContext("2d").putImageData(points, 0, 0);
  return canvas;
}

// Draws the whole matrix into `width` and returns what stands under a point. Cells are square, but lower where there are many rows.
export function drawMatrix(canvas, weights, rows, columns, chosen, width) {
  const measure = canvas.getContext("2d");
  measure.font = FONT;
  const longest = texts => Math.min(LONGEST_LABEL, Math.max(...texts.map(text => measure.measureText(readable(text)).width)) + 8);
  let [left, top] = [longest(rows), longest(columns)];
  let across = Math.floor((width - left) / columns.length);
  if (across < LETTERED_CELL) [left, top, across] = [0, 0, Math.floor(width / columns.length)];
  across = Math.max(SMALLEST_CELL, Math.min(LARGEST_CELL, across));
  const down = Math.min(across, Math.max(LETTERED_CELL, Math.floor(HIGHEST / rows.length)));
  const [wide, high] = [across * columns.length, down * rows.length];
  const pen = sized(canvas, left + wide + 1, top + high + 1);
  pen.strokeStyle = colour("--line");
  pen.strokeRect(left + 0.5, top + 0.5, wide, high);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(drawPoints(document.createElement("canvas"), weights), left, top, wide, high);
  if (left) label(pen, rows, columns, across, down, left, top, chosen);
  pen.strokeStyle = colour("--c1");
  pen.lineWidth = 1.5;
  pen.strokeRect(left + 0.5, top + chosen * down + 0.5, wide, down);
  return (x, y) => {
    const [row, column] = [Math.floor((y - top) / down), Math.floor((x - left) / across)];
    return row >= 0 && row < rows.length && column >= 0 && column < columns.length ? { row, column } : null;
  };
}

function label(pen, rows, columns, across, down, left, top, chosen) {
  pen.font = FONT;
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  rows.forEach((text, place) => {
    pen.fillStyle = colour(place === chosen ? "--c1" : "--soft");
    pen.fillText(clipped(pen, readable(text), left - 6), left - 5, top + (place + 0.5) * down);
  });
  pen.textAlign = "left";
  pen.fillStyle = colour("--soft");
  columns.forEach((text, place) => {
    pen.save();
    pen.translate(left + (place + 0.5) * across, top - 5);
    pen.rotate(-Math.PI / 2);
    pen.fillText(clipped(pen, readable(text), top - 6), 0, 0);
    pen.restore();
  });
}

function clipped(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  let kept = text;
  while (kept && pen.measureText(`${kept}…`).width > room) kept = kept.slice(0, -1);
  return `${kept}…`;
}
