package config_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/providers"
)

// rewrite makes the tests write their golden files.
var rewrite = flag.Bool("rewrite", false, "write the golden files instead of comparing them")

// environment holds the variables of the test files. No value may appear in a golden file.
func environment() map[string]string {
	return map[string]string{
		"LOCAL_KEY":  "kept-secret-1",
		"ACCESS_KEY": "kept-secret-2",
		"SECRET_KEY": "kept-secret-3",
		"TOKEN":      " kept-secret-4\n", // Space around a secret is trimmed.
		"TWO_LINES":  "kept-secret-5\nkept-secret-6",
		"EMPTY":      " ",
		"POD_IP":     "fd00::7",
		"POD_HOST":   "10.0.0.7",
		"NODE_ADDR":  "node-7.example.com:7947",
		"BAD_ADDR":   "kept-secret-7://x",
		"ANY_ADDR":   "0.0.0.0",
		"HEADERS":    "authorization=Bearer%20kept-secret-8,X-Team=kept-secret-9",
		"NO_HEADERS": "kept-secret-10",
	}
}

func options() *config.Options {
	return &config.Options{
		Env: func(name string) (string, bool) {
			v, ok := environment()[name]
			return v, ok
		},
		APIs:      []string{"openai-completions", "anthropic-messages", "edge-ai-binding"},
		Providers: []string{"openai", "anthropic", "demo"},
		Catalog:   []string{"openai", "anthropic"},
	}
}

// brought returns the agents of a program.
func brought() []*agent.Agent {
	return []*agent.Agent{
		{
			Name: "desk", Description: "Helps.", Model: "demo/parrot", Fallbacks: []string{"demo/other"}, ToolConcurrency: 3,
			InstructionsFunc: func(context.Context, *agent.Turn) (string, error) { return "", nil },
			Limits:           agent.Limits{ResponseBytes: 7, OutputBytes: 8}, Subagents: []*agent.Agent{{Name: "sub", Description: "Looks."}},
		},
		{Name: "echo", Model: "openai/gpt-5", Instructions: "You are terse."},
	}
}

// files lists the yaml files of a folder of testdata.
func files(tb testing.TB, folder string) []string {
	tb.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", folder, "*.yaml"))
	if err != nil || len(names) == 0 {
		tb.Fatalf("testdata/%s: %v, %d files", folder, err, len(names))
	}
	return names
}

// parse reads a test file; errors contain its base name only.
func parse(tb testing.TB, folder, name string) (server *config.Server, single *config.Single, err error) {
	tb.Helper()
	src, err := os.ReadFile(name)
	if err != nil {
		tb.Fatal(err)
	}
	switch folder {
	case "server":
		server, err = config.Parse(filepath.Base(name), src, options())
	case "program":
		opts := options()
		opts.Agents, opts.Workflows = brought(), []string{"nightly", "hourly"}
		server, err = config.Parse(filepath.Base(name), src, opts)
	default:
		single, err = config.ParseSingle(filepath.Base(name), src, options())
	}
	return server, single, err
}

// covers: beta/6, beta/92, upgrade/2, providers/49 provider-gateway.yaml, providers/109 valid-providers.yaml
// covers: providers/110 provider-options.yaml, providers/110 valid-providers.yaml, providers/111 provider-edge.yaml
// covers: providers/111 valid-providers.yaml, providers/112 provider-compat.yaml, providers/114 provider-api.yaml
func TestGolden(t *testing.T) {
	for _, folder := range []string{"server", "program", "run"} {
		for _, name := range files(t, folder) {
			t.Run(folder+"/"+filepath.Base(name), func(t *testing.T) {
				server, single, err := parse(t, folder, name)
				var got string
				switch {
				case err != nil:
					got = err.Error() + "\n"
				case server != nil:
					got = showServer(server)
				default:
					got = showAgent("", single.Agent, nil) + showProviders(single.Providers)
				}
				compare(t, strings.TrimSuffix(name, ".yaml")+".golden", got)
			})
		}
	}
}

func compare(t *testing.T, golden, got string) {
	t.Helper()
	for _, v := range environment() {
		if !strings.Contains(v, "kept-secret") {
			continue // It is an address, which is shown elsewhere.
		}
		for _, secret := range strings.Fields(v) {
			if strings.Contains(got, secret) {
				t.Errorf("shows the secret %q:\n%s", secret, got)
			}
		}
	}
	if strings.Contains(got, "do-not-show") {
		t.Errorf("shows a value that may be a secret:\n%s", got)
	}
	if *rewrite {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatalf("%v; run the test with -rewrite and review the difference", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", golden, diff)
	}
}

// TestMistakesAreComplete checks the form of all mistakes of the test files.
func TestMistakesAreComplete(t *testing.T) {
	seen := 0
	for _, folder := range []string{"server", "run"} {
		for _, name := range files(t, folder) {
			_, _, err := parse(t, folder, name)
			if err == nil {
				continue
			}
			var e *config.Error
			if !errors.As(err, &e) {
				t.Errorf("%s: %T is not an Error", name, err)
				continue
			}
			checkError(t, e, filepath.Base(name))
			seen += len(e.Mistakes)
		}
	}
	if seen < 100 {
		t.Errorf("the test files have %d mistakes; some must have been lost", seen)
	}
}

// checkError checks the guarantees of every Error.
func checkError(tb testing.TB, e *config.Error, file string) {
	tb.Helper()
	if e.File != file || len(e.Mistakes) == 0 {
		tb.Errorf("file %q with %d mistakes, want %q with some", e.File, len(e.Mistakes), file)
	}
	lines := strings.Split(e.Error(), "\n")
	if want := min(len(e.Mistakes), 11); len(lines) != want {
		tb.Errorf("the text has %d lines, want %d:\n%s", len(lines), want, e)
	}
	last := 1
	for i, m := range e.Mistakes {
		if m.Line < last || m.Column < 1 || m.Key == "" || m.Problem == "" || m.Remedy == "" {
			tb.Errorf("%s: mistake %d is incomplete or out of order: %+v", file, i, m)
		}
		last = m.Line
		want := fmt.Sprintf("%s:%d: %s: %s; %s", file, m.Line, m.Key, m.Problem, m.Remedy)
		if i < 10 && i < len(lines) && lines[i] != want {
			tb.Errorf("line %d is %q, want %q", i, lines[i], want)
		}
	}
}

func showServer(s *config.Server) string {
	var b strings.Builder
	fmt.Fprintf(&b, "listen %s, public %q, proxies %v, limits %+v\n", s.Listen, s.PublicURL, s.TrustedProxies, s.Limits)
	bucket := s.Bucket
	bucket.AccessKey, bucket.SecretKey = mask(bucket.AccessKey), mask(bucket.SecretKey)
	if c := s.CORS; c.Credentials || c.Headers != nil || c.ExposeHeaders != nil {
		fmt.Fprintf(&b, "cors headers %q, exposed %q, credentials %t\n", c.Headers, c.ExposeHeaders, c.Credentials)
	}
	if d := s.Drain.Delay; d != nil {
		fmt.Fprintf(&b, "drain delay %v\n", *d)
	}
	fmt.Fprintf(&b, "bucket %+v\ncors %q, bearer %q\n", bucket, s.CORS.Origins, mask(s.Auth.Bearer))
	if c := s.Beta; c != nil {
		fmt.Fprintf(&b, "beta %s, agents %q, workflows %q of %q\n", c.Path, c.Agents, c.Workflows, s.Workflows)
	}
	if c := s.Cluster; c != nil {
		fmt.Fprintf(&b, "cluster listen %s, advertise %q, weight %s, intervals %v %v %v\n", c.Listen, c.Advertise, show(c.Weight), c.Heartbeat, c.Suspect, c.Fence)
		if c.TLS != nil {
			fmt.Fprintf(&b, "cluster tls %+v\n", *c.TLS)
		}
	}
	if s.StrictReads || s.Admin.Listen != "" {
		fmt.Fprintf(&b, "strict reads %v, admin %+v\n", s.StrictReads, s.Admin)
	}
	b.WriteString(showEvents(s.Events))
	b.WriteString(showProviders(s.Providers))
	for _, a := range s.Agents {
		b.WriteString(showAgent("", a.Agent, a.Mounts))
	}
	return b.String()
}

// showEvents formats the section events, nothing if it has its defaults.
func showEvents(e config.Events) string {
	if e == (config.Events{Live: true}) {
		return ""
	}
	out := fmt.Sprintf("events live %v, stdout %v\n", e.Live, e.Stdout)
	if c := e.ClickHouse; c != nil {
		out += fmt.Sprintf("  clickhouse %s at %q, database %s, user %q %q, tls %s, kept %d days, batches %d %d %v\n",
			c.Protocol, c.Addresses, c.Database, c.Username, mask(c.Password), show(c.TLS), c.TTLDays, c.BatchRows, c.BatchBytes, c.FlushEvery)
	}
	if e.JSONL != nil {
		out += fmt.Sprintf("  jsonl %s\n", e.JSONL.File)
	}
	if o := e.OTel; o != nil {
		out += fmt.Sprintf("  otel %s, headers %q, content %v\n", o.Endpoint, slices.Sorted(maps.Keys(o.Headers)), o.Content)
	}
	return out
}

func mask(secret string) string {
	if secret == "" {
		return ""
	}
	return "(set)"
}

func showProviders(all map[string]providers.Registration) string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(all)) {
		p := all[id]
		fmt.Fprintf(&b, "provider %s: %s at %s, key %q, headers %q, %s\n", id, p.API, p.BaseURL, mask(p.APIKey), slices.Sorted(maps.Keys(p.Headers)),
			showModel(providers.ModelOverride{
				ContextWindow: p.ContextWindow, MaxTokens: p.MaxTokens, Reasoning: p.Reasoning, Input: p.Input, Cost: p.Cost, Thinking: p.Thinking, Compat: p.Compat, InputLimits: p.InputLimits,
			}))
		if p.StoreResponses || p.LongCacheRetention || p.Telemetry != (providers.Telemetry{}) {
			fmt.Fprintf(&b, "  stores %t, long in the cache %t, telemetry %+v\n", p.StoreResponses, p.LongCacheRetention, p.Telemetry)
		}
		if p.Edge != nil {
			gateway, err := json.Marshal(p.Edge.Gateway)
			fmt.Fprintf(&b, "  gateway %s, none %t, %v\n", gateway, p.Edge.NoGateway, err)
		}
		for _, m := range slices.Sorted(maps.Keys(p.Models)) {
			fmt.Fprintf(&b, "  model %s: %s\n", m, showModel(p.Models[m]))
		}
	}
	return b.String()
}

func showModel(m providers.ModelOverride) string {
	out := fmt.Sprintf("window %s, tokens %s, reasoning %s, input %q", show(m.ContextWindow), show(m.MaxTokens), show(m.Reasoning), m.Input)
	if m.Cost != nil {
		out += fmt.Sprintf(", cost %+v", *m.Cost)
	}
	if rest, err := json.Marshal(providers.ModelOverride{InputLimits: m.InputLimits, Thinking: m.Thinking, Compat: m.Compat}); err == nil && string(rest) != "{}" {
		out += ", " + string(rest)
	}
	return out
}

func show[T any](p *T) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprint(*p)
}

func showAgent(indent string, a *agent.Agent, mounts []string) string {
	schema := "-"
	if a.InitialData != nil {
		schema = string(a.InitialData.JSON())
	}
	out := fmt.Sprintf("%sagent %s (%q) at %q: model %s, %q, thinking %q, concurrency %d, durability %+v, initial data %s\n",
		indent, a.Name, a.Description, mounts, a.Model, a.Instructions, a.ThinkingLevel, a.ToolConcurrency, a.Durability, schema)
	if a.Events != (agent.Events{}) {
		out += fmt.Sprintf("%s  events %+v\n", indent, a.Events)
	}
	if a.Limits != (agent.Limits{}) {
		out += fmt.Sprintf("%s  limits %+v\n", indent, a.Limits)
	}
	if g := a.Generation; g.Temperature != nil {
		out += fmt.Sprintf("%s  generation %v %d %q %q\n", indent, *g.Temperature, g.MaxOutputTokens, g.StopSequences, g.ToolChoice)
	}
	if a.Output != nil {
		out += fmt.Sprintf("%s  output %s\n", indent, a.Output.JSON())
	}
	if len(a.Fallbacks) > 0 {
		out += fmt.Sprintf("%s  fallbacks %q\n", indent, a.Fallbacks)
	}
	if a.Compaction != (agent.Compaction{}) {
		out += fmt.Sprintf("%s  compaction %+v\n", indent, a.Compaction)
	}
	for _, sub := range a.Subagents {
		out += showAgent(indent+"  ", sub, nil)
	}
	return out
}

func TestMissingFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "parley.yaml")
	for desc, load := range map[string]func() error{
		"server": func() error { _, err := config.Load(name, options()); return err },
		"single": func() error { _, err := config.LoadSingle(name, options()); return err },
	} {
		err := load()
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), name) {
			t.Fatalf("%s: got %v", desc, err)
		}
		// The example in the message must be valid.
		_, example, _ := strings.Cut(err.Error(), "\n\n")
		if err := os.WriteFile(name, []byte(example), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := load(); err != nil {
			t.Errorf("%s: the example of the message: %v", desc, err)
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUnreadableFile(t *testing.T) {
	dir := t.TempDir()
	if _, err := config.Load(dir, nil); err == nil || !strings.Contains(err.Error(), dir+": is a folder; name a file") {
		t.Errorf("a folder: got %v", err)
	}
	if _, err := config.LoadSingle(filepath.Join(dir, "a\x00b"), nil); err == nil || !strings.Contains(err.Error(), "make the file readable") {
		t.Errorf("a name that cannot be: got %v", err)
	}
}

func TestNilOptions(t *testing.T) {
	t.Setenv("PARLEY_CONFIG_TEST", "kept-secret")
	src := "agents: {a: {model: p/m}}\nauth: {bearerEnv: PARLEY_CONFIG_TEST}\nproviders: {p: {api: anything, baseUrl: \"http://127.0.0.1\"}}\n"
	s, err := config.Parse("x.yaml", []byte(src), nil)
	if err != nil || s.Auth.Bearer != "kept-secret" {
		t.Errorf("got %+v, %v", s, err)
	}
	// A program without models has no built-in provider.
	if _, err := config.Parse("x.yaml", []byte("agents: {a: {model: openai/gpt-5}}\n"), nil); err != nil {
		t.Error(err)
	}
}

func TestNameOfSingle(t *testing.T) {
	for file, want := range map[string]string{
		"issue-triage.yaml":      "issue-triage",
		"some/where/echo.yml":    "echo",
		"bare":                   "bare",
		"Echo.yaml":              "add for example name: echo",
		"my agent (2).yaml":      "add for example name: my-agent-2",
		"2nd.yaml":               "add for example name: agent-2nd",
		".yaml":                  "add for example name: agent",
		"é.yaml":                 "add for example name: agent",
		strings.Repeat("a-", 99): "add for example name: " + strings.Repeat("a-", 31) + "a",
	} {
		s, err := config.ParseSingle(file, []byte("model: demo/parrot\n"), options())
		var e *config.Error
		switch {
		case err == nil && s.Agent.Name != want:
			t.Errorf("%s: got %s, want %s", file, s.Agent.Name, want)
		case errors.As(err, &e) && (len(e.Mistakes) != 1 || e.Mistakes[0].Remedy != want || e.Mistakes[0].Key != "name"):
			t.Errorf("%s: got %v, want %s", file, err, want)
		}
	}
}
