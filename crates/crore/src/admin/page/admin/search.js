// A list that is searched: the form, what came of it, and a table that grows page by page.
import { ask, query } from "./api.js";
import { count, make, outcome, swap, table } from "./view.js";

// `wanted()` gives the members of the query, `member` names the entries of an answer and, in the
// node's figures, how many there are in all; `tell` is called for each answer.
export function searched({ name, path, member, columns, empty, wanted, sorting = {} }, fields, tell) {
  const said = outcome();
  said.line.classList.add("found");
  const place = make("div");
  const more = make("button", { type: "button", hidden: true, onclick: () => again(next) }, "More");
  let found = [];
  let next = null;

  async function search(after = null) {
    try {
      const asked = wanted();
      const [page, figures] = await Promise.all([ask(query(path, { ...asked, after, limit: 100 })), ask("/api/v1/statistics")]);
      found = after ? [...found, ...page[member]] : page[member];
      next = page.next;
      said.show("", total(found.length, Math.max(found.length, figures[member]), Object.values(asked).some(Boolean)));
    } catch (error) {
      said.show("bad", error.message);
      throw error;
    }
    more.hidden = next === null;
    swap(place, table(name, columns, found, empty, sorting));
    tell();
  }

  function total(shown, all, isSearch) {
    const of = `${count(all)} ${member}`;
    if (!isSearch) return `${count(shown)} of ${of}`;
    return next ? `${count(shown)} found so far, of ${of}` : `${count(shown)} found, of ${of}`;
  }

  // After a failure nothing remains to be done: its words are on the page.
  const again = (after) => search(after).catch(() => {});
  const onsubmit = (event) => {
    event.preventDefault();
    again();
  };
  const form = make("form", { role: "search", "aria-label": name, onsubmit }, ...fields, make("button", { class: "main", type: "submit" }, "Search"));
  // A list that has grown page by page, or that is out of sight, stays as it is.
  const look = async () => {
    if (found.length <= 100 && !document.hidden) return search();
    await ask("/api/v1/session");
    tell();
  };
  return { form, results: [said.line, place, make("p", {}, more)], look, again: () => again() };
}
