import type { ComponentChildren } from 'preact';
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

/** What a list shows: a key that stays, and how to draw it. */
export type Row = { key: string; draw: () => ComponentChildren };

/** What is drawn beyond the visible part, in pixels. */
const beyond = 600;
const guess = 90;
/** Browsers that keep what is in sight where it is do so without ending a movement under way. */
const anchored = globalThis.CSS?.supports?.('overflow-anchor', 'auto') ?? false;
/** How near to its end a list follows what is added. */
const near = 48;

/**
 * A list of which only what can be seen is in the page. It stays at its end while it is there, and where it is
 * otherwise, whatever the rows above turn out to measure.
 */
export function VirtualList({ rows, label }: { rows: readonly Row[]; label: string }) {
  const box = useRef<HTMLDivElement>(null);
  const heights = useRef(new Map<string, number>());
  const following = useRef(true);
  const [view, setView] = useState({ top: 0, height: 0 });
  const [, measured] = useState(0);
  const [atEnd, setAtEnd] = useState(true);
  const observer = useObserver(heights, box, following, () => measured((n) => n + 1));

  const last = useRef(0);

  const look = useCallback(() => {
    const b = box.current;
    if (!b) return;
    last.current = b.scrollTop;
    setAtEnd(following.current);
    setView((v) => (Math.abs(v.top - b.scrollTop) < beyond / 4 && v.height === b.clientHeight ? v : { top: b.scrollTop, height: b.clientHeight }));
  }, []);

  const scrolled = () => {
    const b = box.current!;
    const distance = b.scrollHeight - b.scrollTop - b.clientHeight;
    // Whoever scrolls up wants to stay there, however little it is yet; a list that has become shorter is at its end.
    if (b.scrollTop < last.current - 1 && distance > 1) following.current = false;
    else if (distance < near && b.scrollTop > last.current) following.current = true;
    look();
  };

  const toEnd = () => {
    following.current = true;
    const b = box.current!;
    b.scrollTop = b.scrollHeight;
    look();
  };

  useLayoutEffect(() => {
    const b = box.current!;
    if (following.current) b.scrollTop = b.scrollHeight;
    if (Math.abs(view.top - b.scrollTop) >= beyond / 4 || view.height !== b.clientHeight) look();
  });

  useEffect(() => {
    const sized = new ResizeObserver(() => {
      const b = box.current; // It may have gone.
      if (b && following.current) b.scrollTop = b.scrollHeight;
      look();
    });
    sized.observe(box.current!);
    return () => sized.disconnect();
  }, []);

  const { first, last: end, before, after } = windowOf(rows, heights.current, view);
  return (
    <div class="listbox">
      <div class="list" ref={box} onScroll={scrolled} tabIndex={0} role="region" aria-label={label}>
        <div class="room" style={{ height: `${before}px` }} />
        {rows.slice(first, end).map((row) => <Measured key={row.key} row={row} observer={observer} />)}
        <div class="room" style={{ height: `${after}px` }} />
      </div>
      {!atEnd && <button type="button" class="toend" onClick={toEnd}>↓ Newest</button>}
    </div>
  );
}

/** Which rows are drawn, and how much room those before and after them take. */
export function windowOf(rows: readonly Row[], heights: Map<string, number>, view: { top: number; height: number }) {
  let sum = 0;
  let first = -1;
  let last = rows.length;
  let before = 0;
  let shown = 0;
  for (let i = 0; i < rows.length; i++) {
    const h = heights.get(rows[i]!.key) ?? guess;
    if (first < 0 && sum + h >= view.top - beyond) {
      first = i;
      before = sum;
    }
    sum += h;
    if (first >= 0 && last === rows.length && sum > view.top + view.height + beyond) {
      last = i + 1;
      shown = sum;
    }
  }
  if (first < 0) {
    // The list has become shorter than where it was looked at.
    first = Math.max(0, rows.length - 10);
    before = rows.slice(0, first).reduce((n, r) => n + (heights.get(r.key) ?? guess), 0);
  }
  return { first, last, before, after: last === rows.length ? 0 : sum - shown };
}

type Observer = { observe(e: HTMLElement): void; unobserve(e: HTMLElement): void };

/** Measures rows. What grows above the visible part moves the view by as much, so that nothing seems to move. */
function useObserver(heights: { current: Map<string, number> }, box: { current: HTMLDivElement | null }, following: { current: boolean }, changed: () => void): Observer {
  const made = useRef<ResizeObserver | null>(null);
  made.current ??= new ResizeObserver((entries) => {
    const b = box.current;
    if (!b) return;
    let above = 0;
    let differs = false;
    const top = b.getBoundingClientRect().top;
    for (const { target } of entries) {
      const e = target as HTMLElement;
      if (!e.isConnected) continue;
      const key = e.dataset['key']!;
      const now = e.getBoundingClientRect();
      const was = heights.current.get(key) ?? guess;
      if (Math.abs(now.height - was) < 0.5 && heights.current.has(key)) continue;
      heights.current.set(key, now.height);
      differs = true;
      if (now.bottom < top) above += now.height - was;
    }
    if (!differs) return;
    if (following.current) b.scrollTop = b.scrollHeight;
    else if (above !== 0 && !anchored) b.scrollTop += above;
    changed();
  });
  useEffect(() => () => made.current?.disconnect(), []);
  return made.current;
}

function Measured({ row, observer }: { row: Row; observer: Observer }) {
  const ref = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const e = ref.current!;
    observer.observe(e);
    return () => observer.unobserve(e);
  }, []);
  return <div class="row" data-key={row.key} ref={ref}>{row.draw()}</div>;
}
