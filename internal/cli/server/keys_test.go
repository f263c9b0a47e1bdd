package server

import (
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/internal/waiting"
	"github.com/parleyrun/parley/providers/catalog"
)

// started returns the log of the start of a node with these providers.
func started(t *testing.T, yaml string) *waiting.Log {
	t.Helper()
	file := clitest.Write(t, filepath.Join(t.TempDir(), "p.yaml"), "providers:\n  "+yaml+"\nagents: {echo: {mounts: [/echo], model: demo/parrot}}\n")
	p := &cli.Program{}
	conf, err := config.Load(file, p.ConfigOptions())
	if err != nil {
		t.Fatalf("%s: start refused: %v", yaml, err)
	}
	if err := CheckAgents(p, file, conf); err != nil {
		t.Fatalf("%s: start refused: %v", yaml, err)
	}
	conf.Bucket.Dir = t.TempDir()
	logs := &waiting.Log{}
	n, err := newConfigured(t.Context(), conf, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, manner{program: p, secrets: &cli.Secrets{}}, slog.New(slog.NewTextHandler(logs, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.close(); err != nil {
		t.Error(err)
	}
	return logs
}

// An unset or blank key falls through to the next source. The start logs the used source, or that
// there is none, in one line per provider.
// covers: providers/21
func TestBlankKeysFallThrough(t *testing.T) {
	clitest.WithoutKeys(t)
	t.Setenv("WS_KEY", " \t\n")
	t.Setenv("GROQ_API_KEY", "kept-secret")
	t.Setenv("AWS_ACCESS_KEY_ID", "kept-secret")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "kept-secret")
	const own = `api: openai-completions, baseUrl: "http://127.0.0.1:1/v1"`
	for name, tt := range map[string]struct {
		yaml string
		want []string // parts of the one line, nil for none
	}{
		"blank, another counts":    {`groq: {apiKeyEnv: WS_KEY}`, []string{"provider=groq", "WS_KEY", "used=GROQ_API_KEY"}},
		"not set, another counts":  {`groq: {apiKeyEnv: NOT_SET_ANYWHERE}`, []string{"provider=groq", "NOT_SET_ANYWHERE", "used=GROQ_API_KEY"}},
		"a chain counts":           {`amazon-bedrock: {apiKeyEnv: WS_KEY}`, []string{"provider=amazon-bedrock", `used="AWS_ACCESS_KEY_ID + AWS_SECRET_ACCESS_KEY"`}},
		"none counts":              {`xai: {apiKeyEnv: WS_KEY}`, []string{"has no API key", "provider=xai", "WS_KEY", "set=XAI_API_KEY"}},
		"none is named":            {`xai: {}`, []string{"has no API key", "provider=xai", "set=XAI_API_KEY"}},
		"none can be set":          {`openai-codex: {apiKeyEnv: WS_KEY}`, []string{"has no API key", "provider=openai-codex", "WS_KEY"}},
		"of a server of one's own": {`local: {` + own + `, apiKeyEnv: WS_KEY}`, []string{"has no API key", "provider=local", "WS_KEY"}},
		"a secret in its place":    {`local: {` + own + `, apiKeyEnv: sk_live_1}`, []string{"has no API key", "provider=local", "the named environment variable"}},
		"a server without a key":   {`local: {` + own + `}`, nil},
		"a key":                    {`groq: {}`, nil},
		"a header":                 {`xai: {headers: {Authorization: "Bearer kept-secret"}}`, nil},
		"a binding":                {`edge: {api: edge-ai-binding}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			logs := started(t, tt.yaml).String()
			var lines []string
			for line := range strings.Lines(logs) {
				if strings.Contains(line, "provider=") {
					lines = append(lines, line)
				}
			}
			if len(lines) != min(len(tt.want), 1) {
				t.Fatalf("%s: got %d lines, want %d:\n%s", tt.yaml, len(lines), min(len(tt.want), 1), logs)
			}
			for _, part := range tt.want {
				if !strings.Contains(lines[0], part) || !strings.Contains(lines[0], "level=WARN") {
					t.Errorf("%s: got %s, want a warning with %s", tt.yaml, lines[0], part)
				}
			}
			if strings.Contains(logs, "kept-secret") || strings.Contains(logs, "sk_live_1") {
				t.Errorf("%s: shows a secret: %s", tt.yaml, logs)
			}
		})
	}
}

// The rule holds for each provider of the catalog that has a variable.
// covers: providers/21
func TestBlankKeysOfTheCatalog(t *testing.T) {
	clitest.WithoutKeys(t)
	p := &cli.Program{}
	for id, known := range catalog.Builtin() {
		if len(known.EnvKeys) == 0 {
			continue
		}
		variable := known.EnvKeys[len(known.EnvKeys)-1].Name
		env := func(name string) string { return map[string]string{variable: "kept-secret", "WS_KEY": " "}[name] }
		conf, err := config.Parse("p.yaml", []byte("providers: {"+id+": {apiKeyEnv: WS_KEY}}\nagents: {echo: {model: demo/parrot}}\n"), p.ConfigOptions())
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		reg, err := p.NewProviders(0, env, conf.Providers)
		if err != nil {
			t.Fatal(err)
		}
		logs := &waiting.Log{}
		warnKeys(slog.New(slog.NewTextHandler(logs, nil)), reg, conf.BlankKeys)
		if logs.With("provider="+id, "used="+variable) == "" || reg.APIKey(id) != "kept-secret" || len(conf.BlankKeys) != 1 {
			t.Errorf("%s: logged %q, key %q, blank %v, want the key of %s", id, logs.String(), reg.APIKey(id), conf.BlankKeys, variable)
		}
	}
}

func TestBlankKeysOfRun(t *testing.T) {
	clitest.WithoutKeys(t)
	t.Setenv("WS_KEY", "  ")
	t.Setenv("OPENAI_API_KEY", "kept-secret")
	file := clitest.Write(t, filepath.Join(t.TempDir(), "one.yaml"), "model: demo/parrot\nproviders: {openai: {apiKeyEnv: WS_KEY}}\n")
	code, _, errOut := program.Output(t, "run", file, "-m", "hello")
	if code != 0 || strings.Count(errOut, "using another key") != 1 || !strings.Contains(errOut, "OPENAI_API_KEY") {
		t.Errorf("exit %d, %q; want exit 0 and one line about OPENAI_API_KEY", code, errOut)
	}
}
