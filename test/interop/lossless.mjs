// Prints the value that lossless-json returns for each line of JSON: n and the number, s and the text, or x.
import { isSafeNumber, parse } from "lossless-json";

const number = (literal) => (isSafeNumber(literal) ? Number.parseFloat(literal) : literal);
let rest = "";
process.stdin.setEncoding("utf8");
for await (const piece of process.stdin) {
  const lines = (rest + piece).split("\n");
  rest = lines.pop();
  const out = lines.map((line) => {
    try {
      const v = parse(line, undefined, number);
      return typeof v === "number" ? `n${Object.is(v, -0) ? "-0" : v}` : `s${v}`;
    } catch {
      return "x";
    }
  });
  if (out.length > 0) process.stdout.write(`${out.join("\n")}\n`);
}
