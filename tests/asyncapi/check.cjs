// Validates spec/asyncapi.json: by AsyncAPI's own parser, and against the test vectors and the codes beside it.
// Usage: check.cjs FOLDER_OF_SPEC. Prints `ok NAME` or `not ok NAME: WHY` for each check and `N passed, N failed` at the
// end, and fails if one has failed.
"use strict";

const { readFileSync } = require("node:fs");
const { join } = require("node:path");
const { Parser } = require("@asyncapi/parser");
const Ajv = require("ajv").default;

const folder = process.argv[2];
const text = (name) => readFileSync(join(folder, name), "utf8");
const document = JSON.parse(text("asyncapi.json"));
const { messages, schemas } = document.components;
let passed = 0;
let failed = 0;

function check(name, faults) {
  if (faults.length > 0) failed += 1;
  else passed += 1;
  console.log(faults.length > 0 ? `not ok ${name}: ${faults.slice(0, 5).join("; ")}` : `ok ${name}`);
}

async function conforms() {
  const diagnostics = await new Parser().validate(document);
  const faults = diagnostics.filter((it) => it.severity <= 1); // errors and warnings
  check("the document is AsyncAPI 3", faults.map((it) => `${it.path.join(".")}: ${it.message}`));
}

const ajv = new Ajv({ strict: false });
ajv.addSchema({ $id: "spec", components: { schemas } });
const validators = new Map();
function validator(type) {
  if (!validators.has(type) && schemas[type] && messages[type]) {
    validators.set(type, ajv.compile({ $ref: `spec#/components/schemas/${type}` }));
  }
  return validators.get(type);
}

// What an encoder writes has no member that the schema does not name.
function unnamed(value, schema) {
  const named = schema.$ref ? schemas[schema.$ref.split("/").at(-1)] : schema;
  if (Array.isArray(value)) return named.items ? value.flatMap((it) => unnamed(it, named.items)) : [];
  if (value === null || typeof value !== "object") return [];
  const branches = named.properties ? [named] : (named.oneOf ?? []);
  const properties = Object.assign({}, ...branches.map((it) => it.properties));
  return Object.entries(value).flatMap(([name, it]) => (properties[name] ? unnamed(it, properties[name]) : [name]));
}

function vectors(file, types) {
  const faults = [];
  const { valid, invalid_json: invalid } = JSON.parse(text(`vectors/${file}`));
  for (const vector of valid) {
    const frame = vector.json;
    types.add(frame.type);
    const validate = validator(frame.type);
    // An item that is refused alone is not valid, nor is the frame around it.
    const isWhole = vector.json_encodes_to !== null;
    if (!validate) faults.push(`no message ${frame.type}`);
    else if (isWhole && !validate(frame)) faults.push(`${vector.name}: ${ajv.errorsText(validate.errors)}`);
    const written = isWhole ? (vector.json_encodes_to ?? frame) : {};
    faults.push(...unnamed(written, schemas[frame.type] ?? {}).map((it) => `${vector.name}: ${it} is not in the schema`));
  }
  check(`each frame of ${file} is valid`, faults);
  const accepted = invalid.filter((vector) => {
    try {
      const frame = JSON.parse(vector.text);
      return validator(frame.type)?.(frame);
    } catch {
      return false; // not JSON
    }
  });
  // What a schema cannot say: a member twice, limits of bytes, base64 without its padding, order of numbers.
  const beyond = /twice|of \d+ bytes|base64|sequence 0|key, empty|producer and|surrogate|64 bits|reason over|prev is|zero|32 bits|'s type/;
  const wrong = accepted.filter((vector) => !beyond.test(vector.name));
  check(`refused texts of ${file} are invalid`, wrong.map((vector) => vector.name));
}

function frames() {
  const types = new Set();
  vectors("client_frames.json", types);
  vectors("server_frames.json", types);
  const named = Object.keys(document.channels.session.messages);
  const missing = named.filter((name) => !types.has(name)).concat([...types].filter((name) => !named.includes(name)));
  check("the session has exactly the frames of the vectors", missing);
}

function codes() {
  const titles = { Errors: "error_code", "Close codes": "close_code", "Unsubscribe codes": "unsubscribe_code" };
  const sections = text("codes.md").split("\n## ").slice(1);
  for (const section of sections) {
    const title = section.split("\n", 1)[0];
    const listed = [...section.matchAll(/^\| (\d+) \| `(\w+)`/gm)].map(([, number, name]) => `${number} ${name}`);
    const known = schemas[titles[title]]?.anyOf[0].oneOf.map((it) => `${it.const} ${it.title}`) ?? [];
    const differing = listed.filter((it) => !known.includes(it)).concat(known.filter((it) => !listed.includes(it)));
    check(`${title.toLowerCase()} are those of codes.md`, listed.length > 0 ? differing : ["no codes"]);
  }
}

conforms()
  .then(frames)
  .then(codes)
  .then(() => {
    console.log(`${passed} passed, ${failed} failed`);
    process.exitCode = failed > 0 ? 1 : 0;
  });
