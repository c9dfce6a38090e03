// The page: two sensors, their charts, and the state of the connection.
import { StrictMode, useEffect, useState } from "react";
import { createRoot } from "react-dom/client";
import { Crore } from "crore";
import { useTopic } from "crore/react";
import { Chart } from "./chart.jsx";

const address = new URLSearchParams(location.search).get("node") ?? "ws://localhost:8800";
const client = new Crore(address, { name: "dashboard" });

/** The last minute of a sensor, and what comes. */
function Sensor({ room, unit }) {
  const { items, state, complete, error } = useTopic(client, `rooms/${room}/temperature`, { start: { last: 120 }, keep: 120 });
  const values = items.map((message) => message.json().value);
  return (
    <section id={room}>
      <h2>{room}</h2>
      <Chart values={values} unit={unit} />
      <p role="status">
        {error ? error.message : `${state}, ${items.length} values, ${complete ? "none missing" : "some missing"}`}
      </p>
    </section>
  );
}

/** Publishes a value of the kitchen: once, however often the connection breaks. */
function Measure() {
  const [position, setPosition] = useState("");
  const measure = async () => {
    const value = 20 + 3 * Math.sin(Date.now() / 5_000) + Math.random();
    try {
      const published = await client.publish("rooms/kitchen/temperature", { value }, { once: true });
      setPosition(published.position);
    } catch (error) {
      setPosition(error.name);
    }
  };
  useEffect(() => {
    const timer = setInterval(measure, 500);
    return () => clearInterval(timer);
  }, []);
  return (
    <p>
      <button onClick={measure}>measure</button> <output>{position}</output>
    </p>
  );
}

createRoot(document.getElementById("page")).render(
  <StrictMode>
    <h1>Rooms</h1>
    <Sensor room="kitchen" unit="°C" />
    <Sensor room="cellar" unit="°C" />
    <Measure />
  </StrictMode>,
);
