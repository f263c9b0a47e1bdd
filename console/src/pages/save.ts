/** A text between tags. */
const escaped = (s: string) => s.replace(/[&<>]/g, (c) => `&#${c.charCodeAt(0)};`);

/** Returns the shown page as one self-contained file with its styles and without scripts. */
export function standalone(title: string, shown: Element): string {
  const copy = shown.cloneNode(true) as Element;
  // Elements that need the server are removed.
  for (const e of copy.querySelectorAll('button, input, select')) e.remove();
  for (const a of copy.querySelectorAll('a[href^="#"]')) a.replaceWith(...a.childNodes);
  const rules = [...document.styleSheets].flatMap((s) => [...s.cssRules].map((r) => r.cssText)).join('\n');
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>${escaped(title)}</title>
<style>
${rules}
html, body { height: auto; } body { overflow: auto; padding: 1.5rem; }
</style></head><body>
${copy.outerHTML}
</body></html>
`;
}

/** Lets the browser save a text as a file. */
export function save(name: string, text: string) {
  const url = URL.createObjectURL(new Blob([text], { type: 'text/html' }));
  const a = document.createElement('a');
  a.href = url;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
