// Curves of the last five minutes, as SVG. The newest values stand beside their name, and in the
// name that a screen reader says.
import { make, span } from "./view.js";

export const SPAN_MS = 300_000;
const WIDTH = 300;
const HEIGHT = 92;
const SPACE = "http://www.w3.org/2000/svg";
// Two samples that are farther apart than so many intervals have a gap between them.
const INTERVALS_MAX = 2.5;

function drawn(name, attributes) {
  const made = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// Seconds, of minutes the whole ones.
export function whole(ms) {
  const seconds = Math.round(ms / 1000);
  return seconds < 60 ? seconds : seconds - (seconds % 60);
}

// The next round number, in the unit that `base` makes (1,024 for bytes).
export function round(value, base) {
  if (value <= 1) return 1;
  const unit = base ** Math.floor(Math.log(value) / Math.log(base) + 1e-9);
  const ten = 10 ** Math.floor(Math.log10(value / unit) + 1e-9);
  const step = [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((each) => each * ten * unit >= value * (1 - 1e-9));
  return step * ten * unit;
}

// `value` makes one number of a sample, or as many as `of` has names, or null where the sample has
// nothing to say. The first is drawn as a line, the second broken.
export function chart(name, value, show, { of = [""], base = 1000 } = {}) {
  const picture = drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
  for (const minute of [1, 2, 3, 4]) picture.append(drawn("line", { x1: (minute * WIDTH) / 5, x2: (minute * WIDTH) / 5, y1: 0, y2: HEIGHT }));
  for (const height of [1, HEIGHT / 2]) picture.append(drawn("line", { x1: 0, x2: WIDTH, y1: height, y2: height }));
  const curves = of.map((_, place) => drawn("path", { class: place === 0 ? "first" : "second" }));
  const cross = drawn("line", { class: "cross", y1: 0, y2: HEIGHT, visibility: "hidden" });
  picture.append(...curves, cross);
  const newest = make("strong", {}, "–");
  const top = make("span");
  const most = make("p", {}, "");
  const axis = ["−5 min", "−4", "−3", "−2", "−1", "now"].map((text) => make("span", {}, text));
  const said = (values) => values.map((each, place) => `${of[place]} ${show(each)}`.trim()).join(", ");
  const brief = (values) => values.map(show).join(" / ");
  let points = [];
  let told = "";

  const across = (at) => WIDTH * (1 - (points.at(-1).at - at) / SPAN_MS);

  function line(place, highest, interval) {
    let before = null;
    const parts = points.map(({ at, values }) => {
      if (values === null) return "";
      const isOpen = before !== null && at - before <= interval * INTERVALS_MAX;
      before = at;
      const height = HEIGHT - 1 - (values[place] / highest) * (HEIGHT - 2);
      return `${isOpen ? "L" : "M"}${across(at).toFixed(1)} ${height.toFixed(1)}`;
    });
    return parts.join("");
  }

  // What was where the pointer is.
  picture.addEventListener("pointermove", (event) => {
    const known = points.filter(({ values }) => values !== null);
    if (known.length === 0) return;
    const box = picture.getBoundingClientRect();
    const wanted = ((event.clientX - box.left) / box.width) * WIDTH;
    const far = ({ at }) => Math.abs(across(at) - wanted);
    const near = known.reduce((best, each) => (far(each) < far(best) ? each : best));
    for (const side of ["x1", "x2"]) cross.setAttribute(side, across(near.at));
    cross.setAttribute("visibility", "visible");
    most.textContent = `${brief(near.values)} at ${new Date(near.at).toLocaleTimeString("en-GB")}`;
  });
  picture.addEventListener("pointerleave", () => {
    cross.setAttribute("visibility", "hidden");
    most.textContent = told;
  });

  return {
    element: make("section", { class: "chart sheet" }, make("h3", {}, name, newest), make("div", { class: "plot" }, picture, top), make("div", { class: "axis", "aria-hidden": "true" }, ...axis), most),
    draw(samples, interval) {
      points = samples.map((sample) => ({ at: sample.time_ms, values: [value(sample)].flat() }));
      for (const point of points) if (point.values[0] === null) point.values = null;
      const known = points.filter(({ values }) => values !== null);
      const highest = of.map((_, place) => Math.max(0, ...known.map(({ values }) => values[place])));
      const scale = round(Math.max(...highest), base);
      curves.forEach((curve, place) => curve.setAttribute("d", line(place, scale, interval)));
      const now = points.at(-1)?.values ?? null;
      newest.textContent = now === null ? "–" : brief(now);
      top.textContent = known.length === 0 ? "" : show(scale);
      const covered = points.length === 0 ? 0 : points.at(-1).at - points[0].at + interval;
      const period = `last ${span(whole(Math.min(covered, SPAN_MS)))}`;
      told = known.length === 0 ? `nothing, ${period}` : `max ${said(highest)}, ${period}`;
      if (cross.getAttribute("visibility") === "hidden") most.textContent = told;
      picture.setAttribute("aria-label", `${name}: ${now === null ? "nothing" : said(now)} now, ${told}`);
    },
  };
}
