// Curves of the last minutes, as SVG. The newest values stand beside their name, and in the name that a screen reader says.
import { make } from "./view.js";

const POINTS_MAX = 180;
// A young curve is not drawn wider than over so many.
const POINTS_MIN = 30;
const WIDTH = 300;
const HEIGHT = 74;
const SPACE = "http://www.w3.org/2000/svg";

function drawn(name, attributes) {
  const made = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// `of` names the values of one look where there are several: the first is drawn as a line, the second broken.
export function chart(name, show, of = [""]) {
  const picture = drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
  const curves = of.map((_, place) => drawn("path", { class: place === 0 ? "first" : "second" }));
  picture.append(drawn("line", { x1: 0, x2: WIDTH, y1: HEIGHT - 1, y2: HEIGHT - 1 }), ...curves);
  const newest = make("strong", {}, "–");
  const most = make("p", {}, "");
  const looks = [];
  const said = (values) => values.map((value, place) => `${of[place]} ${show(value)}`.trim()).join(", ");

  function line(place, top) {
    const step = WIDTH / (Math.max(looks.length, POINTS_MIN) - 1);
    const from = WIDTH - (looks.length - 1) * step;
    const height = (value) => HEIGHT - 2 - (value / top) * (HEIGHT - 6);
    let isOpen = false;
    const points = looks.map((values, number) => {
      const command = isOpen ? "L" : "M";
      isOpen = values !== null;
      return isOpen ? `${command}${(from + number * step).toFixed(1)} ${height(values[place]).toFixed(1)}` : "";
    });
    return points.join("");
  }

  return {
    element: make("section", { class: "chart sheet" }, make("h3", {}, name, newest), picture, most),
    // One value, or as many as have names; null where a look has nothing to say: the curve has a gap there.
    add(value) {
      const values = value === null ? null : [value].flat();
      looks.push(values);
      if (looks.length > POINTS_MAX) looks.shift();
      const known = looks.filter((each) => each !== null);
      const highest = of.map((_, place) => Math.max(0, ...known.map((each) => each[place])));
      const top = Math.max(1, ...highest);
      curves.forEach((curve, place) => curve.setAttribute("d", line(place, top)));
      newest.textContent = values === null ? "–" : values.map(show).join(" / ");
      most.textContent = known.length === 0 ? "nothing in the last minutes" : `at most ${said(highest)} in the last minutes`;
      picture.setAttribute("aria-label", `${name}: ${values === null ? "nothing" : said(values)} now, ${most.textContent}`);
    },
  };
}
