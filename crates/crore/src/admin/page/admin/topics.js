// Topics: search, look at one and its history with positions, publish.
import { ask, query } from "./api.js";
import { searched } from "./search.js";
import { address, count, field, make, outcome, size, swap, table } from "./view.js";

export function topics(view, tell) {
  const input = make("input", { name: "search", autocomplete: "off", spellcheck: "false", "aria-describedby": "search-help" });
  const wanted = () => {
    const text = input.value.trim();
    return /[+#]/.test(text) ? { filter: text } : { prefix: text };
  };
  const columns = [
    { name: "Topic", of: ({ topic }) => make("a", { href: address("topics", topic), "aria-label": `Show topic ${topic}` }, topic), kind: "wide", by: ({ topic }) => topic },
    { name: "Rate", of: ({ rate }) => perSecond(rate), kind: "number", by: ({ rate }) => rate },
    { name: "Subscribers", of: ({ subscribers }) => count(subscribers), kind: "number", by: ({ subscribers }) => subscribers },
    { name: "Position", of: ({ position }) => position, kind: "mono", by: ({ position }) => position ?? "" },
    { name: "Retained", of: ({ retained_bytes: bytes }) => (bytes === null ? null : size(bytes)), kind: "number", by: (row) => row.retained_bytes },
    { name: "Partition", of: ({ partition }) => count(partition), kind: "number", by: ({ partition }) => partition },
  ];
  const list = { name: "Topics", path: "/api/v1/topics", member: "topics", columns, empty: "No such topic.", wanted };
  const { form, results, look, again } = searched(list, [field("Prefix of the name, or a filter", input)], tell);
  const help = make("p", { class: "help", id: "search-help" }, "In a filter, + matches one level, and # at the end matches the rest. Rates are averages of the last ten seconds.");
  view.append(make("h2", {}, "Topics"), form, help, ...results, make("h3", {}, "Publish"), publisher(again));
  return { look, everyMs: 5000 };
}

const perSecond = (rate) => (rate === null ? null : `${count(rate < 10 ? +rate.toFixed(1) : Math.round(rate))}/s`);

function publisher(changed, topic = "") {
  const name = make("input", { name: "topic", required: true, maxlength: 255, value: topic, autocomplete: "off", spellcheck: "false" });
  const type = make("input", { name: "content_type", value: "text/plain", autocomplete: "off", spellcheck: "false" });
  const payload = make("textarea", { name: "data", spellcheck: "false" });
  const retain = make("input", { type: "checkbox", name: "retain" });
  const said = outcome();
  return make(
    "form",
    {
      class: "sheet",
      "aria-label": "Publish",
      onsubmit: async (event) => {
        event.preventDefault();
        const body = { topic: name.value, data: payload.value, retain: retain.checked };
        if (type.value) body.content_type = type.value;
        try {
          const { position } = await ask("/api/v1/publish", { method: "POST", body });
          said.show("good", `Published at ${position}`);
          changed();
        } catch (error) {
          said.show("bad", error.message);
        }
      },
    },
    field("Topic", name),
    field("Media type", type),
    field("Keep as the topic's retained message", retain, "box"),
    field("Message", payload, "wide"),
    make("button", { class: "main", type: "submit" }, "Publish"),
    said.line,
  );
}

// Fills a dialog with one topic.
export async function showTopic(name, { body }) {
  const topic = await ask(query("/api/v1/topic", { topic: name }));
  const { records } = topic;
  const threads = topic.by_thread.map(({ thread, plain, by_filter: wide }) => `; thread ${thread}: ${count(plain)} to the topic, ${count(wide)} to filters`);
  const facts = [
    ["Position", topic.position],
    ["Rate", `${perSecond(topic.rate)}, last 10 s`],
    ["Rule", topic.rule || "the default rule"],
    ["Log", `${topic.log}, partition ${topic.partition} at ${topic.partition_position}`],
    ["Records in memory", `${records.all ? "" : "at least "}${count(records.count)}, ${size(records.bytes)}${records.oldest ? `, from ${records.oldest}` : ""}`],
    ["Retained", topic.retained_position ? `${topic.retained_position}, ${size(topic.retained_bytes)}` : "nothing"],
    ["Subscribers", `${count(topic.subscribers)}${threads.join("")}`],
  ];
  const place = make("div");
  const said = outcome();
  const older = make("button", { type: "button", hidden: true, onclick: () => read(last) }, "Older messages");
  let messages = [];
  let last = null;
  async function read(since = null) {
    try {
      const page = await ask(query("/api/v1/topic/history", { topic: name, reverse: true, limit: 20, since }));
      messages = since ? [...messages, ...page.messages] : page.messages;
      last = messages.at(-1)?.position ?? null;
      older.hidden = !page.more || last === null;
      swap(place, table("History, newest first", historyColumns, messages, "No messages."));
    } catch (error) {
      said.show("bad", error.message);
    }
  }
  body.append(
    make("dl", {}, ...facts.flatMap(([title, text]) => [make("dt", {}, title), make("dd", {}, text ?? "–")])),
    make("h3", {}, "History, newest first"),
    place,
    said.line,
    make("h3", {}, "Publish"),
    publisher(() => read(), name),
  );
  read();
  return { title: `Topic ${name}`, actions: [older] };
}

const PAYLOAD_CHARACTERS_MAX = 2000;

const historyColumns = [
  { name: "Position", of: ({ position }) => position, kind: "mono" },
  { name: "Time", of: ({ time_ms: ms }) => new Date(ms).toISOString().replace("T", " "), kind: "mono" },
  { name: "Message", of: ({ data, b64data }) => (data ?? `base64:${b64data}`).slice(0, PAYLOAD_CHARACTERS_MAX), kind: "mono wide pre" },
];
