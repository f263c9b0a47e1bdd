// Package config reads what an operator writes: parley.yaml for "parley serve"
// and "parley dev", and the one-agent file of "parley run". A good file becomes a
// [Server] or a [Single]; a bad one becomes an [*Error] that says where each
// mistake is and what to do about it.
//
// The commands call [Load] and [LoadSingle] when they start and again whenever
// the file has changed. The package calls the definitions of package agent and
// the data types of package providers; it opens nothing but the file, registers
// nothing and contacts nobody. [Bucket.Open] makes the client of an endpoint, which
// contacts nobody either until it is asked, and [Bucket.Explain] reads its errors.
// The yaml library stays behind the tree in tree.go.
//
// Guarantees:
//
//  1. A result is complete and checked: every agent is valid, all models that it and
//     its subagents name are of known providers, every provider can be registered, mounts are well formed and
//     unique, named variables are resolved, defaults are filled in.
//  2. All mistakes of a file come at once, in the order of its lines, and each has
//     a file, a line, a key and a remedy. A file that is not yaml has one mistake.
//  3. No key is ignored: one that is unknown, stands twice or has no value is a
//     mistake, as is a value of another type than the key wants. An empty text
//     is the same as leaving the key out.
//  4. Secrets come from environment variables only, and no text made here holds
//     one: not the value of a variable, not a value that may be a secret written
//     where the name of a variable belongs.
//  5. A hostile file costs no more than its size: files over 1 MiB, documents
//     nested deeper than 100 levels and aliases that repeat more than 10,000
//     values are refused.
//
// # Shape of parley.yaml
//
// Every key but agents may be left out. The values shown for listen, publicUrl,
// bucket, cors, auth, strictReads, admin, and of events live, protocol, database and
// ttlDays, are the defaults.
//
//	listen: 127.0.0.1:3000
//	publicUrl: ""
//	trustedProxies: [10.0.0.0/8]
//	limits: {bodyBytes: 268435456, textBytes: 4194304, attachments: 16, spoolBytes: 1073741824, readerBytes: 134217728,
//	  followerBytes: 134217728, idleBytes: 134217728, memoryBytes: 536870912, reserveBytes: 1073741824}
//	bucket: {dir: ./data}     # or {endpoint, name, region, prefix, secure, accessKeyEnv, secretKeyEnv}
//	cors: {origins: []}       # and headers, exposeHeaders: [X-Tenant], what pages may send and read besides; credentials: true
//	auth: {bearerEnv: ""}
//	drain: {delay: 5s}        # how long a node that ends serves while it is unready; default 0s without cluster, and in dev
//	cluster:                  # several nodes over one endpoint; without it the node serves its bucket alone
//	  listen: 10.0.0.5:7946
//	  advertise: 10.0.0.5:7946 # default: listen; or advertiseEnv: POD_IP, which holds host or host:port
//	  weight: 1               # 0 to 1000
//	  heartbeat: 500ms        # suspect: 2s, fence: 1500ms; the same on all nodes
//	  tls: {ca: ca.pem, cert: node.pem, key: node-key.pem, name: parley}
//	strictReads: false
//	beta: {path: /beta, agents: [echo]} # also for clients of the beta line; without agents, all
//	channels:                 # webhooks of platforms, at /channels/<name>, as messages to an agent
//	  bot: {kind: slack, agent: echo, secretEnv: SLACK_SIGNING_SECRET}
//	  pages: {kind: notes, agent: echo, secretEnv: NOTES_TOKEN, events: [page.created], instance: "{entity.id}",
//	    message: "{type}", signal: notes.event, attributes: {workspace: "{workspace_id}"}}
//	  chat: {kind: messenger, agent: echo, secretEnv: CHAT_SECRET_TOKEN, headerPrefix: X-Telegram}
//	admin: {listen: "", pprof: false} # health and metrics, "" is nowhere; with pprof profiles, too
//	events:                   # where observability events go; without it, nowhere
//	  live: true              # with deltas, requests, messages and logs, best effort
//	  clickhouse:
//	    {addresses: [10.0.0.9:9000], protocol: native, database: parley, username: parley, passwordEnv: CH_PASSWORD,
//	     tls: {ca: ca.pem}, ttlDays: 90, batchRows: 20000, batchBytes: 8388608, flushEvery: 1s}
//	  jsonl: {file: events.jsonl}
//	  stdout: true
//	  otel: {endpoint: "http://127.0.0.1:4318", headersEnv: OTLP_HEADERS, content: true}
//	webhooks:                 # where posts go; without it, nowhere
//	  targets:                # by the names that tools and agents post to; secrets are "whsec_" and base64
//	    ledger: {url: "https://ledger.example.com/hook", secretEnv: LEDGER_SECRET, nextSecretEnv: "", private: false}
//	    chat: {urlEnv: CHAT_URL}
//	  allow: [hooks.example.com, "*.example.org"] # hosts that callers may name by a URL, signed with secretEnv
//	  secretEnv: WEBHOOK_SECRET
//	providers:
//	  openai: {}              # of the catalog: all may be left out; now it takes models that the catalog does not list
//	  local:
//	    {api: openai-completions, baseUrl: "http://127.0.0.1:9000/v1", apiKeyEnv: LOCAL_KEY, headers: {},
//	     contextWindow: 8000, maxTokens: 2000, reasoning: false, input: [text], cost: {input: 3, output: 15, cacheRead: 0.3},
//	     inputLimits: {images: 20, imagesPerMessage: 8, imageBytes: 5_000_000, imageSide: 8000, requestBytes: 32_000_000},
//	     thinkingLevelMap: {off: null, xhigh: extra}, compat: {maxTokensField: max_tokens}, storeResponses: false,
//	     longCacheRetention: false,
//	     telemetry: {providerName: openai, serverAddress: api.example.com, serverPort: 8443},
//	     models: {m1: {input: [text, image]}}}
//	agents:
//	  echo:
//	    {mounts: [/agents/echo], model: local/m1, instructions: You are terse., description: Says it again.,
//	     events: {content: true}, notify: [ledger], notifiable: [ledger], thinkingLevel: off, generation: {temperature: 0.2, maxOutputTokens: 4000, stopSequences: [END], toolChoice: none},
//	     output: {type: object}, toolConcurrency: 16, durability: {maxAttempts: 10, timeout: 1h}, initialData: {type: object},
//	     answerInOrder: false,                   # true: a message waits while a call before it waits for a time or a signal
//	     limits: {responseBytes: 16777216, argumentBytes: 4194304, outputBytes: 33554432, callsPerReply: 128,
//	              turns: 100, toolCalls: 1000, tokens: 2000000, dollars: 2.5}}
//	  desk:
//	    model: anthropic/claude-opus-4-6
//	    fallbacks: [openai/gpt-5, local/m1]      # asked in this order when the one before fails for good
//	    compaction: {off: false, reserveTokens: 20000, keepRecentTokens: 8000, model: local/m1, instructions: Keep order numbers.}
//	    subagents:                               # whom the model may hand tasks to, with the tool "task"
//	      - {name: researcher, description: Looks things up., instructions: You search.}
//
// A provider that the catalog does not have needs api and baseUrl, unless its api is
// edge-ai-binding: then it has telemetry and gateway alone, the options of the gateway
// that calls pass through, or false for none. What a model of it may say are the keys contextWindow, maxTokens,
// reasoning, input, inputLimits, cost, thinkingLevelMap and compat; the members of compat are those of
// the JSON of providers.Compat.
//
// A subagent needs name and description; its other keys are model, fallbacks,
// instructions, thinkingLevel, generation, output, toolConcurrency, compaction and subagents,
// down to four levels. Without a model it has its parent's model and fallbacks, and the
// parent's thinkingLevel unless it sets its own. toolConcurrency bounds the tasks
// that run at once. Package agent says what each of them means.
//
// A program may bring agents of its own along ([Options.Agents]). One that the file does
// not name is mounted at /agents/<name>; of one that it names it may say everything but
// subagents and initialData, and what it does not say is as the program has it.
//
// The file of "parley run" has the keys of one agent, without mounts, beside name
// and providers; the name defaults to that of the file.
//
// Functions keep nothing between calls and are safe for concurrent use. Nothing
// here is durable: after a crash the file is read again.
package config
