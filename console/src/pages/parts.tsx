import type { ComponentChildren } from 'preact';
import type { RequestError } from '../client/http';

/** Periods up to now, in milliseconds. */
export const periods: [string, string][] = [['any time', ''], ['last hour', '3600000'], ['last day', '86400000'], ['last week', '604800000']];

type SelectProps = { label: string; value: string; set: (value: string) => void; options: readonly (readonly [string, string])[] };

/** A choice of one of some values. */
export function Select({ label, value, set, options }: SelectProps) {
  return (
    <label>{label}<select value={value} onChange={(e) => set(e.currentTarget.value)}>
      {options.map(([name, v]) => <option key={v} value={v}>{name}</option>)}
    </select></label>
  );
}

/** A table whose first columns are texts and whose others are numbers, with an optional last column of text. */
export function Figures({ head, rows, texts = 1, last = false }: { head: string[]; rows: ComponentChildren[][]; texts?: number; last?: boolean }) {
  if (rows.length === 0) return <p class="dim">None.</p>;
  const kind = (i: number) => (i < texts ? '' : last && i === head.length - 1 ? 'words' : 'number');
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={head[0]}>
      <table class="figures">
        <thead><tr>{head.map((h, i) => <th key={h} class={kind(i)} scope="col">{h}</th>)}</tr></thead>
        <tbody>{rows.map((row, j) => <tr key={j}>{row.map((c, i) => (i === 0 ? <th key={i} scope="row">{c}</th> : <td key={i} class={kind(i)}>{c}</td>))}</tr>)}</tbody>
      </table>
    </div>
  );
}

/** The reason that something is missing. */
export function Trouble({ error }: { error: RequestError | undefined }) {
  return error ? <p class="problem" role="alert">{error.text}</p> : null;
}
