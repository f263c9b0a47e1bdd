// Says what pi-ai sends to vendors and reads from them. It gets a list of cases on standard
// input and prints a list of what became of them, both as JSON. Nothing leaves this process:
// a case brings what the vendor answers.
import { once } from "node:events";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import * as zlib from "node:zlib";
import { calculateCost, streamSimple } from "@earendil-works/pi-ai/compat";

let sent, answers;

// answer keeps a request, and returns status, type and body of the next answer.
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

// A client that has no use for fetch speaks to a server of this process.
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

// talk lets a model answer and asks it once more, about the results of its calls.
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

// price says what usage costs.
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
