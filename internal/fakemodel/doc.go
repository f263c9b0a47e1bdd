// Package fakemodel is a scripted language model: a handler that implements the wire formats of
// several vendors and takes commands from the last user message. Tests start it on 127.0.0.1 and point
// a provider at it, so that they use a real connection.
//
// It serves POST requests, streamed or whole, at these paths:
//
//	/v1/chat/completions, /v1/messages, /v1/responses
//	/openai/v1/responses                             Azure
//	/backend-api/codex/responses                     the subscription
//	/mistral/v1/chat/completions                     Mistral
//	/v1beta/models/{model}:{method}                  Google; Vertex AI below /v1, with its metadata server
//	/bedrock/model/{model}/converse-stream, converse Amazon Bedrock
//
// Three endpoints control it. POST /release/{gate} opens a gate. GET /gate/{gate} responds once the
// gate is open, so that tools of a test can wait, too. Both respond 204. GET /requests lists the calls
// as JSON, rejected ones with the reason.
//
// The folder vendors defines the encoding of the formats; Go code defines the checks. Commands and
// tests import the package. Production code must not.
//
// # The command language
//
// A user message that does not begin with a command is plain text. The answer is "You said: " and the
// text, followed by the type, size and hash of each image. If the last message is a tool result, the
// answer is "The tool said: " and the result, unless a script overrides it.
//
// A message that begins with a command is a script: words of the form name=value, executed in order.
// An unknown command or an invalid value causes status 400 with the reason.
//
//	tokens=N            output N words: w1 w2 w3 …, counted over the response
//	say="…"             output this text, a JSON string, word by word
//	reasoning=N         output N words of reasoning: t1 t2 t3 …
//	tool=name {…}       call a tool, offered or not; the arguments are an object, by default {}
//	hold=gate           wait until the gate is released; it then stays open
//	truncate=N          output N words, then close the connection
//	fail=N              output N words, then send the format's error event
//	hang=N              output N words, then stall until the client leaves; with 0 not even a header
//	status=N            respond with this HTTP status, 400 to 599, without a stream
//	retry-after=S       the Retry-After header of status, in seconds
//	message="…"         the text of status and fail; by default ErrorText
//	times=N             truncate, fail, hang and status of this step apply to the first N calls
//	                    with the same messages only
//	only=model          truncate, fail, hang and status of this step apply to this model only
//	pace=D              wait D, such as 5ms, before each word of this step
//	finish=reason       stop, length, tool or filter, instead of the derived reason
//	note=text           nothing; makes texts distinct that times would count together
//	then                ends a step: what follows answers the results of this step's tools
//
// A step without output and calls outputs "Done." For example
//
//	reasoning=3 tool=time {"zone":"UTC"} then status=429 times=1 tokens=20 pace=5ms
//
// Guarantees:
//
//  1. The same calls in the same order get the same responses, byte for byte.
//  2. The last event contains the usage. Each word and each tool call counts as one token of input
//     or output.
//  3. A response ends at the limit of output tokens in the call.
//  4. Calls are validated as vendors validate them: roles, blank texts, one result per tool call
//     in the next message, signatures of reasoning, and the key, if one is set. An invalid call
//     gets status 400 or 401.
//  5. Output is flushed before each wait, for a pace, a gate or a stall, and before the connection
//     is closed. Output without waits leaves in one piece.
//  6. The model stores the latest calls only, without their content, and one counter per distinct
//     call with times.
//
// Everything is safe for concurrent use. State is in memory only. The package starts no goroutines; to
// stop a server with stalled calls, close its connections.
package fakemodel
