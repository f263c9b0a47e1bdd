import type { ComponentChildren } from 'preact';
import type { RequestError } from '../client/http';

/** A table whose first columns are texts and whose others are figures, but for a last one of words. */
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

/** Why something is not shown. */
export function Trouble({ error }: { error: RequestError | undefined }) {
  return error ? <p class="problem" role="alert">{error.message} {error.details}</p> : null;
}
