"use strict";

function nearest(points, x) {
  let low = 0, high = points.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (points[middle][0] < x) low = middle; else high = middle;
  }
  return Math.abs(points[low][0] - x) <= Math.abs(points[high][0] - x) ? points[low] : points[high];
}

function show(value) {
  const size = Math.abs(value);
  return size >= 1e5 || (size < 1e-3 && size > 0) ? value.toExponential(2) : String(+value.toPrecision(5));
}

function row(tip, label, value, style) {
  const line = document.createElement("div"), name = document.createElement("span"), number = document.createElement("span");
  name.className = style ? "key " + style : "";
  name.textContent = label;
  number.textContent = value;
  line.append(name, number);
  tip.append(line);
}

for (const figure of document.querySelectorAll("figure.chart")) {
  const data = JSON.parse(figure.querySelector("script").textContent);
  const plot = figure.querySelector(".plot"), cursor = figure.querySelector(".cursor"), tip = figure.querySelector(".tip");
  const button = figure.querySelector("button.scale");
  if (button) button.onclick = () => { button.textContent = figure.classList.toggle("log") ? "linear scale" : "log scale"; };
  plot.onpointermove = event => {
    const box = plot.getBoundingClientRect();
    const wanted = data.left + (event.clientX - box.left) / box.width * (data.right - data.left);
    const found = data.curves.map(curve => nearest(curve.points, wanted));
    const step = found.reduce((a, b) => Math.abs(a[0] - wanted) <= Math.abs(b[0] - wanted) ? a : b)[0];
    tip.replaceChildren();
    row(tip, data.across, step.toLocaleString("en"));
    data.curves.forEach(curve => {
      const point = nearest(curve.points, step);
      row(tip, curve.label + (point[0] === step ? "" : " @ " + point[0].toLocaleString("en")), show(point[1]), curve.style);
    });
    const share = (step - data.left) / (data.right - data.left || 1);
    cursor.style.left = 100 * share + "%";
    tip.style.left = share < .5 ? `calc(${100 * share}% + 10px)` : "auto";
    tip.style.right = share < .5 ? "auto" : `calc(${100 - 100 * share}% + 10px)`;
    cursor.style.opacity = .6;
    tip.style.opacity = 1;
  };
  plot.onpointerleave = () => { cursor.style.opacity = 0; tip.style.opacity = 0; };
}

for (const button of document.querySelectorAll("button.copy")) {
  button.onclick = async () => {
    await navigator.clipboard.writeText(button.parentElement.querySelector("pre").textContent);
    button.textContent = "copied";
  };
}

for (const link of document.querySelectorAll(".save a[download$='.svg']")) {
  const png = document.createElement("a");
  png.textContent = "PNG";
  png.href = "#";
  png.download = link.download.replace(/svg$/, "png");
  png.onclick = event => {
    if (png.href.startsWith("blob:")) return;
    event.preventDefault();
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = 2 * image.width;
      canvas.height = 2 * image.height;
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob(blob => { png.href = URL.createObjectURL(blob); png.click(); });
    };
    image.src = link.href;
  };
  link.after(png);
}
