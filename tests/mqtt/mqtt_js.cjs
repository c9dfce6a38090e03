// MQTT.js: publishes and subscribes with each QoS, and comes back to its session.
// node mqtt_js.cjs URL VERSION; MQTT_JS names a folder with node_modules.
const path = require("node:path");
const mqtt = require(path.join(process.env.MQTT_JS, "node_modules/mqtt"));

const [url, version] = process.argv.slice(2);
const options = {
  protocolVersion: Number(version),
  protocolId: version === "3" ? "MQIsdp" : "MQTT",
  clientId: `js-${version}-${url.slice(0, 2)}`,
  clean: false,
  reconnectPeriod: 0,
  ...(version === "5" ? { properties: { sessionExpiryInterval: 60 } } : {}),
};
const topic = `js/${version}/${url.slice(0, 2)}`;
const count = 100;

function receive(client, wanted) {
  return new Promise((resolve) => {
    const found = [];
    client.on("message", (_, payload) => {
      found.push(Number(payload.toString()));
      if (found.length === wanted) {
        client.removeAllListeners("message");
        resolve(found);
      }
    });
  });
}

function check(found, first) {
  const expected = Array.from({ length: found.length }, (_, at) => first + at);
  if (found.join() !== expected.join()) {
    throw new Error(`expected ${expected.join()}, got ${found.join()}`);
  }
}

async function main() {
  const client = await mqtt.connectAsync(url, options);
  await client.subscribeAsync(topic, { qos: 2 });
  for (const qos of [0, 1, 2]) {
    const received = receive(client, count);
    for (let number = 0; number < count; number += 1) {
      client.publish(topic, String(number), { qos });
    }
    check(await received, 0);
  }
  await client.endAsync();
  const writer = await mqtt.connectAsync(url, { ...options, clientId: `${options.clientId}-w` });
  for (let number = 0; number < count; number += 1) {
    await writer.publishAsync(topic, String(number), { qos: 1 });
  }
  await writer.endAsync();
  const again = mqtt.connect(url, options);
  check(await receive(again, count), 0);
  await again.endAsync();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
