// Requests to the node. What is refused is thrown as a Refusal with the problem's words (RFC 9457).

export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// `expected` are statuses whose body is an answer too.
export async function ask(path, { method = "GET", body, expected = [] } = {}) {
  const headers = body === undefined ? {} : { "content-type": "application/json" };
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body && JSON.stringify(body), cache: "no-store" });
  } catch {
    throw new Refusal(0, "No answer from the node");
  }
  if (answer.status === 204) return null;
  const value = await answer.json().catch(() => null);
  if (!answer.ok && !expected.includes(answer.status)) throw new Refusal(answer.status, value?.detail ?? `${answer.status} ${answer.statusText}`);
  return value;
}

// A path with what of these members is not empty.
export function query(path, members) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(members)) {
    if (value !== "" && value !== null && value !== undefined && value !== false) parameters.set(name, value);
  }
  const text = parameters.toString();
  return text ? `${path}?${text}` : path;
}
