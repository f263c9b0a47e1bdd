import type { ComponentChildren } from 'preact';
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

/** A row of a list: a stable key, and its render function. */
export type Row = { key: string; draw: () => ComponentChildren };

/** The rendered margin around the visible part, in pixels. */
const beyond = 600;
const guess = 90;
/** Browsers with scroll anchoring keep the view in place without ending a scroll in progress. */
const anchored = globalThis.CSS?.supports?.('overflow-anchor', 'auto') ?? false;
/** The distance from its end within which a list follows new rows. */
const near = 48;

/**
 * A virtual list that renders only visible rows. At its end it stays at the end; elsewhere it keeps its
 * position, whatever the measured heights of the rows above are.
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
    // Scrolling up, even a little, keeps the position; a list that has become shorter is at its end.
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
      const b = box.current; // It may be unmounted.
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

/** The rendered rows, and the height of the rows before and after them. */
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
    // The list has become shorter than the scroll position.
    first = Math.max(0, rows.length - 10);
    before = rows.slice(0, first).reduce((n, r) => n + (heights.get(r.key) ?? guess), 0);
  }
  return { first, last, before, after: last === rows.length ? 0 : sum - shown };
}

type Observer = { observe(e: HTMLElement): void; unobserve(e: HTMLElement): void };

/** Measures rows. Growth above the visible part is compensated, so that the view does not move. */
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
