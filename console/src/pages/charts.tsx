// Charts as SVG. Each has its values in a table, so a chart is hidden from screen readers.

export type Series = { name: string; kind: string; values: number[] };

type BarsProps = { labels: string[]; series: Series[]; write: (n: number) => string };

const width = 600;
const height = 150;
const base = height - 18;

/** The smallest 1, 2 or 5 times a power of ten that is not below n. */
export function ceiling(n: number): number {
  if (n <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 5, 10].map((f) => f * power).find((v) => v >= n * (1 - 1e-9))!;
}

/** Stacked bars over time, one for each label. */
export function Bars({ labels, series, write }: BarsProps) {
  const sums = labels.map((_, i) => series.reduce((n, s) => n + (s.values[i] ?? 0), 0));
  const top = ceiling(Math.max(...sums, 0));
  const step = width / Math.max(labels.length, 1);
  const every = Math.ceil(labels.length / 6);
  return (
    <figure class="chart">
      <svg viewBox={`0 0 ${width + 44} ${height}`} aria-hidden="true">
        {[0, 0.5, 1].map((f) => (
          <g key={f}>
            <line class="grid" x1="0" x2={width} y1={base - f * (base - 8)} y2={base - f * (base - 8)} />
            <text class="axis" x={width + 4} y={base - f * (base - 8) + 3}>{f === 0 ? '0' : write(top * f)}</text>
          </g>
        ))}
        {labels.map((label, i) => {
          let y = base;
          return (
            <g key={label}>
              <title>{label}: {series.filter((s) => s.values[i]).map((s) => `${write(s.values[i]!)} ${s.name}`).join(', ') || write(0)}</title>
              <rect class="hit" x={i * step} y="0" width={step} height={base} />
              {series.map((s) => {
                const h = ((s.values[i] ?? 0) / top) * (base - 8);
                y -= h;
                return h > 0 && <rect key={s.name} class={`mark ${s.kind}`} x={i * step + step * 0.12} y={y} width={Math.min(step * 0.76, 40)} height={Math.max(h, 1)} />;
              })}
              {i % every === 0 && <text class="axis" x={i * step + 2} y={height - 4}>{label}</text>}
            </g>
          );
        })}
      </svg>
      {series.length > 1 && <figcaption>{series.map((s) => <span key={s.name}><i class={`key ${s.kind}`} /> {s.name}</span>)}</figcaption>}
    </figure>
  );
}

/** The quantiles of a latency on one scale with others: from p50 to p90, and to p99. */
export function Range({ p50, p90, p99, most }: { p50: number; p90: number; p99: number; most: number }) {
  // Latencies differ by orders of magnitude.
  const at = (ms: number) => (100 * Math.log1p(ms)) / Math.log1p(Math.max(most, 1));
  return (
    <svg class="range" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
      <rect class="track" x="0" y="4" width="100" height="2" />
      <rect class="mark far" x={at(p50)} y="3" width={Math.max(at(p99) - at(p50), 0.5)} height="4" />
      <rect class="mark" x={at(p50)} y="1.5" width={Math.max(at(p90) - at(p50), 1)} height="7" />
    </svg>
  );
}

/** A share of the largest value. */
export function Meter({ value, most }: { value: number; most: number }) {
  return (
    <svg class="range" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
      <rect class="track" x="0" y="1.5" width="100" height="7" />
      <rect class="mark" x="0" y="1.5" width={most > 0 ? (100 * value) / most : 0} height="7" />
    </svg>
  );
}
