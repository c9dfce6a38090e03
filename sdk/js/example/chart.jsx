// A line of values in SVG.
const WIDTH = 480;
const HEIGHT = 120;

export function Chart({ values, unit }) {
  if (values.length < 2) return <p className="chart">waiting for values</p>;
  const low = Math.min(...values);
  const high = Math.max(...values);
  const x = (at) => (at / (values.length - 1)) * WIDTH;
  const y = (value) => HEIGHT - ((value - low) / (high - low || 1)) * HEIGHT;
  const points = values.map((value, at) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
  const newest = values[values.length - 1];
  return (
    <figure className="chart">
      <svg viewBox={`0 -4 ${WIDTH} ${HEIGHT + 8}`} role="img" aria-label={`${newest} ${unit}`}>
        <polyline points={points} fill="none" stroke="currentColor" strokeWidth="2" />
      </svg>
      <figcaption>
        {newest.toFixed(1)} {unit}, from {low.toFixed(1)} to {high.toFixed(1)}
      </figcaption>
    </figure>
  );
}
