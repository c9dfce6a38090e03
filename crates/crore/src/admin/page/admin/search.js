// A list that is searched: the form, what came of it, and a table that grows page by page.
import { ask, query } from "./api.js";
import { count, make, outcome, table } from "./view.js";

// `wanted()` gives the members of the query, `member` names the entries of an answer; `tell` is called for each answer.
export function searched({ name, path, member, columns, empty, wanted }, fields, tell) {
  const said = outcome();
  const place = make("div");
  const more = make("button", { type: "button", hidden: true, onclick: () => again(next) }, "More");
  let found = [];
  let next = null;

  async function search(after = null) {
    try {
      const page = await ask(query(path, { ...wanted(), after, limit: 100 }));
      found = after ? [...found, ...page[member]] : page[member];
      next = page.next;
      said.show("", `${count(found.length)} shown${next ? ", there may be more" : ""}`);
    } catch (error) {
      said.show("bad", error.message);
      throw error;
    }
    more.hidden = next === null;
    place.replaceChildren(table(name, columns, found, empty));
    tell();
  }

  // For who has nothing to do about a failure: it has been said.
  const again = (after) => search(after).catch(() => {});
  const onsubmit = (event) => {
    event.preventDefault();
    again();
  };
  const form = make("form", { role: "search", "aria-label": name, onsubmit }, ...fields, make("button", { class: "main", type: "submit" }, "Search"));
  return { form, results: [said.line, place, make("p", {}, more)], look: () => search(), again: () => again() };
}
