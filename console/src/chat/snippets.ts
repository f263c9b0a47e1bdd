// Actions of the user as a command or a program.

/** A conversation, whether its server requires a token, and the names of other required headers. */
export type Place = { url: string; secured: boolean; headers: string[] };
/** A message: its text, the initial data of the conversation, and the number of images. */
export type Said = { body: string; initialData?: unknown; images?: number };
export type Snippet = { name: string; text: string };

/** The ways to send a message again. */
export function snippets(at: Place, { body, initialData, images = 0 }: Said): Snippet[] {
  const message: Record<string, unknown> = { kind: 'user', body };
  if (initialData !== undefined) message['initialData'] = initialData;
  const left = images > 0 ? `the ${images === 1 ? 'image' : `${images} images`} that came along` : '';
  const seed = initialData === undefined ? '' : `, InitialData: json.RawMessage(${goString(JSON.stringify(initialData))})`;
  return [
    { name: 'curl', text: note('#', left) + curl(at, at.url, message) },
    {
      name: 'Go',
      text: note('//', left) + go(at, seed ? ['encoding/json'] : [], `\treceipt, err := c.Send(ctx, client.Message{Body: ${goString(body)}${seed}})
\tif err != nil {
\t\tlog.Fatal(err)
\t}
\treply, err := c.Wait(ctx, receipt)
\tif err != nil {
\t\tlog.Fatal(err)
\t}
\tfmt.Println(reply.Text)
`),
    },
    {
      name: 'TypeScript',
      text: note('//', left) + typescript(at, `const admission = await client.send({
  message: { kind: 'user', body: ${JSON.stringify(body)} },${initialData === undefined ? '' : `\n  initialData: ${JSON.stringify(initialData)},`}
});
const reply = await client.read(admission);
console.log(reply.text);
`),
    },
  ];
}

/** The ways to abort unsettled work. */
export function stopping(at: Place): Snippet[] {
  return [
    { name: 'curl', text: curl(at, `${at.url}/abort`, {}) },
    {
      name: 'Go',
      text: go(at, [], `\tstopped, err := c.Abort(ctx)
\tif err != nil {
\t\tlog.Fatal(err)
\t}
\tfmt.Println(stopped)
`),
    },
    { name: 'TypeScript', text: typescript(at, 'console.log(await client.abort());\n') },
  ];
}

const note = (mark: string, left: string) => (left ? `${mark} without ${left}\n` : '');

/** A text as one word of a shell. */
export const shell = (s: string) => `'${s.replaceAll("'", `'\\''`)}'`;

function curl(at: Place, url: string, message: unknown): string {
  const token = at.secured ? `\n  -H "Authorization: Bearer $PARLEY_TOKEN" \\` : '';
  const more = at.headers.map((name) => `\n  -H ${shell(`${name}: `)}"$${variable(name)}" \\`).join('');
  return `curl -X POST ${shell(url)} \\${token}${more}\n  -H 'Content-Type: application/json' \\\n  -d ${shell(JSON.stringify(message))}`;
}

/** The environment variable that holds the value of a header. */
const variable = (name: string) => name.toUpperCase().replace(/[^A-Z0-9]/g, '_').replace(/^(?=[0-9])/, '_');

/** A text as a string of Go: JSON's escapes are Go's, but for the slash and halves of pairs. */
export const goString = (s: string) => JSON.stringify(s.toWellFormed()).replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029').replaceAll('\u007f', '\\u007f');

function go(at: Place, more: string[], does: string): string {
  const standard = ['context', 'fmt', 'log', ...more, ...(at.secured || at.headers.length ? ['os'] : []), ...(at.headers.length ? ['net/http'] : [])].sort();
  const fields = [
    ...(at.secured ? ['Token: os.Getenv("PARLEY_TOKEN")'] : []),
    ...(at.headers.length ? [`Header: func(context.Context) (http.Header, error) {\n\t\treturn http.Header{${at.headers.map((name) => `${goString(name)}: {os.Getenv("${variable(name)}")}`).join(', ')}}, nil\n\t}`] : []),
  ];
  const options = fields.length ? `&client.Options{${fields.join(', ')}}` : 'nil';
  return `package main

import (
${standard.map((name) => `\t"${name}"`).join('\n')}

\t"github.com/parleyrun/parley/client"
)

func main() {
\tctx := context.Background()
\tc, err := client.New(${goString(at.url)}, ${options})
\tif err != nil {
\t\tlog.Fatal(err)
\t}
${does}}
`;
}

function typescript(at: Place, does: string): string {
  const token = at.secured ? ', token: process.env.PARLEY_TOKEN' : '';
  const headers = at.headers.length ? `, headers: { ${at.headers.map((name) => `${JSON.stringify(name)}: process.env.${variable(name)} ?? ''`).join(', ')} }` : '';
  return `import { createFlueClient } from '@flue/sdk';

const client = createFlueClient({ url: ${JSON.stringify(at.url)}${token}${headers} });
${does}`;
}
