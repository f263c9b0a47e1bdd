// Package fakemodel is a language model that does what it is told: a handler
// that speaks the wire formats of several vendors and takes its orders from the
// last user message. Tests start it on 127.0.0.1 and point a provider at it; what
// they then see went over a real connection.
//
// It serves POST /v1/chat/completions, POST /v1/messages, POST /v1/responses, of Azure
// POST /openai/v1/responses, of the subscription POST /backend-api/codex/responses, of
// Mistral POST /mistral/v1/chat/completions, of Google POST
// /v1beta/models/{model}:{method} and the paths of Vertex AI under /v1, with its
// metadata server, and of Amazon Bedrock POST /bedrock/model/{model}/converse-stream
// and converse, streamed or whole.
// Beside them, POST /release/{gate} opens a gate, GET /gate/{gate} answers once it is
// open, so that tools of a test can wait, too, both with 204; and GET /requests
// lists the calls seen as JSON, refused ones with the reason. What the formats say is in the files of
// the folder vendors, what is refused in Go. Commands and tests import it.
//
// # The command language
//
// A user message that does not begin with a command is plain text, and is
// answered with "You said: " and the text; images follow with their type, size
// and hash. A call whose last message is the result of a tool is answered with
// "The tool said: " and the result, unless the script says something else.
//
// A message whose first word is a command is a script: words of the form
// name=value, carried out in order. A word that is no command, or a wrong value,
// is answered with status 400 and says why.
//
//	tokens=N            say N words: w1 w2 w3 …, counted over the response
//	say="…"             say this text, a JSON string, word by word
//	reasoning=N         think N words: t1 t2 t3 …
//	tool=name {…}       call a tool, offered or not; the arguments are an object, {} if left out
//	hold=gate           wait here until the gate is released; it then stays open
//	truncate=N          say N words, then break the connection
//	fail=N              say N words, then send the format's error event
//	hang=N              say N words, then nothing until the caller goes away; with 0 not even a header
//	status=N            answer with this HTTP status, 400 to 599, and no stream
//	retry-after=S       the Retry-After header beside status, in seconds
//	message="…"         the words of status and fail; ErrorText if left out
//	times=N             truncate, fail, hang and status of this step happen on the first N calls
//	                    with the same messages, and are left out afterwards
//	only=model          truncate, fail, hang and status of this step happen to this model only
//	pace=D              wait D, as in 5ms, before each word of this step
//	finish=reason       stop, length, tool or filter, in place of what would be said
//	note=text           nothing; makes texts differ that would count together
//	then                ends a step: what follows answers the results of this step's tools
//
// A step that says nothing and calls nothing says "Done." For example
//
//	reasoning=3 tool=time {"zone":"UTC"} then status=429 times=1 tokens=20 pace=5ms
//
// Guarantees:
//
//  1. The same calls in the same order get the same answers, byte for byte.
//  2. The last event carries the usage. A word counts as a token on both sides,
//     and so does a call of a tool.
//  3. The answer ends at the limit of output tokens the call sets.
//  4. Calls are checked as vendors check them: known roles, no blank texts where
//     the format has none, every tool call answered once and at once, thinking
//     sent back as it was signed, and the key, if one is set. What is wrong is
//     answered with status 400 or 401.
//  5. What was said is sent before every wait, for a pace, a gate or without an end,
//     and before the connection breaks. What nothing holds back leaves together.
//  6. It keeps the latest calls only, without what they carried, and one counter
//     per distinct call with times.
//
// Everything is safe for concurrent use. Nothing survives the process. It starts
// no goroutines; to end a server with calls that hang, close its connections.
package fakemodel
