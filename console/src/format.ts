// Formats of metrics and values.

/** Milliseconds with a suitable unit, in the format of the command line. */
export function took(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(2)} s`;
  const two = (n: number) => String(Math.floor(n)).padStart(2, '0');
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)}m ${two((ms / 1_000) % 60)}s`;
  return `${Math.floor(ms / 3_600_000)}h ${two((ms / 60_000) % 60)}m`;
}

/** US dollars, in the format of the command line. */
export function dollars(c: number): string {
  if (!c) return '–';
  if (c >= 1) return `$${c.toLocaleString('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
  return c < 0.0001 ? '<$0.0001' : `$${c.toFixed(4)}`;
}

export const count = (n: number): string => (n ? n.toLocaleString('en-US') : '–');

/** A number with its noun. */
export const counted = (n: number, noun: string): string => `${n.toLocaleString('en-US')} ${noun}${n === 1 ? '' : 's'}`;

/** A time of today, or the date of another day. */
export function when(at: string | number): string {
  const d = new Date(at);
  const today = d.toDateString() === new Date().toDateString();
  return today ? d.toLocaleTimeString() : d.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' });
}

/** A JSON value as readable text. */
export function json(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? '');
}

export function bytes(n: number): string {
  if (n < 1_000) return `${n} B`;
  return n < 1_000_000 ? `${(n / 1_000).toFixed(1)} kB` : `${(n / 1_000_000).toFixed(1)} MB`;
}

/** The time in the first characters of an id; undefined for an id of another form. */
export function madeAt(id: string): number | undefined {
  const digits = /^[a-z]+_([0-9A-HJKMNP-TV-Z]{10})[0-9A-HJKMNP-TV-Z]{16}$/.exec(id)?.[1];
  return digits === undefined ? undefined : [...digits].reduce((n, d) => n * 32 + '0123456789ABCDEFGHJKMNPQRSTVWXYZ'.indexOf(d), 0);
}

/** A time of today as hour and minute, or the date of another day. */
export function clock(at: number): string {
  const d = new Date(at);
  const today = d.toDateString() === new Date().toDateString();
  return today ? d.toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit' }) : d.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' });
}
