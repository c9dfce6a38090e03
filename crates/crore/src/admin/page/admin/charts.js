// A curve of the last minutes, as SVG. The newest value stands beside its name, and in the name that a screen reader says.
import { make } from "./view.js";

const POINTS_MAX = 180;
// A young curve is not drawn wider than over so many.
const POINTS_MIN = 30;
const WIDTH = 300;
const HEIGHT = 74;

export function chart(name, show) {
  const space = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(space, "svg");
  for (const [key, value] of [["viewBox", `0 0 ${WIDTH} ${HEIGHT}`], ["preserveAspectRatio", "none"], ["role", "img"]]) picture.setAttribute(key, value);
  const floor = document.createElementNS(space, "line");
  for (const [key, value] of [["x1", 0], ["x2", WIDTH], ["y1", HEIGHT - 1], ["y2", HEIGHT - 1]]) floor.setAttribute(key, value);
  const curve = document.createElementNS(space, "polyline");
  picture.append(floor, curve);
  const newest = make("strong", {}, "–");
  const most = make("p", {}, "");
  const values = [];
  return {
    element: make("section", { class: "chart sheet" }, make("h3", {}, name, newest), picture, most),
    add(value) {
      values.push(value);
      if (values.length > POINTS_MAX) values.shift();
      const top = Math.max(1, ...values);
      const step = WIDTH / (Math.max(values.length, POINTS_MIN) - 1);
      const from = WIDTH - (values.length - 1) * step;
      const points = values.map((each, place) => `${(from + place * step).toFixed(1)},${(HEIGHT - 2 - (each / top) * (HEIGHT - 6)).toFixed(1)}`);
      curve.setAttribute("points", points.join(" "));
      newest.textContent = show(value);
      most.textContent = `at most ${show(Math.max(...values))} in the last minutes`;
      picture.setAttribute("aria-label", `${name}: ${show(value)} now, ${most.textContent}`);
    },
  };
}
