// What was done by hand, as a command or a program.

export type Snippet = { name: string; text: string };

/** The ways to send a message again: its text to an address. */
export function snippets(url: string, body: string, initialData: unknown, images: number): Snippet[] {
  const message: Record<string, unknown> = { kind: 'user', body };
  if (initialData !== undefined) message['initialData'] = initialData;
  const left = images > 0 ? `the ${images === 1 ? 'image' : `${images} images`} that came along` : '';
  return [
    { name: 'curl', text: note('#', left) + curl(url, message) },
    { name: 'Go', text: note('//', left) + go(url, body, initialData) },
    { name: 'TypeScript', text: note('//', left) + typescript(url, body, initialData) },
  ];
}

const note = (mark: string, left: string) => (left ? `${mark} without ${left}\n` : '');

/** A text as one word of a shell. */
export const shell = (s: string) => `'${s.replaceAll("'", `'\\''`)}'`;

function curl(url: string, message: unknown): string {
  return `curl -X POST ${shell(url)} \\\n  -H 'Content-Type: application/json' \\\n  -d ${shell(JSON.stringify(message))}`;
}

/** A text as a string of Go: JSON's escapes are Go's, but for the slash and halves of pairs. */
export const goString = (s: string) => JSON.stringify(s.toWellFormed()).replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029').replaceAll('\u007f', '\\u007f');

function go(url: string, body: string, initialData: unknown): string {
  const initial = initialData === undefined ? '' : `, InitialData: json.RawMessage(${goString(JSON.stringify(initialData))})`;
  const imports = ['"context"', ...(initial ? ['"encoding/json"'] : []), '"fmt"', '"log"', '', '"github.com/parleyrun/parley/client"'];
  return `package main

import (
${imports.map((i) => (i ? `\t${i}` : '')).join('\n')}
)

func main() {
\tctx := context.Background()
\tc, err := client.New(${goString(url)}, nil)
\tif err != nil {
\t\tlog.Fatal(err)
\t}
\treceipt, err := c.Send(ctx, client.Message{Body: ${goString(body)}${initial}})
\tif err != nil {
\t\tlog.Fatal(err)
\t}
\treply, err := c.Wait(ctx, receipt)
\tif err != nil {
\t\tlog.Fatal(err)
\t}
\tfmt.Println(reply.Text)
}
`;
}

function typescript(url: string, body: string, initialData: unknown): string {
  const initial = initialData === undefined ? '' : `,\n  initialData: ${JSON.stringify(initialData)}`;
  return `import { createFlueClient } from '@flue/sdk';

const client = createFlueClient({ url: ${JSON.stringify(url)} });
const admission = await client.send({
  message: { kind: 'user', body: ${JSON.stringify(body)} }${initial},
});
const reply = await client.read(admission);
console.log(reply);
`;
}
