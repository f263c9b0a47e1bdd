package cli

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/catalog"
)

// rewrite makes TestProvidersPage write its tables.
var rewrite = flag.Bool("rewrite", false, "write the tables of the page instead of comparing them")

// providersPage is the page whose three tables are generated here.
const providersPage = "../../docs/providers.md"

const (
	formatsHead   = "| format | path | key in | images in | parallel calls | thinking | prompt cache | storeResponses | temperature |"
	providersHead = "| provider | called in | models | see | think | set |"
	schemasHead   = "| keyword | plain | claude | converse | gemini | openapi | moonshot | fireworks |"
)

// The tables of formats and providers match the requests that the program sends and its catalog, and
// every format has its limits named.
// covers: providers/156
func TestProvidersPage(t *testing.T) {
	b, err := os.ReadFile(providersPage)
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	for head, rows := range map[string][]string{formatsHead: formatRows(t), providersHead: providerRows(), schemasHead: schemaRows()} {
		at := strings.Index(page, "\n"+head+"\n")
		if at < 0 {
			t.Fatalf("the page has no table %s", head)
		}
		at++
		table, rest, ok := strings.Cut(page[at:], "\n\n")
		if !ok {
			t.Fatal("nothing follows the table")
		}
		want := head + "\n" + strings.Repeat("|---", strings.Count(head, "|")-1) + "|\n" + strings.Join(rows, "\n")
		if diff := gocmp.Diff(want, table); diff != "" && !*rewrite {
			t.Errorf("go test ./internal/cli -run 'TestProvidersPage$' -rewrite writes it (-code +page):\n%s", diff)
		}
		page = page[:at] + want + "\n\n" + rest
	}
	for _, api := range protocols() {
		if !strings.Contains(page, "\n- `"+api+"`: ") {
			t.Errorf("the page lacks the limits of %s", api)
		}
	}
	if *rewrite {
		if err := os.WriteFile(providersPage, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// schemaRows formats providers.SchemaTable. A cell is empty for a keyword that is sent unchanged.
func schemaRows() (rows []string) {
	for _, r := range providers.SchemaTable() {
		row := "| " + r.Keyword + " |"
		for _, use := range r.Uses {
			if use == providers.SchemaSent {
				use = ""
			}
			row = strings.TrimRight(row+" "+string(use), " ") + " |"
		}
		rows = append(rows, row)
	}
	return rows
}

// probe holds the requests of a format for one call.
type probe struct {
	path   string
	query  string
	header http.Header
	body   string
}

// Texts of the probes, which occur nowhere else.
const (
	probeSession = "probed-session"
	probeUser    = "picture of a user"
	probeResult  = "picture of a result"
)

// probeKey is accepted by every format. It is also a subscription token that names its account.
var probeKey = "head." + base64.RawURLEncoding.EncodeToString([]byte(`{"https://api.openai.com/auth":{"chatgpt_account_id":"acc"}}`)) + ".tail"

// prober records requests at a server that answers none.
type prober struct {
	t    *testing.T
	base string
	got  chan probe
}

func newProber(t *testing.T) *prober {
	p := &prober{t: t, got: make(chan probe, 1)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		p.got <- probe{r.URL.Path, r.URL.RawQuery, r.Header, string(body)}
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(server.Close)
	p.base = server.URL
	return p
}

// send records the requests of a format with options and a changed registration.
func (p *prober) send(api string, o providers.Options, change func(*providers.Registration)) probe {
	p.t.Helper()
	reg := providers.Registration{
		API: api, BaseURL: p.base, APIKey: probeKey, Reasoning: new(true), Input: []string{providers.InputText, providers.InputImage}, MaxTokens: new(32000),
	}
	change(&reg)
	all, err := (&Program{}).NewProviders(0, func(string) string { return "" }, map[string]providers.Registration{"own": reg})
	if err != nil {
		p.t.Fatal(err)
	}
	image := func(s string) providers.Image {
		return providers.Image{MimeType: "image/png", Content: providers.Bytes(s)}
	}
	req := providers.Request{System: "s", Tools: []providers.Tool{{Name: "first"}, {Name: "second"}}, Messages: []providers.Message{
		{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: "q"}, image(probeUser)}},
		{Role: providers.RoleAssistant, Parts: []providers.Part{
			providers.ToolCall{ID: "aaaaaaaaa", Name: "first", Arguments: json.RawMessage(`{}`)},
			providers.ToolCall{ID: "bbbbbbbbb", Name: "second", Arguments: json.RawMessage(`{}`)},
		}},
		{Role: providers.RoleTool, Parts: []providers.Part{
			providers.ToolResult{CallID: "aaaaaaaaa", Name: "first", Content: []providers.Part{providers.Text{Text: "one"}}},
			providers.ToolResult{CallID: "bbbbbbbbb", Name: "second", Content: []providers.Part{providers.Text{Text: "two"}, image(probeResult)}},
		}},
		{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: "go on"}}},
	}}
	var failure error
	for _, err := range all.Stream(p.t.Context(), "own/m", req, o) {
		failure = err
	}
	select {
	case got := <-p.got:
		return got
	default:
		p.t.Fatalf("%s sends nothing: %v", api, failure)
		return probe{}
	}
}

func asItIs(*providers.Registration) {}

// formatRows derives a table row per format from its requests.
func formatRows(t *testing.T) []string {
	modelInPath := strings.NewReplacer("/m:", "/{model}:", "/m/", "/{model}/")
	p := newProber(t)
	var rows []string
	for _, api := range slices.Sorted(slices.Values(protocols())) {
		if api == providers.APIEdgeAIBinding {
			continue // its two formats have their own rows
		}
		plain := p.send(api, providers.Options{}, asItIs)
		cells := []string{
			"`" + api + "`", "`" + modelInPath.Replace(plain.path) + "`", headersWith(plain.header, probeKey), imagesOf(plain),
			yes(strings.Count(plain.body, "aaaaaaaaa") >= 2 && strings.Count(plain.body, "bbbbbbbbb") >= 2 || calledByName(plain.body)),
			p.thinking(api, plain), p.cache(api, plain),
			yes(plain.body != p.send(api, providers.Options{}, func(r *providers.Registration) { r.StoreResponses = true }).body),
			p.temperature(api),
		}
		rows = append(rows, "| "+strings.Join(cells, " | ")+" |")
	}
	return rows
}

// calledByName reports whether both calls have a result although the format has no ids.
func calledByName(body string) bool {
	return strings.Count(body, `"first"`) >= 3 && strings.Count(body, `"second"`) >= 3
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "-"
}

// headersWith lists the headers whose value contains text.
func headersWith(h http.Header, text string) string {
	var names []string
	for name, values := range h {
		if strings.Contains(strings.Join(values, ""), text) {
			names = append(names, "`"+name+"`")
		}
	}
	slices.Sort(names)
	return cmp.Or(strings.Join(names, ", "), "-")
}

func imagesOf(p probe) string {
	var in []string
	for _, of := range []struct{ name, picture string }{{"messages", probeUser}, {"results", probeResult}} {
		if strings.Contains(p.body, base64.StdEncoding.EncodeToString([]byte(of.picture))) {
			in = append(in, of.name)
		}
	}
	return cmp.Or(strings.Join(in, ", "), "-")
}

// thinking reports whether thinking can be disabled, and how many levels differ.
func (p *prober) thinking(api string, plain probe) string {
	text := map[string]bool{}
	for _, level := range providers.ThinkingLevels() {
		got := p.send(api, providers.Options{ThinkingLevel: level}, asItIs)
		if level != providers.ThinkingOff && got.body != plain.body {
			text[got.body] = true
		}
	}
	off := ""
	if p.send(api, providers.Options{ThinkingLevel: providers.ThinkingOff}, asItIs).body != plain.body {
		off = "off, "
	}
	switch {
	case len(text) == 1:
		return off + "on"
	case len(text) == 0 && off == "":
		return "-"
	}
	return fmt.Sprintf("%s%d levels", off, len(text))
}

// cache lists the parts of a request that help the vendor's prompt cache.
func (p *prober) cache(api string, plain probe) string {
	var with []string
	for _, mark := range []string{"cache_control", "cachePoint"} {
		if strings.Contains(plain.body, `"`+mark+`"`) {
			with = append(with, "`"+mark+"`")
		}
	}
	named := p.send(api, providers.Options{SessionID: probeSession}, asItIs)
	for _, found := range regexp.MustCompile(`"([a-z_]+)":"`+probeSession+`"`).FindAllStringSubmatch(named.body, -1) {
		with = append(with, "`"+found[1]+"`")
	}
	if headers := headersWith(named.header, probeSession); headers != "-" {
		with = append(with, headers)
	}
	return cmp.Or(strings.Join(with, ", "), "-")
}

// temperature reports when a temperature is sent.
func (p *prober) temperature(api string) string {
	sent := func(level providers.ThinkingLevel, reasons bool) bool {
		o := providers.Options{Temperature: new(0.625), ThinkingLevel: level}
		return strings.Contains(p.send(api, o, func(r *providers.Registration) { r.Reasoning = &reasons }).body, "0.625")
	}
	switch {
	case sent(providers.ThinkingHigh, true):
		return "always"
	case sent(providers.ThinkingOff, true):
		return "without thinking"
	case sent("", false):
		return "of models that do not reason"
	}
	return "-"
}

// variable matches an environment variable in a base URL.
var variable = regexp.MustCompile(`\{([A-Z][A-Z0-9_]*)\}`)

// providerRows formats a table row per provider of the catalog.
func providerRows() []string {
	var rows []string
	all := catalog.Builtin()
	for _, id := range slices.Sorted(maps.Keys(all)) {
		p := all[id]
		if p.AliasOf != "" {
			rows = append(rows, fmt.Sprintf("| `%s` | as `%s` | | | | |", id, p.AliasOf))
			continue
		}
		formats, names := map[string]bool{}, map[string]bool{}
		see, think := 0, 0
		for _, m := range p.Models() {
			formats["`"+m.API+"`"] = true
			for _, found := range variable.FindAllStringSubmatch(m.BaseURL, -1) {
				names["`"+found[1]+"`"] = true
			}
			if slices.Contains(m.Input, providers.InputImage) {
				see++
			}
			if m.Reasoning {
				think++
			}
		}
		var ways []string
		for _, k := range p.EnvKeys {
			ways = append(ways, "`"+k.Name+"`")
		}
		for _, set := range p.EnvSets {
			ways = append(ways, "`"+strings.Join(set, "` + `")+"`")
		}
		set := cmp.Or(strings.Join(ways, " or "), "a token of one's own, by `apiKeyEnv`")
		if len(names) > 0 {
			set += "; " + strings.Join(slices.Sorted(maps.Keys(names)), ", ")
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %d | %d | %d | %s |", id, strings.Join(slices.Sorted(maps.Keys(formats)), ", "), len(p.Models()), see, think, set))
	}
	return rows
}
