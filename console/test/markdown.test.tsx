// @vitest-environment happy-dom
import { render } from 'preact';
import { describe, expect, test } from 'vitest';
import { blocks, Markdown } from '../src/markdown';

function draw(text: string): HTMLElement {
  const at = document.createElement('div');
  render(<Markdown text={text} />, at);
  return at;
}

describe('what a model says', () => {
  const hostile = [
    '<script>window.hit = 1</script>',
    '<img src=x onerror="window.hit = 1">',
    'text <img src=x onerror=hit()> <a href="javascript:hit()">x</a>',
    '[x](javascript:hit())',
    '[x](java\nscript:hit())',
    '[x](JaVaScRiPt:hit())',
    '[x](data:text/html,<script>hit()</script>)',
    '[x](vbscript:hit())',
    '![x](https://evil.example/pixel.png)',
    '![x](javascript:hit())',
    '<https://evil.example/" onmouseover="hit()>',
    '```html" onload="hit()\n<iframe src=https://evil.example></iframe>\n```',
    '<svg><script>hit()</script></svg>',
    '<style>* { display: none }</style>',
    '| <img src=x onerror=hit()> |\n|---|\n| <script>hit()</script> |',
    '- <object data=x></object>\n> <embed src=x>',
    '# <iframe srcdoc="<script>hit()</script>"></iframe>',
  ];
  for (const text of hostile) {
    test(`is text: ${JSON.stringify(text)}`, () => {
      const at = draw(text);
      expect(at.querySelectorAll('script, img, iframe, object, embed, style, svg, form, base, link, meta')).toHaveLength(0);
      for (const e of at.querySelectorAll('*')) {
        for (const { name } of e.attributes) expect(name).not.toMatch(/^on|^src|^style$/);
      }
      for (const a of at.querySelectorAll('a')) expect(a.getAttribute('href')).toMatch(/^(https?|mailto):/);
    });
  }

  test('a link says where it leads', () => {
    const a = draw('[my bank](https://evil.example/login)').querySelector('a')!;
    expect(a.textContent).toBe('my bank (evil.example)');
    expect(a.getAttribute('rel')).toBe('noopener noreferrer nofollow');
    expect(a.getAttribute('target')).toBe('_blank');
  });

  test('what Markdown is for', () => {
    const at = draw('# T\n\na **b** `c<d>` ~~e~~ &amp; \\*\n\n1. one\n2. two\n   - three\n\n> q\n\n```go\nfunc f() {}\n\nx\n```\n\n|a|b|\n|-|:-:|\n|1|2|\n\n- [x] done');
    expect(at.querySelector('h3')!.textContent).toBe('T');
    expect(at.querySelector('strong')!.textContent).toBe('b');
    expect(at.querySelector('p code')!.textContent).toBe('c<d>');
    expect(at.querySelector('p')!.textContent).toBe('a b c<d> e & *');
    expect(at.querySelectorAll('ol > li')).toHaveLength(2);
    expect(at.querySelector('ol ul li')!.textContent).toBe('three');
    expect(at.querySelector('blockquote')!.textContent).toBe('q');
    expect(at.querySelector('pre')!.textContent).toBe('func f() {}\n\nx');
    expect(at.querySelectorAll('td')).toHaveLength(2);
    expect(at.querySelector<HTMLInputElement>('input[type=checkbox]')!.checked).toBe(true);
  });
});

describe('blocks', () => {
  const text = 'First.\n\nSecond\nline.\n\n```\ncode\n\nText in code.\n```\n\n- a\n\n  still a\n\n- b\n\nLast.';

  test('are the text, cut where nothing goes on', () => {
    expect(blocks(text).join('')).toBe(text);
    expect(blocks(text)).toEqual(['First.\n\n', 'Second\nline.\n\n', '```\ncode\n\nText in code.\n```\n\n- a\n\n  still a\n\n- b\n\n', 'Last.']);
  });

  test('that are over stay as they are while a text grows', () => {
    for (let n = 1; n < text.length; n++) {
      const now = blocks(text.slice(0, n));
      const next = blocks(text.slice(0, n + 1));
      // There may be an additional empty line between two blocks.
      expect(next.slice(0, now.length - 1).map((s) => s.trim())).toEqual(now.slice(0, -1).map((s) => s.trim()));
    }
  });
});
