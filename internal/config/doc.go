// Package config reads the configuration of an operator: parley.yaml for "parley serve"
// and "parley dev", and the one-agent file of "parley run". A valid file becomes a
// [Server] or a [Single]. An invalid one becomes an [*Error] with the position and the
// remedy of each mistake.
//
// The commands call [Load] and [LoadSingle] when they start and after each change of the
// file. The package uses the definitions of package agent and the data types of package
// providers. It opens only the file, registers nothing and sends no request.
// [Bucket.Open] makes the client of an endpoint, which sends no request either until it
// is used, and [Bucket.Explain] adds remedies to its errors. Only tree.go and syntax.go
// use the yaml library.
//
// Guarantees:
//
//  1. A result is complete and validated: every agent is valid, its models and those of its
//     subagents have known providers, every provider can be registered, mounts are valid and
//     unique, named variables are resolved, defaults are filled in.
//  2. All mistakes of a file are reported at once, in the order of its lines. Each has
//     a file, a line, a key and a remedy. A file that is not yaml has one mistake.
//  3. No key is ignored: an unknown key, a duplicate, and a key without a value are
//     mistakes, as is a value of another type than the key takes. An empty text
//     is the same as omitting the key.
//  4. Secrets come from environment variables only, and no error text holds one: neither
//     the value of a variable, nor a possible secret written in place of the name of
//     a variable.
//  5. The cost of a hostile file is bounded by its size: files over 1 MiB, documents
//     nested deeper than 100 levels and aliases that repeat more than 10,000
//     values are rejected.
//
// # Shape of parley.yaml
//
// Every key but agents is optional. The values of listen, publicUrl,
// bucket, cors, auth, strictReads and admin, and of live, protocol, database and
// ttlDays of events, are the defaults.
//
//	listen: 127.0.0.1:3000
//	publicUrl: ""
//	trustedProxies: [10.0.0.0/8]
//	limits: {bodyBytes: 268435456, textBytes: 4194304, attachments: 16, spoolBytes: 1073741824, readerBytes: 134217728,
//	  followerBytes: 134217728, idleBytes: 134217728, memoryBytes: 536870912, reserveBytes: 1073741824}
//	bucket: {dir: ./data}     # or {endpoint, name, region, prefix, secure, accessKeyEnv, secretKeyEnv}
//	cors: {origins: []}       # and headers, exposeHeaders: [X-Tenant], which pages may also send and read; credentials: true
//	auth: {bearerEnv: ""}
//	drain: {delay: 5s}        # time for which a node serves unready during shutdown; default 0s without cluster, and in dev
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
//	admin: {listen: "", pprof: false} # health and metrics, "" disables them; pprof adds profiles
//	events:                   # destinations of observability events; without it, none
//	  live: true              # includes deltas, requests, messages and logs, best effort
//	  clickhouse:
//	    {addresses: [10.0.0.9:9000], protocol: native, database: parley, username: parley, passwordEnv: CH_PASSWORD,
//	     tls: {ca: ca.pem}, ttlDays: 90, batchRows: 20000, batchBytes: 8388608, flushEvery: 1s}
//	  jsonl: {file: events.jsonl}
//	  stdout: true
//	  otel: {endpoint: "http://127.0.0.1:4318", headersEnv: OTLP_HEADERS, content: true}
//	webhooks:                 # targets of posts; without it, none
//	  targets:                # by the names that tools and agents post to; secrets are "whsec_" and base64
//	    ledger: {url: "https://ledger.example.com/hook", secretEnv: LEDGER_SECRET, nextSecretEnv: "", private: false}
//	    chat: {urlEnv: CHAT_URL}
//	  allow: [hooks.example.com, "*.example.org"] # hosts that callers may name by a URL, signed with secretEnv
//	  secretEnv: WEBHOOK_SECRET
//	providers:
//	  openai: {}              # of the catalog: all keys are optional; allows models that the catalog does not list
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
//	    {mounts: [/agents/echo], model: local/m1, instructions: You are terse., description: Repeats it.,
//	     events: {content: true}, notify: [ledger], notifiable: [ledger], thinkingLevel: off, generation: {temperature: 0.2, maxOutputTokens: 4000, stopSequences: [END], toolChoice: none},
//	     output: {type: object}, toolConcurrency: 16, durability: {maxAttempts: 10, timeout: 1h}, initialData: {type: object},
//	     answerInOrder: false,                   # true: a message waits while a call before it waits for a time or a signal
//	     limits: {responseBytes: 16777216, argumentBytes: 4194304, outputBytes: 33554432, callsPerReply: 128,
//	              turns: 100, toolCalls: 1000, tokens: 2000000, dollars: 2.5}}
//	  desk:
//	    model: anthropic/claude-opus-4-6
//	    fallbacks: [openai/gpt-5, local/m1]      # called in this order when the one before fails permanently
//	    compaction: {off: false, reserveTokens: 20000, keepRecentTokens: 8000, model: local/m1, instructions: Keep order numbers.}
//	    subagents:                               # agents to which the model may delegate tasks, with the tool "task"
//	      - {name: researcher, description: Looks things up., instructions: You search.}
//
// A provider outside the catalog needs api and baseUrl, unless its api is
// edge-ai-binding. That one has only telemetry and gateway, the options of the gateway
// for its calls, or false for none. The keys of a model are contextWindow, maxTokens,
// reasoning, input, inputLimits, cost, thinkingLevelMap and compat; the members of compat
// are those of the JSON of providers.Compat.
//
// A subagent needs name and description. Its other keys are model, fallbacks,
// instructions, thinkingLevel, generation, output, toolConcurrency, compaction and
// subagents, down to four levels. Without a model it has its parent's model and fallbacks,
// and the parent's thinkingLevel unless it sets its own. toolConcurrency bounds the tasks
// that run at once. Package agent documents each of them.
//
// A program may have agents of its own ([Options.Agents]). One that the file does not name
// is mounted at /agents/<name>. For one that it names, the file may set everything but
// subagents and initialData; the other fields are those of the program.
//
// The file of "parley run" has the keys of one agent, without mounts, and the keys name
// and providers; the name defaults to that of the file.
//
// Functions keep no state between calls and are safe for concurrent use.
package config
