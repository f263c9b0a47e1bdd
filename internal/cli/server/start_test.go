package server

import (
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/waiting"
	"github.com/parleyrun/parley/providers"
)

// The address comes from the flag, else the file, else the platform. A public address without
// authentication needs an explicit flag.
func TestServeListens(t *testing.T) {
	t.Setenv("TEST_PARLEY_TOKEN", "s3cret")
	const agents, auth, given = "agents: {echo: {model: demo/parrot}}\n", "auth: {bearerEnv: TEST_PARLEY_TOKEN}\n", "listen: 127.0.0.1:4000\n"
	for name, tt := range map[string]struct {
		file, flag, port string
		open             bool
		want             string // or part of the error
	}{
		"nothing":             {agents, "", "", false, "127.0.0.1:3000"},
		"the file":            {agents + given, "", "", false, "127.0.0.1:4000"},
		"the flag":            {agents + given, "127.0.0.1:5000", "", false, "127.0.0.1:5000"},
		"the platform":        {agents + auth, "", "8080", false, "0.0.0.0:8080"},
		"the platform, open":  {agents, "", "8080", true, "0.0.0.0:8080"},
		"the platform, not":   {agents, "", "8080", false, "use --insecure"},
		"the file before it":  {agents + given, "", "8080", false, "127.0.0.1:4000"},
		"the flag before all": {agents, "127.0.0.1:5000", "8080", false, "127.0.0.1:5000"},
	} {
		cfg := serveConfig{program: &cli.Program{}, listen: tt.flag, open: tt.open, file: clitest.Write(t, filepath.Join(t.TempDir(), "p.yaml"), tt.file)}
		conf, err := cfg.load(func(name string) string {
			if name != "PORT" {
				t.Errorf("%s: asks for %s", name, name)
			}
			return tt.port
		})
		if err != nil && !strings.Contains(err.Error(), tt.want) || err == nil && conf.Listen != tt.want {
			t.Errorf("%s: %+v, %v; want %s", name, conf, err, tt.want)
		}
	}
}

// --data overrides the bucket, except in a cluster.
func TestServeInAnotherFolder(t *testing.T) {
	file := clitest.Write(t, filepath.Join(t.TempDir(), "p.yaml"), "agents: {echo: {model: demo/parrot}}\nbucket: {endpoint: s3.example.com, name: words}\n")
	cfg := serveConfig{program: &cli.Program{}, file: file, data: "other"}
	conf, err := cfg.load(func(string) string { return "" })
	if err != nil || conf.Bucket.Dir != "other" || conf.Bucket.Endpoint != "" {
		t.Errorf("%+v, %v", conf, err)
	}
	clitest.Write(t, file, "agents: {echo: {model: demo/parrot}}\nbucket: {endpoint: s3.example.com, name: words}\ncluster: {listen: \"10.0.0.5:7946\"}\n")
	if conf, err := cfg.load(func(string) string { return "" }); err == nil || !strings.Contains(err.Error(), "omit one of them") {
		t.Errorf("of a cluster: %+v, %v", conf, err)
	}
}

// A model in a format that the program does not implement does not prevent a start if fallbacks exist;
// the runtime logs a warning.
func TestUnsupportedFormatsAllowStart(t *testing.T) {
	conf, logs := named("echo"), &waiting.Log{}
	conf.Bucket.Dir = t.TempDir()
	conf.Providers = map[string]providers.Registration{"own": {API: "unheard", BaseURL: "http://127.0.0.1:1"}}
	conf.Agents[0].Agent.Fallbacks = []string{"own/m"}
	if err := CheckAgents(&cli.Program{}, "p.yaml", conf); err != nil {
		t.Error(err)
	}
	_, err := newConfigured(t.Context(), conf, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, manner{program: &cli.Program{}, secrets: &cli.Secrets{}}, slog.New(slog.NewTextHandler(logs, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if logs.With("level=WARN", "agent=echo", "model=own/m", "api=unheard") == "" {
		t.Errorf("logged %s", logs.String())
	}
	conf.Agents[0].Agent.Fallbacks = []string{"nobody/m"}
	if err := CheckAgents(&cli.Program{}, "p.yaml", conf); err == nil {
		t.Error("got no error for an unknown provider")
	}
}

// Pages of the current version expect a server at its port.
// covers: upgrade/20
func TestDevListensWhereClientsLook(t *testing.T) {
	dev, _, err := program.Root().Find([]string{"dev"})
	if err != nil {
		t.Fatal(err)
	}
	if got := dev.Flag("listen").DefValue; got != "127.0.0.1:5173" {
		t.Errorf("it listens at %s", got)
	}
}
