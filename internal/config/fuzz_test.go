package config_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parleyrun/parley/agent"
	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage/s3"
)

// FuzzParse reads any input as both kinds of file. It requires that nothing panics, every error is an
// Error, and the rest of the program accepts every result.
func FuzzParse(f *testing.F) {
	for _, folder := range []string{"server", "run"} {
		for _, name := range files(f, folder) {
			src, err := os.ReadFile(filepath.FromSlash(name))
			if err != nil {
				f.Fatal(err)
			}
			f.Add(src)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		server, err := config.Parse("parley.yaml", src, options())
		if err != nil {
			checkFuzzed(t, err, "parley.yaml")
		} else {
			checkServer(t, server)
		}
		single, err := config.ParseSingle("one.yaml", src, options())
		if err != nil {
			checkFuzzed(t, err, "one.yaml")
		} else {
			checkAgents(t, single.Providers, single.Agent)
		}
	})
}

func checkFuzzed(t *testing.T, err error, file string) {
	t.Helper()
	var e *config.Error
	if !errors.As(err, &e) {
		t.Fatalf("%T is not an Error: %v", err, err)
	}
	checkError(t, e, file)
}

// checkServer checks the requirements of the consumers of a result.
func checkServer(t *testing.T, s *config.Server) {
	t.Helper()
	if _, _, err := net.SplitHostPort(s.Listen); err != nil {
		t.Errorf("listen %q: %v", s.Listen, err)
	}
	if (s.Bucket.Dir == "") == (s.Bucket.Endpoint == "") {
		t.Errorf("bucket %+v is not in one place", s.Bucket)
	}
	if (s.Bucket.AccessKey == "") != (s.Bucket.SecretKey == "") {
		t.Error("the bucket has one of two keys")
	}
	if s.Bucket.Endpoint != "" && !strings.Contains(s.Bucket.Endpoint, "aws") && !strings.Contains(s.Bucket.Endpoint, "google") {
		if _, err := s3.New(&s3.Options{Endpoint: s.Bucket.Endpoint, Bucket: s.Bucket.Name, Secure: s.Bucket.Secure}); err != nil {
			t.Error(err)
		}
	}
	checkEvents(t, s.Events)
	if s.Cluster != nil {
		checkCluster(t, s)
	}
	if len(s.CORS.Origins) > 1 && slices.Contains(s.CORS.Origins, "*") {
		t.Errorf("origins %q", s.CORS.Origins)
	}
	if slices.ContainsFunc(s.TrustedProxies, func(p netip.Prefix) bool { return !p.IsValid() || p != p.Masked() }) {
		t.Errorf("proxies %v", s.TrustedProxies)
	}
	var agents []*agent.Agent
	var mounts []parleyhttp.Mount
	for i, a := range s.Agents {
		agents = append(agents, a.Agent)
		for _, m := range a.Mounts {
			mounts = append(mounts, parleyhttp.Mount{Path: m, Agent: a.Agent.Name})
		}
		if i > 0 && s.Agents[i-1].Agent.Name >= a.Agent.Name {
			t.Errorf("agent %s comes after %s", a.Agent.Name, s.Agents[i-1].Agent.Name)
		}
	}
	if len(agents) == 0 {
		t.Error("no agents")
	}
	_, err := parleyhttp.New(nil, nil, mounts, &parleyhttp.Options{
		PublicURL: s.PublicURL, TrustedProxies: s.TrustedProxies,
		MaxBodyBytes: s.Limits.BodyBytes, MaxTextBytes: s.Limits.TextBytes, MaxAttachments: s.Limits.Attachments,
		SpoolBytes: s.Limits.SpoolBytes, ReaderBytes: s.Limits.ReaderBytes,
	})
	if err != nil {
		t.Error(err)
	}
	checkAgents(t, s.Providers, agents...)
}

// checkEvents checks the requirements of the event sinks.
func checkEvents(t *testing.T, e config.Events) {
	t.Helper()
	if c := e.ClickHouse; c != nil {
		for _, a := range c.Addresses {
			if host, port, err := net.SplitHostPort(a); err != nil || host == "" || port == "0" {
				t.Errorf("clickhouse at %q: %v", a, err)
			}
		}
		if len(c.Addresses) == 0 || c.Protocol != config.ProtocolNative && c.Protocol != config.ProtocolHTTP || c.Database == "" || c.TTLDays < 0 {
			t.Errorf("clickhouse %+v is not whole", c)
		}
	}
	if e.JSONL != nil && e.JSONL.File == "" || e.OTel != nil && e.OTel.Endpoint == "" {
		t.Errorf("events %+v are not whole", e)
	}
}

// checkCluster checks the requirements of other nodes and the runtime.
func checkCluster(t *testing.T, s *config.Server) {
	t.Helper()
	c := s.Cluster
	if _, port, err := net.SplitHostPort(c.Listen); err != nil || c.Advertise == "" && port != "0" {
		t.Errorf("cluster listens on %q and advertises %q: %v", c.Listen, c.Advertise, err)
	}
	if c.Advertise != "" {
		host, port, err := net.SplitHostPort(c.Advertise)
		if ip := net.ParseIP(host); err != nil || host == "" || port == "0" || ip != nil && ip.IsUnspecified() {
			t.Errorf("cluster advertises %q: %v", c.Advertise, err)
		}
	}
	if s.Bucket.Endpoint == "" {
		t.Error("a cluster over a folder")
	}
	if c.Weight != nil && (*c.Weight < 0 || *c.Weight > config.MaxWeight) || c.Heartbeat < 0 || c.Suspect < 0 || c.Fence < 0 {
		t.Errorf("cluster %+v", c)
	}
	if c.TLS != nil && (c.TLS.CA == "" || c.TLS.Cert == "" || c.TLS.Key == "" || c.TLS.Name == "") {
		t.Errorf("cluster tls %+v is not whole", c.TLS)
	}
}

func checkAgents(t *testing.T, regs map[string]providers.Registration, agents ...*agent.Agent) {
	t.Helper()
	catalog := providers.Catalog{}
	for _, id := range options().Catalog {
		catalog[id] = providers.CatalogProvider{Models: func() []providers.CatalogModel {
			return []providers.CatalogModel{{ID: "m", API: "openai-completions", BaseURL: "http://catalog/"}}
		}}
	}
	registry := providers.NewRegistry(&providers.RegistryOptions{Catalog: catalog})
	for _, id := range options().Providers {
		if err := registry.RegisterProvider(id, providers.Registration{API: "x", BaseURL: "x:"}); err != nil {
			t.Fatal(err)
		}
	}
	for id, reg := range regs {
		if err := registry.RegisterProvider(id, reg); err != nil {
			t.Error(err)
		}
		if reg.API != "" && !slices.Contains(options().APIs, reg.API) {
			t.Errorf("provider %s has the api %q", id, reg.API)
		}
	}
	for _, a := range agents {
		if err := a.Validate(); err != nil {
			t.Error(err)
		}
		checkModels(t, registry, a)
	}
}

// checkModels resolves every model of an agent and its subagents.
func checkModels(t *testing.T, registry *providers.Registry, a *agent.Agent) {
	t.Helper()
	for _, spec := range append([]string{a.Model, a.Compaction.Model}, a.Fallbacks...) {
		if spec == "" {
			continue
		}
		if _, err := registry.Resolve(spec); err != nil {
			t.Error(err)
		}
	}
	for _, sub := range a.Subagents {
		checkModels(t, registry, sub)
	}
}

// TestValidFilesAreAccepted passes the valid test files to their consumers.
func TestValidFilesAreAccepted(t *testing.T) {
	good := 0
	for _, name := range files(t, "server") {
		server, _, err := parse(t, "server", name)
		if valid := strings.HasPrefix(filepath.Base(name), "valid-"); valid != (err == nil) {
			t.Errorf("%s: got %v", name, err)
		}
		if err == nil {
			good++
			checkServer(t, server)
		}
	}
	if good == 0 {
		t.Error("no file is good")
	}
}

// TestMountsAreTheHandlers compares the rule for mounts with the HTTP handler's.
func TestMountsAreTheHandlers(t *testing.T) {
	for _, mount := range []string{
		"/", "/a", "/a/b", "/A0-._~/x", "/.well-known", "/...", "", "a", "//", "/a/", "/a//b", "/.", "/../a", "/a b", "/ä", "/a%20b", "/{id}", "/a*", "/a:b", "/a\x00",
	} {
		_, handler := parleyhttp.New(nil, nil, []parleyhttp.Mount{{Path: mount, Agent: "a"}}, nil)
		_, file := config.Parse("x.yaml", []byte("agents: {a: {model: demo/parrot, mounts: ["+yamlQuote(mount)+"]}}\n"), options())
		if (handler == nil) != (file == nil) {
			t.Errorf("mount %q: got %v from the handler, %v from the file", mount, handler, file)
		}
	}
}

func yamlQuote(s string) string {
	return `"` + strings.NewReplacer("\x00", `\0`, `"`, `\"`).Replace(s) + `"`
}

// TestHostileFiles bounds the cost of parsing by the size of the file.
func TestHostileFiles(t *testing.T) {
	long := strings.Repeat("k", 500_000)
	for name, src := range map[string]string{
		"too large":        "# " + strings.Repeat("x", 1<<20),
		"long key":         long + ": [" + strings.Repeat("[],", 150_000) + "]\n",
		"many keys":        manyKeys(20_000),
		"many keys twice":  manyKeys(10_000) + manyKeys(10_000),
		"long broken file": strings.Repeat("a: b\n", 40_000) + "c\n",
		"broken long file": "a: [\n" + strings.Repeat("k: v\n", 150_000),
		"deep":             "a: " + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000),
		"too deep":         "a: " + strings.Repeat("[", 20_000),
	} {
		_, err := config.Parse("x.yaml", []byte(src), options())
		var e *config.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		checkError(t, e, "x.yaml")
		if len(e.Error()) > 5000 {
			t.Errorf("%s: the text has %d bytes", name, len(e.Error()))
		}
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("k" + strconv.Itoa(i) + ": 1\n")
	}
	return b.String()
}
