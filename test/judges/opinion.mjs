// Says what pi-ai sends to vendors and reads from them. It gets a list of cases on standard
// input and prints a list of what became of them, both as JSON. Nothing leaves this process:
// a case brings what the vendor answers.
import { text } from "node:stream/consumers";
import * as zlib from "node:zlib";
import { calculateCost, streamSimple } from "@earendil-works/pi-ai/compat";

let sent, answers;

globalThis.fetch = async (input, init) => {
	const request = new Request(input, init);
	let body = Buffer.from(await request.arrayBuffer());
	if (request.headers.get("content-encoding") === "zstd") {
		body = zlib.zstdDecompressSync(body);
	}
	sent.push({
		method: request.method,
		url: request.url,
		header: Object.fromEntries(request.headers),
		body: JSON.parse(body.toString("utf8")),
	});
	const answer = answers.shift();
	if (answer === undefined) {
		return new Response(JSON.stringify({ error: { message: "nobody answers" } }), {
			status: 400,
			headers: { "content-type": "application/json" },
		});
	}
	return new Response(answer, { headers: { "content-type": "text/event-stream" } });
};

// talk lets a model answer and asks it once more, about the results of its calls.
async function talk({ model, context, options, answer, results }) {
	[sent, answers] = [[], [answer]];
	const said = await streamSimple(model, context, options).result();
	if (sent.length === 1 && said.stopReason !== "error") {
		const calls = said.content.filter((part) => part.type === "toolCall");
		const own = results.map((result, i) => ({ ...result, toolCallId: calls[i]?.id }));
		const messages = [...context.messages, said, ...own];
		await streamSimple(model, { ...context, messages }, options).result();
	}
	return { sent, said };
}

// price says what usage costs.
function price({ cost, usage }) {
	return calculateCost({ cost }, { ...usage, cost: {} });
}

const { cases, prices } = JSON.parse(await text(process.stdin));
const out = { cases: [], prices: prices.map(price) };
for (const one of cases) {
	out.cases.push(await talk(one));
}
process.stdout.write(JSON.stringify(out));
