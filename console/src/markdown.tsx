import { Lexer, type Token, type Tokens } from 'marked';
import type { ComponentChildren, VNode } from 'preact';
import { memo } from './memo';
import { CopyButton } from './copybutton';

// Model output is untrusted: its tokens become elements here, one by one, and none of its text is ever
// parsed as HTML. An image becomes a link, so that the page fetches nothing without a click.

/** Text in Markdown. While it grows, only its last blocks are parsed again. */
export const Markdown = memo(function Markdown({ text }: { text: string }) {
  return <div class="md">{blocks(text).map((raw, i) => <Block key={i} raw={raw} />)}</div>;
});

const Block = memo(function Block({ raw }: { raw: string }) {
  return <>{lex(raw).map((t, i) => block(t, i))}</>;
});

function lex(text: string): Token[] {
  return new Lexer({ gfm: true }).lex(text);
}

/** Splits text at its top-level blocks: the blocks before the last one do not change with further text. */
export function blocks(text: string): string[] {
  const found: string[] = [];
  let from = 0;
  let fence = '';
  let blank = false;
  let at = 0;
  for (const line of text.split('\n')) {
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    if (fence) {
      if (mark?.startsWith(fence) && line.trim() === mark) fence = '';
    } else {
      // A line that begins at the margin after an empty one begins a block, unless it may continue a list.
      if (blank && /^\S/.test(line) && !/^([-*+>|]|\d+[.)])/.test(line)) {
        found.push(text.slice(from, at));
        from = at;
      }
      if (mark) fence = mark;
    }
    blank = !fence && line.trim() === '';
    at += line.length + 1;
  }
  found.push(text.slice(from));
  return found.filter((s) => s.trim() !== '');
}

function inline(tokens: Token[] | undefined): ComponentChildren {
  return tokens?.map((t, i) => span(t, i));
}

function span(t: Token, key: number): ComponentChildren {
  switch (t.type) {
    case 'strong':
      return <strong key={key}>{inline(t.tokens)}</strong>;
    case 'em':
      return <em key={key}>{inline(t.tokens)}</em>;
    case 'del':
      return <del key={key}>{inline(t.tokens)}</del>;
    case 'codespan':
      return <code key={key}>{unescape(t.text)}</code>;
    case 'br':
      return <br key={key} />;
    case 'link':
      return <Link key={key} href={t.href}>{inline(t.tokens)}</Link>;
    case 'image':
      return <Link key={key} href={t.href}>[image{t.text && `: ${t.text}`}]</Link>;
    case 'escape':
      return t.text;
    case 'text':
      return 'tokens' in t && t.tokens ? <span key={key}>{inline(t.tokens)}</span> : unescape(t.text);
    default:
      return t.raw; // HTML above all
  }
}

/** The entities that the lexer leaves in texts. */
function unescape(s: string): string {
  return s.replace(/&(amp|lt|gt|quot|#39);/g, (_, name: string) => ({ amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" })[name]!);
}

/** A link with its address in the title. Only addresses that cannot run code become links. */
function Link({ href, children }: { href: string; children: ComponentChildren }) {
  let url: URL | undefined;
  try {
    url = new URL(href);
  } catch {
    // It does not leave this page.
  }
  if (!url || !['http:', 'https:', 'mailto:'].includes(url.protocol)) return <span title={href}>{children}</span>;
  const target = url.protocol === 'mailto:' ? url.pathname : url.host;
  return (
    <a href={url.href} target="_blank" rel="noopener noreferrer nofollow" title={url.href}>
      {children}
      <span class="target" dir="ltr"> ({target})</span>
    </a>
  );
}

function block(t: Token, key: number): VNode | null {
  switch (t.type) {
    case 'heading': {
      // The page itself uses the first two levels.
      const Name = `h${Math.min(t.depth + 2, 6)}` as 'h3';
      return <Name key={key} dir="auto">{inline(t.tokens)}</Name>;
    }
    case 'paragraph':
    case 'text':
      return <p key={key} dir="auto">{t.tokens ? inline(t.tokens) : t.text}</p>;
    case 'code':
      return <Code key={key} text={t.text} lang={(t.lang ?? '').split(/\s/)[0]} />;
    case 'blockquote':
      return <blockquote key={key} dir="auto">{t.tokens?.map(block)}</blockquote>;
    case 'hr':
      return <hr key={key} />;
    case 'list':
      return <List key={key} list={t as Tokens.List} />;
    case 'table':
      return <Table key={key} table={t as Tokens.Table} />;
    case 'space':
    case 'def':
      return null;
    default:
      return <p key={key} dir="auto" class="raw">{t.raw}</p>;
  }
}

function List({ list }: { list: Tokens.List }) {
  const items = list.items.map((item, i) => (
    <li key={i} dir="auto">
      {item.task && <input type="checkbox" checked={item.checked ?? false} disabled aria-label="task" />}
      {item.tokens.map((t, j) => (t.type === 'text' ? <span key={j}>{'tokens' in t && t.tokens ? inline(t.tokens) : t.raw}</span> : t.type === 'checkbox' ? null : block(t, j)))}
    </li>
  ));
  return list.ordered ? <ol start={Number(list.start) || 1}>{items}</ol> : <ul>{items}</ul>;
}

function Table({ table }: { table: Tokens.Table }) {
  const align = (i: number) => table.align[i] ?? 'start';
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="table">
      <table>
        <thead><tr>{table.header.map((c, i) => <th key={i} data-align={align(i)}>{inline(c.tokens)}</th>)}</tr></thead>
        <tbody>{table.rows.map((row, j) => <tr key={j}>{row.map((c, i) => <td key={i} data-align={align(i)}>{inline(c.tokens)}</td>)}</tr>)}</tbody>
      </table>
    </div>
  );
}

/** Preformatted text that can be copied. */
export function Code({ text, lang = '' }: { text: string; lang?: string | undefined }) {
  return (
    <figure class={lang ? 'code' : 'code bare'}>
      <figcaption><span>{lang}</span><CopyButton text={text} /></figcaption>
      <pre tabIndex={0} dir="ltr" aria-label={lang ? `${lang} code` : 'code'}><code>{text}</code></pre>
    </figure>
  );
}
