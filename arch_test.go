package parley_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/parleyrun/parley"

// role restricts the importers of a package beyond its level.
type role string

const (
	ground  role = "ground"  // nouns and pure functions
	seam    role = "seam"    // a small interface and plain data
	format  role = "format"  // shared by the vendors of one parent
	runtime role = "runtime" // the actors
	edge    role = "edge"    // used by callers
	vendor  role = "vendor"  // one implementation of a seam: imported by commands and tests only
	suite   role = "suite"   // holds tests: imported by tests only
	tool    role = "tool"    // independent of the product: imported by suites, commands and tests only
	command role = "command" // connects everything: the programs, and package parley, from which they are built
)

// row lists the allowed imports of one package: packages of this module and foreign modules. A command
// may import every package of the module.
type row struct {
	pkg     string
	level   int
	role    role
	imports []string
	foreign []string
}

// packages is the table of docs/architecture.md. A new package needs a row.
func packages() []row {
	return slices.Concat([]row{
		{"conversation", 0, ground, nil, nil},
		{"conversation/feed", 1, ground, list("conversation"), nil},
		{"conversation/transfer", 1, ground, list("conversation"), nil},
		{"internal/contain", 0, ground, nil, nil},
		{"internal/outage", 0, ground, nil, nil},
		{"memory", 0, ground, nil, nil},
		{"internal/reduce", 0, suite, nil, nil},
		{"internal/schedule", 0, suite, nil, nil},
		{"agent", 1, seam, list("agent/internal/seam", "conversation", "internal/contain"), list("github.com/santhosh-tekuri/jsonschema")},
		{"agent/agenthost", 1, seam, list("agent", "agent/internal/seam", "conversation", "internal/contain"), nil},
		{"agent/internal/seam", 0, format, nil, nil},
		{"storage", 1, seam, list("conversation", "storage/segment"), nil},
		{"storage/segment", 1, format, list("conversation"), list("github.com/cespare/xxhash", "github.com/klauspost/compress")},
		{"observability", 1, seam, list("conversation", "internal/contain", "internal/outage"), nil},
		{"observability/stats", 2, format, list("conversation", "observability"), nil},
		{"providers", 1, seam, list("internal/contain", "providers/sse"), nil},
		{"providers/eventstream", 1, format, nil, nil},
		{"providers/sse", 1, format, nil, nil},
		{"providers/picture", 1, format, nil, list("golang.org/x/image")},

		{"channels", 2, seam, list("conversation", "internal/contain", "outbox"), nil},

		{"outbox", 1, seam, list("conversation", "internal/contain"), nil},
		{"outbox/webhook", 3, vendor, list("outbox"), list("code.dny.dev/ssrf")},

		{"actors", 2, runtime,
			list("actors/follower", "actors/internal/pending", "actors/internal/events", "actors/internal/export", "actors/internal/grain", "actors/internal/history", "actors/internal/machine", "actors/internal/membership", "actors/internal/prompt", "actors/internal/relay", "actors/internal/wire", "actors/internal/work", "agent", "agent/agenthost", "conversation", "internal/contain", "internal/outage", "memory", "observability", "outbox", "providers", "storage"),
			list("github.com/oklog/ulid", "google.golang.org/protobuf")},
		{"actors/follower", 2, runtime, list("conversation", "conversation/feed", "memory", "storage"), nil},
		{"actors/internal/pending", 2, runtime, list("actors/internal/series", "actors/internal/wire", "conversation", "storage"), list("golang.org/x/sync", "google.golang.org/protobuf")},
		{"actors/internal/events", 2, runtime, list("actors/internal/export", "agent/agenthost", "conversation", "observability"), nil},
		{"actors/internal/export", 2, runtime, list("actors/internal/series", "conversation", "internal/contain", "internal/outage", "memory", "observability", "storage"), nil},
		{"actors/internal/grain", 2, runtime, list("actors/internal/wire", "internal/outage"), list("github.com/asynkron/protoactor-go", "google.golang.org/grpc", "google.golang.org/protobuf")},
		{"actors/internal/history", 2, runtime, list("actors/follower", "actors/internal/prompt", "actors/internal/summary", "conversation", "conversation/feed", "memory", "providers", "storage"), nil},
		{"actors/internal/machine", 2, runtime, list("conversation"), list("github.com/oklog/ulid")},
		{"actors/internal/membership", 2, runtime, list("conversation", "storage"), list("golang.org/x/sync")},
		{"actors/internal/prompt", 2, format, list("conversation", "providers", "providers/picture", "storage"), nil},
		{"actors/internal/relay", 2, runtime, list("actors/internal/wire", "conversation", "storage"), list("google.golang.org/protobuf")},
		{"actors/internal/series", 2, format, nil, nil},
		{"actors/internal/summary", 2, format, list("conversation"), nil},
		{"actors/internal/wire", 2, format, nil, list("google.golang.org/protobuf")},
		{"actors/internal/work", 2, runtime,
			list("actors/internal/events", "actors/internal/history", "actors/internal/machine", "actors/internal/prompt", "actors/internal/summary", "agent", "agent/agenthost", "conversation", "internal/contain", "memory", "observability", "outbox", "providers", "storage"),
			list("github.com/oklog/ulid")},
		{"observability/clickhouse", 3, vendor, list("conversation", "observability", "observability/stats", "storage"), list("github.com/ClickHouse/ch-go", "github.com/ClickHouse/clickhouse-go")},
		{"observability/jsonl", 3, vendor, list("observability"), nil},
		{"observability/otel", 3, vendor, list("conversation", "internal/outage", "observability"), list("go.opentelemetry.io/otel", "google.golang.org/genproto")},
		{"observability/sinktest", 3, suite, list("conversation", "observability"), list("github.com/google/go-cmp")},
		{"client", 3, edge, list("conversation"), nil},
		{"http/beta", 3, edge, list("conversation"), nil},
		{"http", 3, edge, list("channels", "conversation", "http/beta", "internal/contain", "memory"), list("github.com/gorilla/mux", "github.com/oklog/ulid", "golang.org/x/sync")},
		{"storage/s3", 3, vendor, list("storage"), list("github.com/minio/minio-go")},
		{"storage/local", 3, vendor, list("storage"), list("github.com/cockroachdb/pebble")},
		{"storage/inspect", 3, edge, list("conversation", "storage", "storage/segment"), nil},
		{"storage/internal/logsim", 4, suite, list("conversation", "internal/schedule", "storage", "storage/storagetest"), list("github.com/anishathalye/porcupine")},
		{"storage/storagetest", 3, suite, list("conversation", "storage"), list("github.com/google/go-cmp")},
	}, modelVendors(), platforms(), harnesses(), programs())
}

// harnesses are the rows of test, benchmark and wiring packages.
func harnesses() []row {
	return []row{
		{"agenttest", 4, suite, list("actors", "agent", "client", "conversation", "http", "internal/devlog", "observability", "providers", "storage", "storage/local", "storage/storagetest"), nil},
		{"console", 3, edge, nil, nil},
		{"internal/admin", 4, command, nil, list("github.com/prometheus/client_golang", "golang.org/x/sync")},
		{"internal/analytics", 3, suite, nil, nil},
		{"internal/attackrun", 3, suite, nil, nil},
		{"internal/chaos", 4, suite, list("agent", "conversation", "internal/reduce", "internal/schedule", "outbox", "providers", "storage", "storage/storagetest"), list("github.com/google/go-cmp")},
		{"internal/cli", 4, command, nil, list("github.com/oklog/ulid", "github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/term")},
		{"internal/cli/clitest", 4, suite, list("client", "conversation", "internal/cli", "internal/config", "internal/s3front", "internal/waiting", "observability", "providers/catalog", "storage", "storage/local"), list("github.com/creack/pty", "github.com/spf13/cobra")},
		{"internal/cli/converse", 4, command, nil, list("github.com/spf13/cobra", "golang.org/x/term")},
		{"internal/cli/operator", 4, command, nil, list("github.com/oklog/ulid", "github.com/spf13/cobra")},
		{"internal/cli/analyst", 4, command, nil, list("github.com/spf13/cobra", "golang.org/x/sync")},
		{"internal/cli/server", 4, command, nil, list("github.com/fsnotify/fsnotify", "github.com/spf13/cobra", "golang.org/x/sync")},
		{"internal/cli/clientcmd", 4, command, nil, list("github.com/spf13/cobra")},
		{"internal/clickhousetest", 3, suite, list("internal/proc"), nil},
		{"internal/clickhousetest/engine", 4, command, nil, list("github.com/ClickHouse/ch-go", "github.com/ClickHouse/clickhouse-go", "github.com/ebitengine/purego")},
		{"internal/clusterrun", 3, suite, nil, nil},
		{"internal/config", 4, command, nil, list("go.yaml.in/yaml")},
		{"internal/devlog", 0, format, nil, nil},
		{"internal/eventsrun", 3, suite, nil, nil},
		{"internal/fakemodel", 3, vendor, list("providers/eventstream"), nil},
		{"internal/killrun", 3, suite, nil, nil},
		{"internal/folder", 4, command, nil, nil},
		{"internal/model", 0, suite, nil, nil},
		{"internal/proc", 2, tool, list("internal/sample"), list("github.com/prometheus/procfs")},
		{"internal/readsocket", 3, vendor, list("storage"), nil},
		{"internal/s3front", 3, vendor, list("storage"), nil},
		{"internal/s3server", 3, suite, list("internal/proc", "internal/waiting"), list("github.com/minio/minio-go")},
		{"internal/sample", 1, tool, nil, nil},
		{"internal/sample/volumes", 2, tool, nil, nil},
		{"internal/table", 2, tool, nil, nil},
		{"internal/threads", 2, tool, nil, nil},
		{"internal/waiting", 0, tool, nil, nil},
		{"internal/noderun", 4, suite, list("conversation", "internal/proc", "internal/s3server", "providers/sse", "storage", "storage/local", "storage/s3"), nil},
	}
}

// programs are the rows of programs.
func programs() []row {
	return []row{
		{".", 4, command, nil, nil},
		{"cmd/parley", 4, command, nil, nil},
		{"cmd/parley-bench", 4, command, nil, list("github.com/spf13/cobra")},
		{"cmd/parley-bench/internal/bench", 4, command, nil, list("github.com/prometheus/procfs", "golang.org/x/sync")},
		{"examples/bots", 4, command, nil, nil},
		{"examples/hello", 4, command, nil, nil},
		{"examples/nightly", 4, command, nil, nil},
		{"examples/quickstart", 4, command, nil, nil},
		{"examples/research", 4, command, nil, nil},
		{"examples/support", 4, command, nil, nil},
	}
}

// platforms are the rows of webhook platforms.
func platforms() []row {
	return []row{
		{"channels/channeltest", 4, suite, list("channels", "conversation", "http", "outbox"), nil},
		{"channels/commerce", 3, vendor, list("channels"), nil},
		{"channels/discord", 3, vendor, list("channels"), nil},
		{"channels/github", 3, vendor, list("channels"), nil},
		{"channels/messenger", 3, vendor, list("channels", "outbox"), nil},
		{"channels/notes", 3, vendor, list("channels"), nil},
		{"channels/slack", 3, vendor, list("channels", "outbox"), nil},
		{"channels/standardwebhooks", 3, vendor, list("channels"), nil},
		{"channels/stripe", 3, vendor, list("channels"), nil},
		{"channels/twilio", 3, vendor, list("channels", "outbox"), nil},
		{"channels/whatsapp", 3, vendor, list("channels", "outbox"), nil},
	}
}

// modelVendors are the rows of model vendors.
func modelVendors() []row {
	return []row{
		{"providers/anthropicmessages", 3, vendor, list("providers", "providers/internal/claude", "providers/internal/sides", "providers/sse"), nil},
		{"providers/bedrockconverse", 3, vendor, list("providers", "providers/bedrockconverse/awsauth", "providers/eventstream", "providers/internal/claude", "providers/internal/sides", "providers/sse"), nil},
		{"providers/bedrockconverse/awsauth", 2, format, nil, nil},
		{"providers/catalog", 3, vendor, list("providers"), nil},
		{"providers/edge", 4, command, nil, nil},
		{"providers/googlegenerativeai", 3, vendor, list("providers", "providers/sse"), nil},
		{"providers/internal/claude", 2, format, list("providers"), nil},
		{"providers/internal/sides", 2, format, list("providers"), nil},
		{"providers/mistralconversations", 3, vendor, list("providers", "providers/sse"), nil},
		{"providers/openaicompletions", 3, vendor, list("providers", "providers/sse"), nil},
		{"providers/openairesponses", 3, vendor, list("providers", "providers/sse"), nil},
		{"providers/demo", 3, vendor, list("providers"), nil},
		{"providers/providertest", 3, suite, list("providers"), list("github.com/google/go-cmp")},
	}
}

// quarantine lists the packages that may import a foreign module, in code and also in tests. A module
// that is not listed may not be imported.
func quarantine() map[string]struct{ code, tests []string } {
	type where = struct{ code, tests []string }
	return map[string]where{
		"github.com/ClickHouse/ch-go":                    {code: list("internal/clickhousetest/engine", "observability/clickhouse")},
		"github.com/ClickHouse/clickhouse-go":            {code: list("internal/clickhousetest/engine", "observability/clickhouse"), tests: list("internal/clickhousetest")},
		"github.com/ebitengine/purego":                   {code: list("internal/clickhousetest/engine")},
		"github.com/anishathalye/porcupine":              {code: list("storage/internal/logsim"), tests: list("internal/clusterrun")},
		"github.com/asynkron/protoactor-go":              {code: list("actors/internal/grain"), tests: list("actors")},
		"github.com/cespare/xxhash":                      {code: list("storage/segment")},
		"github.com/cockroachdb/datadriven":              {tests: list("actors", "http")},
		"github.com/cockroachdb/pebble":                  {code: list("storage/local")},
		"code.dny.dev/ssrf":                              {code: list("outbox/webhook")},
		"github.com/standard-webhooks/standard-webhooks": {tests: list("channels", "internal/cli/operator", "outbox/webhook")},
		"github.com/fsnotify/fsnotify":                   {code: list("internal/cli/server")},
		"github.com/google/go-cmp":                       {code: list("storage/storagetest", "providers/providertest", "observability/sinktest", "internal/chaos"), tests: list("")},
		"github.com/gorilla/mux":                         {code: list("http")},
		"github.com/klauspost/compress":                  {code: list("storage/segment"), tests: list("storage", "internal/clickhousetest")},
		"github.com/minio/minio-go":                      {code: list("internal/s3server", "storage/s3")},
		"github.com/oklog/ulid":                          {code: list("actors", "http", "internal/cli")},
		"github.com/santhosh-tekuri/jsonschema":          {code: list("agent"), tests: list("observability")},
		"github.com/creack/pty":                          {code: list("internal/cli/clitest")},
		"github.com/spf13/cobra":                         {code: list("cmd", "internal/cli")},
		"github.com/spf13/pflag":                         {code: list("internal/cli")},
		"github.com/prometheus/client_golang":            {code: list("internal/admin")},
		"github.com/prometheus/procfs":                   {code: list("cmd/parley-bench", "internal/proc")},
		"go.yaml.in/yaml":                                {code: list("internal/config"), tests: list("cmd/parley", "test/deploy")},
		"go.opentelemetry.io/otel":                       {code: list("observability/otel")},
		"go.opentelemetry.io/proto":                      {tests: list("observability/otel")},
		"golang.org/x/image":                             {code: list("providers/picture")},
		"golang.org/x/term":                              {code: list("internal/cli")},
		"golang.org/x/sync":                              {code: list("actors", "http", "cmd", "internal/admin", "internal/cli")},
		"google.golang.org/genproto":                     {code: list("observability/otel")},
		"google.golang.org/grpc":                         {code: list("actors")},
		"google.golang.org/protobuf":                     {code: list("actors"), tests: list("observability/otel")},

		// Of the module of interoperability tests.
		"github.com/anthropics/anthropic-sdk-go": {tests: list("test/interop")},
		"github.com/aws/aws-sdk-go-v2":           {tests: list("test/interop")},
		"github.com/openai/openai-go":            {tests: list("test/interop")},
		"google.golang.org/genai":                {tests: list("test/interop")},
		"github.com/bwmarrin/discordgo":          {tests: list("test/interop")},
		"github.com/google/go-github":            {tests: list("test/interop")},
		"github.com/slack-go/slack":              {tests: list("test/interop")},
		"github.com/stripe/stripe-go":            {tests: list("test/interop")},
		"github.com/twilio/twilio-go":            {tests: list("test/interop")},

		// Of the module that holds the files of deploy.
		"github.com/prometheus/common":     {tests: list("test/deploy")},
		"github.com/prometheus/prometheus": {tests: list("test/deploy")},
		"github.com/prometheus-operator":   {tests: list("test/deploy")},
		"k8s.io/api":                       {tests: list("test/deploy")},
		"k8s.io/apimachinery":              {tests: list("test/deploy")},
		"sigs.k8s.io/yaml":                 {tests: list("test/deploy")},
	}
}

func list(s ...string) []string { return s }

// file is one parsed Go file.
type file struct {
	name      string // slash-separated, from the root
	dir       string
	test      bool
	generated bool
	syntax    *ast.File
	fset      *token.FileSet
	lines     int
}

// goFiles parses every Go file of the module, whatever its build tags, so that no build can hide an
// import.
func goFiles(t *testing.T) []file {
	t.Helper()
	parsed.once.Do(func() { parsed.files = parseFiles(t) })
	return parsed.files
}

// parsed caches the files, which tests share and must not change.
var parsed struct {
	once  sync.Once
	files []file
}

func parseFiles(t *testing.T) []file {
	t.Helper()
	generated := regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	var files []file
	for _, name := range allFiles(t) {
		if path.Ext(name) != ".go" || strings.Contains("/"+name, "/testdata/") {
			continue
		}
		src, err := os.ReadFile(filepath.FromSlash(name))
		if err != nil {
			t.Fatal(err)
		}
		fset := token.NewFileSet()
		syntax, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file{
			name:      name,
			dir:       path.Dir(name),
			test:      strings.HasSuffix(name, "_test.go"),
			generated: generated.Match(src),
			syntax:    syntax,
			fset:      fset,
			lines:     strings.Count(string(src), "\n"),
		})
	}
	return files
}

// allFiles lists the files of the repository, without generated and installed ones.
func allFiles(t *testing.T) []string {
	t.Helper()
	var names []string
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !d.IsDir():
			if name != ".git" { // of a second work tree
				names = append(names, name)
			}
		case slices.Contains(list(".git", ".parley", "bin", "node_modules"), d.Name()):
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// importsOf returns the imports of a file: own packages by their path within the module, and foreign
// ones without the standard library.
func importsOf(f file) (own, foreign []string) {
	for _, spec := range f.syntax.Imports {
		p := strings.Trim(spec.Path.Value, `"`)
		first, _, _ := strings.Cut(p, "/")
		switch {
		case p == module:
			own = append(own, ".")
		case strings.HasPrefix(p, module+"/"):
			own = append(own, strings.TrimPrefix(p, module+"/"))
		case strings.Contains(first, "."):
			foreign = append(foreign, p)
		}
	}
	return own, foreign
}

func within(p, dir string) bool {
	return dir == "" || p == dir || strings.HasPrefix(p, dir+"/")
}

// moduleOf returns the listed foreign module of an import path, or the path itself.
func moduleOf(p string) string {
	for m := range quarantine() {
		if within(p, m) {
			return m
		}
	}
	return p
}

func TestEveryPackageHasARow(t *testing.T) {
	want := map[string]bool{}
	for _, r := range packages() {
		if want[r.pkg] {
			t.Errorf("package %s has two rows", r.pkg)
		}
		want[r.pkg] = true
	}
	have := map[string]bool{}
	for _, f := range goFiles(t) {
		if !f.test {
			have[f.dir] = true
		}
	}
	for p := range have {
		if !want[p] {
			t.Errorf("package %s has no row in packages(); add one, and one to docs/architecture.md", p)
		}
	}
	for p := range want {
		if !have[p] {
			t.Errorf("row %s has no package; remove the row", p)
		}
	}
}

func TestImportsMatchTable(t *testing.T) {
	own, foreign := map[string][]string{}, map[string][]string{}
	for _, f := range goFiles(t) {
		if f.test {
			continue
		}
		o, fo := importsOf(f)
		own[f.dir] = append(own[f.dir], o...)
		for _, p := range fo {
			foreign[f.dir] = append(foreign[f.dir], moduleOf(p))
		}
	}
	compare := func(pkg, desc string, want, have []string) {
		for _, p := range have {
			if !slices.Contains(want, p) {
				t.Errorf("%s imports %s %s, which its row does not allow", pkg, desc, p)
			}
		}
		for _, p := range want {
			if !slices.Contains(have, p) {
				t.Errorf("the row of %s allows %s %s, which it does not import; remove it", pkg, desc, p)
			}
		}
	}
	for _, r := range packages() {
		if r.role != command {
			compare(r.pkg, "package", r.imports, set(own[r.pkg]))
		}
		compare(r.pkg, "module", r.foreign, set(foreign[r.pkg]))
	}
}

func set(s []string) []string {
	slices.Sort(s)
	return slices.Compact(s)
}

func TestTheTableKeepsTheRule(t *testing.T) {
	rows := map[string]row{}
	for _, r := range packages() {
		rows[r.pkg] = r
	}
	for _, r := range rows {
		for _, p := range r.imports {
			to, ok := rows[p]
			if !ok {
				t.Errorf("the row of %s allows %s, which has no row", r.pkg, p)
				continue
			}
			if to.level >= r.level && !within(p, r.pkg) && !shared(r, to) && !beneath(r, to) && !rooms(r, to) && !runs(r, to) {
				t.Errorf("%s (level %d) may not import %s (level %d): imports go down, or to a package's own sub-package", r.pkg, r.level, p, to.level)
			}
			if to.role == vendor && r.role != suite {
				t.Errorf("%s may not import the vendor %s: only commands and tests name one", r.pkg, p)
			}
			if to.role == suite && r.role != suite {
				t.Errorf("%s may not import the suite %s: only tests do", r.pkg, p)
			}
			if to.role == tool && r.role != suite && r.role != tool {
				t.Errorf("%s may not import the tool %s: only suites, commands and tests do", r.pkg, p)
			}
		}
	}
}

// shared reports whether to is a format with the same parent as r.
func shared(r, to row) bool {
	return to.role == format && path.Dir(to.pkg) == path.Dir(r.pkg)
}

// beneath reports whether r is a package below the seam to, for its hosts.
func beneath(r, to row) bool { return to.role == seam && within(r.pkg, to.pkg) }

// rooms reports whether both are packages of the runtime, whose imports neverArrows restricts.
func rooms(r, to row) bool {
	return within(r.pkg, "actors") && within(to.pkg, "actors") && to.pkg != "actors"
}

// runs reports whether r is a suite that runs the program to.
func runs(r, to row) bool { return r.role == suite && to.role == command }

// arrow is a forbidden dependency, direct or not, even if the row of the package allows it.
type arrow struct {
	from  string
	never []string
	why   string
}

// neverArrows keeps the packages of the runtime independent of each other, and those of the program.
func neverArrows() []arrow {
	outside := list("actors/internal/grain", "actors/internal/membership", "actors/internal/wire")
	return []arrow{
		{"actors/internal/machine", list("storage", "agent", "providers", "observability", "memory", "actors"), "it decides on inputs alone"},
		{"actors/internal/series", list("storage", "actors"), "it counts"},
		{"actors/internal/pending", list("actors/follower", "actors/internal/machine", "actors/internal/relay", "actors/internal/export", "actors/internal/grain", "actors/internal/membership"),
			"who is owed work is found without knowing what work is"},
		{"actors/internal/history", append(outside, "actors/internal/machine", "actors/internal/pending", "actors/internal/relay", "actors/internal/export", "agent", "observability"),
			"what was is kept without knowing what is decided or owed"},
		{"actors/internal/prompt", list("agent", "memory", "observability", "actors"), "it renders"},
		{"actors/internal/relay", list("actors/follower", "actors/internal/pending", "actors/internal/machine", "actors/internal/export", "actors/internal/grain"),
			"what it loses nobody misses, so nothing may rest on it"},
		{"actors/internal/export", append(outside, "actors/internal/pending", "actors/internal/machine", "actors/internal/relay", "agent", "providers"),
			"events are made of batches, and no turn waits for them"},
		{"actors/internal/work", append(outside, "actors/internal/pending", "actors/internal/relay"), "it does what it is told, wherever that comes from and whoever owes it"},
		{"actors/internal/events", append(outside, "actors/internal/pending", "actors/internal/machine", "actors/internal/relay", "providers"), "it tells, and is waited for by nobody"},
		{"actors/internal/membership", list("actors", "agent", "providers", "observability", "memory"), "who is a member is decided without knowing what members do"},
		{"actors/internal/grain", list("conversation", "storage", "actors/internal/machine", "actors/internal/pending"), "it carries messages and reads none"},
		{"actors/follower", list("actors/internal", "agent", "providers"), "a reader needs the log alone"},
		{"internal/cli", list("internal/cli/operator", "internal/cli/analyst", "internal/cli/server", "internal/cli/clientcmd", "actors"), "commands rest on it"},
		{"internal/cli/operator", list("internal/cli/analyst", "internal/cli/server", "internal/cli/clientcmd"), "each room of commands has readers of its own"},
		{"internal/cli/analyst", list("internal/cli/operator", "internal/cli/server", "internal/cli/clientcmd", "actors"), "what is shown was written down"},
		{"internal/cli/server", list("internal/cli/operator", "internal/cli/analyst", "internal/cli/clientcmd"), "each room of commands has readers of its own"},
		{"internal/cli/clientcmd", list("internal/cli/operator", "internal/cli/analyst", "internal/cli/server", "actors", "storage/inspect"), "it is a client"},
		{"internal/cli/converse", list("internal/cli/operator", "internal/cli/analyst", "internal/cli/server", "internal/cli/clientcmd", "actors", "storage/inspect"), "it is a client"},
	}
}

// TestRuntimePackagesAreIndependent checks the transitive imports.
func TestRuntimePackagesAreIndependent(t *testing.T) {
	for _, a := range neverArrows() {
		reached := reachedFrom(t, a.from)
		if len(reached) == 0 && a.from != "actors/internal/series" {
			t.Errorf("%s imports nothing: the test looks at another package", a.from)
		}
		for p := range reached {
			if slices.ContainsFunc(a.never, func(n string) bool { return within(p, n) }) {
				t.Errorf("%s imports %s, directly or not: %s", a.from, p, a.why)
			}
		}
	}
}

// reachedFrom returns the transitive imports of a package within the module, without its tests.
func reachedFrom(t *testing.T, from string) map[string]bool {
	t.Helper()
	own := map[string][]string{}
	for _, f := range goFiles(t) {
		if o, _ := importsOf(f); !f.test {
			own[f.dir] = append(own[f.dir], o...)
		}
	}
	reached := map[string]bool{}
	for waiting := slices.Clone(own[from]); len(waiting) > 0; {
		p := waiting[0]
		if waiting = waiting[1:]; !reached[p] {
			reached[p] = true
			waiting = append(waiting, own[p]...)
		}
	}
	return reached
}

// TestShellFieldsAreBounded bounds the fields of the two types in which all packages of the runtime meet.
// Their fields must be objects with behaviour; the fields of a struct that only groups them count too.
func TestShellFieldsAreBounded(t *testing.T) {
	const most = 15
	found := 0
	for _, f := range goFiles(t) {
		if f.dir != "actors" || f.test {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != "Runtime" && spec.Name.Name != "activation" {
				return true
			}
			s, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			found++
			fields := 0
			for _, field := range s.Fields.List {
				fields += max(1, len(field.Names))
			}
			if fields > most {
				t.Errorf("%s has %d fields, want at most %d", spec.Name.Name, fields, most)
			}
			return true
		})
	}
	if found != 2 {
		t.Errorf("found %d of the 2 types", found)
	}
}

// Packages that measure, break or replace parts of the product in tests are not part of the program.
func TestParleyExcludesTestPackages(t *testing.T) {
	foreign := list("cmd/parley-bench", "internal/fakemodel", "internal/proc", "internal/s3front")
	for _, r := range packages() {
		if r.role == suite {
			foreign = append(foreign, r.pkg)
		}
	}
	reached := reachedFrom(t, "cmd/parley")
	for p := range reached {
		if slices.ContainsFunc(foreign, func(f string) bool { return within(p, f) }) {
			t.Errorf("cmd/parley imports %s, directly or not", p)
		}
	}
	if !reached["actors"] {
		t.Error("cmd/parley does not import actors: the test looks at another program")
	}
}

func TestForeignModulesAreQuarantined(t *testing.T) {
	used := map[string]bool{}
	for _, f := range goFiles(t) {
		_, foreign := importsOf(f)
		for _, p := range foreign {
			m := moduleOf(p)
			used[m] = true
			q := quarantine()[m]
			allowed := q.code
			if f.test {
				allowed = append(slices.Clone(q.code), q.tests...)
			}
			if !slices.ContainsFunc(allowed, func(dir string) bool { return within(f.dir, dir) }) {
				t.Errorf("%s imports %s, which is allowed under %q only", f.name, p, allowed)
			}
		}
	}
	for m := range quarantine() {
		if !used[m] {
			t.Errorf("quarantine lists %s, which nothing imports; remove it", m)
		}
	}
}

// TestNoForeignTypeIsExported reads declarations: a foreign package may not be named in the exported
// surface of a package that others can import.
func TestNoForeignTypeIsExported(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.test || f.generated || f.syntax.Name.Name == "main" || strings.Contains(f.dir+"/", "/internal/") || within(f.dir, "internal/cli") {
			continue // The command packages exchange cobra commands.
		}
		names := foreignNames(f)
		if len(names) == 0 {
			continue
		}
		for _, decl := range f.syntax.Decls {
			for _, n := range exportedTypes(decl) {
				ast.Inspect(n, func(n ast.Node) bool {
					sel, ok := n.(*ast.SelectorExpr)
					if !ok {
						return true
					}
					if x, ok := sel.X.(*ast.Ident); ok && names[x.Name] != "" {
						t.Errorf("%s: exported declaration names %s.%s of %s", f.fset.Position(sel.Pos()), x.Name, sel.Sel.Name, names[x.Name])
					}
					return true
				})
			}
		}
	}
}

// foreignNames maps the local names of a file's foreign imports to their paths.
func foreignNames(f file) map[string]string {
	version := regexp.MustCompile(`/v[0-9]+$`)
	names := map[string]string{}
	for _, spec := range f.syntax.Imports {
		p := strings.Trim(spec.Path.Value, `"`)
		first, _, _ := strings.Cut(p, "/")
		if !strings.Contains(first, ".") || strings.HasPrefix(p, module+"/") {
			continue
		}
		if spec.Name != nil {
			names[spec.Name.Name] = p
			continue
		}
		base := path.Base(version.ReplaceAllString(p, ""))
		names[strings.TrimSuffix(strings.TrimPrefix(base, "go-"), "-go")] = p
		if base == "minio-go" {
			names["minio"] = p
		}
	}
	return names
}

// exportedTypes returns the type expressions of an exported declaration.
func exportedTypes(decl ast.Decl) []ast.Node {
	var nodes []ast.Node
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && (d.Recv == nil || exportedReceiver(d.Recv)) {
			nodes = append(nodes, d.Type)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					nodes = append(nodes, exportedParts(s.Type)...)
				}
			case *ast.ValueSpec:
				if s.Type != nil && slices.ContainsFunc(s.Names, (*ast.Ident).IsExported) {
					nodes = append(nodes, s.Type)
				}
			}
		}
	}
	return nodes
}

// exportedParts drops the unexported fields of a struct.
func exportedParts(e ast.Expr) []ast.Node {
	s, ok := e.(*ast.StructType)
	if !ok {
		return []ast.Node{e}
	}
	var nodes []ast.Node
	for _, field := range s.Fields.List {
		if len(field.Names) == 0 || slices.ContainsFunc(field.Names, (*ast.Ident).IsExported) {
			nodes = append(nodes, field.Type)
		}
	}
	return nodes
}

func exportedReceiver(recv *ast.FieldList) bool { return ast.IsExported(receiver(recv)) }

// receiver returns the name of a method's receiver type.
func receiver(recv *ast.FieldList) string { return typeName(recv.List[0].Type) }

// typeName returns the name of a type without a pointer or type arguments, "" for other expressions.
func typeName(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}
