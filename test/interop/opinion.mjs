// Prints the requests that pi-ai sends to vendors and its decoding of their responses. It
// reads a list of cases on standard input and prints a list of results, both as JSON. It uses
// no network: each case includes the vendor's responses.
import { once } from "node:events";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import * as zlib from "node:zlib";
import { calculateCost, streamSimple } from "@earendil-works/pi-ai/compat";

let sent, answers;

// answer records a request, and returns status, type and body of the next response.
function answer(method, url, header, body) {
	if (header["content-encoding"] === "zstd") {
		body = zlib.zstdDecompressSync(body);
	}
	sent.push({ method, url, header, body: JSON.parse(body.toString("utf8")) });
	const next = answers.shift();
	if (next === undefined) {
		return [400, "application/json", JSON.stringify({ error: { message: "nobody answers" } })];
	}
	return [200, "text/event-stream", Buffer.from(next, "base64")];
}

globalThis.fetch = async (input, init) => {
	const request = new Request(input, init);
	const sent = Buffer.from(await request.arrayBuffer());
	const [status, type, body] = answer(request.method, request.url, Object.fromEntries(request.headers), sent);
	return new Response(body, { status, headers: { "content-type": type } });
};

// Clients without fetch call a server in this process.
let vendor;
const server = createServer(async (request, response) => {
	const sent = Buffer.concat(await request.toArray());
	const [status, type, body] = answer(request.method, vendor + request.url, request.headers, sent);
	response.writeHead(status, { "content-type": type }).end(body);
});
process.env.AWS_BEDROCK_FORCE_HTTP1 = "1";

function reachable(model) {
	if (model.api !== "bedrock-converse-stream") {
		return model;
	}
	vendor = model.baseUrl;
	return { ...model, baseUrl: `http://127.0.0.1:${server.address().port}` };
}

// talk calls a model, and calls it once more with the results of its tool calls.
async function talk({ model: there, context, options, answer, results }) {
	[sent, answers] = [[], [answer]];
	const model = reachable(there);
	const said = await streamSimple(model, context, options).result();
	if (sent.length === 1 && said.stopReason !== "error") {
		const calls = said.content.filter((part) => part.type === "toolCall");
		const own = results.map((result, i) => ({ ...result, toolCallId: calls[i]?.id }));
		const messages = [...context.messages, said, ...own];
		await streamSimple(model, { ...context, messages }, options).result();
	}
	return { sent, said };
}

// price computes the cost of a usage.
function price({ cost, usage }) {
	return calculateCost({ cost }, { ...usage, cost: {} });
}

await once(server.listen(0, "127.0.0.1"), "listening");
const { cases, prices } = JSON.parse(await text(process.stdin));
const out = { cases: [], prices: prices.map(price) };
for (const one of cases) {
	out.cases.push(await talk(one));
}
process.stdout.write(JSON.stringify(out));
server.close();
server.closeAllConnections();
