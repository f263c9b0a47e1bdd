package catalog

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
)

// To update the data, change the pin, download the package, and let the test write the file. Review
// the changes of catalog_test.go.
//
//	go test ./providers/catalog -run 'TestCatalogMatchesSource$' -source pi-ai-1.5.2.tgz -rewrite
var (
	source  = flag.String("source", "", "make the catalog of this package, and compare it with the file")
	rewrite = flag.Bool("rewrite", false, "write the file instead of comparing it")
)

const (
	sourcePackage   = "@earendil-works/pi-ai"
	sourceVersion   = "1.5.2"
	sourceIntegrity = "2tWPSnV3qzfiDIY3aWluBag3vC++Vs+VsXt/UquSU5onPMohPih72FUhIhaqmDdMYubOgB3Byl9uF4Vk40JLvQ=="
	sourceFolder    = "package/dist/providers/data/"
	sourceManifest  = ".manifest.json"
)

// wireFormats are the formats of the models to include.
func wireFormats() []string {
	return []string{
		"anthropic-messages", "openai-completions", "openai-responses", "azure-openai-responses", "openai-codex-responses",
		"google-generative-ai", "google-vertex", "bedrock-converse-stream", "mistral-conversations",
	}
}

// frozenEndpoint is the wire format, or a part of the base URL, of the first model of a provider with
// several. It determines how unlisted models are reached.
func frozenEndpoint() map[string]string {
	return map[string]string{
		"amazon-bedrock": "us-east-1", "azure": "azure-openai-responses", "cloudflare-ai-gateway": "anthropic-messages",
		"fireworks": "anthropic-messages", "github-copilot": "openai-completions", "opencode": "openai-completions",
		"opencode-go": "openai-completions", "openrouter": "openai-completions",
	}
}

// unread are members of compat that no codec reads.
func unread() []string {
	return []string{
		"allowedFallbackModels", "supportsAdditionalTools", "supportsMidConvoEffort",
		"supportsMidConvoSystemMessages", "supportsMidConvoToolAdditions", "supportsMidConvoToolChanges",
		"supportsOpenAIGrammarTools", "supportsStrictTools", "supportsToolSearch",
	}
}

// identifies reports headers that identify another program.
func identifies(headers map[string]string) bool {
	return headers["Editor-Version"] != "" || headers["User-Agent"] != ""
}

// sourceModel is a model of the source. An unknown member is an error.
type sourceModel struct {
	ID            string                `json:"id"`
	API           string                `json:"api"`
	Provider      string                `json:"provider"`
	BaseURL       string                `json:"baseUrl"`
	ContextWindow int                   `json:"contextWindow"`
	MaxTokens     int                   `json:"maxTokens"`
	Reasoning     bool                  `json:"reasoning"`
	Input         []string              `json:"input"`
	Headers       map[string]string     `json:"headers"`
	Thinking      providers.ThinkingMap `json:"thinkingLevelMap"`
	Compat        map[string]any        `json:"compat"`
	Cost          struct {
		sourceRates
		Tiers []struct {
			Above float64 `json:"inputTokensAbove"`
			sourceRates
		} `json:"tiers"`
	} `json:"cost"`
	Limits struct {
		RequestBytes int64 `json:"maxRequestBytes"`
		Images       struct {
			PerRequest int `json:"maxPerRequest"`
			PerMessage int `json:"maxPerMessage"`
			Resize     struct {
				Width   int   `json:"maxWidth"`
				Height  int   `json:"maxHeight"`
				Bytes   int64 `json:"maxBytes"`
				Quality any   `json:"jpegQuality"`
			} `json:"resize"`
		} `json:"images"`
	} `json:"inputLimits"`

	Type        any `json:"type"`
	Name        any `json:"name"`
	PromptCache any `json:"promptCache"`
}

type sourceRates struct {
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheRead  float64 `json:"cacheRead"`
	CacheWrite float64 `json:"cacheWrite"`
}

// generate returns the document of a package with the given hash.
func generate(pkg []byte, integrity string) (*document, error) {
	sum := sha512.Sum512(pkg)
	if got := base64.StdEncoding.EncodeToString(sum[:]); got != integrity {
		return nil, fmt.Errorf("the package has the SHA-512 %s, want %s", got, integrity)
	}
	files, err := dataOf(pkg)
	if err != nil {
		return nil, err
	}
	var manifest struct {
		GeneratedAt string `json:"generatedAt"`
	}
	if err := json.Unmarshal(files[sourceManifest], &manifest); err != nil {
		return nil, fmt.Errorf("read %s: %w", sourceManifest, err)
	}
	doc := &document{Source: Source{sourcePackage, sourceVersion, manifest.GeneratedAt, integrity}}
	shared := newSharing(doc)
	for _, name := range sortedKeys(files) {
		if name == sourceManifest {
			continue
		}
		p, err := readProvider(strings.TrimSuffix(name, ".json"), files[name], shared)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if len(p.Models) > 0 {
			doc.Providers = append(doc.Providers, *p)
		}
	}
	return doc, doc.check()
}

// dataOf returns the data files of the package.
func dataOf(pkg []byte) (map[string][]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(pkg))
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for archive := tar.NewReader(z); ; {
		h, err := archive.Next()
		if err == io.EOF {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if dir, name := path.Split(h.Name); dir == sourceFolder && path.Ext(name) == ".json" {
			if files[name], err = io.ReadAll(archive); err != nil {
				return nil, err
			}
		}
	}
}

func readProvider(id string, raw []byte, shared *sharing) (*provider, error) {
	var groups map[string]map[string]json.RawMessage
	if err := json.Unmarshal(raw, &groups); err != nil {
		return nil, err
	}
	p, seen := &provider{ID: id}, map[string]bool{}
	for _, api := range sortedKeys(groups) {
		if !slices.Contains(wireFormats(), api) {
			continue
		}
		for _, key := range sortedKeys(groups[api]) {
			if !strings.HasPrefix(key, "chat:") {
				continue
			}
			var m sourceModel
			d := json.NewDecoder(bytes.NewReader(groups[api][key]))
			d.DisallowUnknownFields()
			if err := d.Decode(&m); err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			if m.Provider != id || m.API != api || "chat:"+m.ID != key || seen[m.ID] {
				return nil, fmt.Errorf("%s: unexpected %s of %s at %s, or a duplicate", key, m.ID, m.Provider, m.API)
			}
			seen[m.ID] = true
			out, err := shared.model(m, p.endpoint(api, m.BaseURL))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			p.Models = append(p.Models, out)
		}
	}
	return p, p.freeze()
}

func (p *provider) endpoint(api, baseURL string) int {
	e := endpoint{api, baseURL}
	i := slices.Index(p.Endpoints, e)
	if i < 0 {
		i = len(p.Endpoints)
		p.Endpoints = append(p.Endpoints, e)
	}
	return i
}

// freeze moves the endpoint of unlisted models, and its models, to the front.
func (p *provider) freeze() error {
	if len(p.Endpoints) < 2 {
		return nil
	}
	want, ok := frozenEndpoint()[p.ID]
	first := slices.IndexFunc(p.Endpoints, func(e endpoint) bool { return e.API == want || strings.Contains(e.BaseURL, want) })
	if !ok || first < 0 {
		return fmt.Errorf("has %d endpoints; select the first in frozenEndpoint", len(p.Endpoints))
	}
	order := []int{first}
	for i := range p.Endpoints {
		if i != first {
			order = append(order, i)
		}
	}
	old := slices.Clone(p.Endpoints)
	for i, was := range order {
		p.Endpoints[i] = old[was]
	}
	for i := range p.Models {
		p.Models[i].Endpoint = slices.Index(order, p.Models[i].Endpoint)
	}
	slices.SortStableFunc(p.Models, func(a, b model) int { return a.Endpoint - b.Endpoint })
	return nil
}

// sharing assigns an index to each distinct value of a list.
type sharing struct {
	doc    *document
	places map[string]int
}

func newSharing(doc *document) *sharing { return &sharing{doc, map[string]int{}} }

func place[T any](s *sharing, list *[]T, v T) (int, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return 0, err
	}
	key := fmt.Sprintf("%T %s", v, raw)
	if s.places[key] == 0 {
		*list = append(*list, v)
		s.places[key] = len(*list)
	}
	return s.places[key], nil
}

func (s *sharing) model(m sourceModel, at int) (out model, err error) {
	out = model{
		ID: m.ID, Endpoint: at, ContextWindow: m.ContextWindow, MaxTokens: m.MaxTokens, Reasoning: m.Reasoning,
		Images: slices.Contains(m.Input, providers.InputImage), Cost: m.Cost.list(),
	}
	if want := slices.DeleteFunc(slices.Clone(m.Input), func(s string) bool { return s == providers.InputImage }); !slices.Equal(want, []string{providers.InputText}) {
		return out, fmt.Errorf("unknown input %q", m.Input)
	}
	for _, t := range m.Cost.Tiers {
		r := t.list()
		out.Tiers = append(out.Tiers, [5]float64{t.Above, r[0], r[1], r[2], r[3]})
	}
	if len(m.Thinking) > 0 {
		if out.Thinking, err = place(s, &s.doc.Thinking, m.Thinking); err != nil {
			return out, err
		}
	}
	compat, err := compatOf(m.Compat)
	if err == nil && compat != (providers.Compat{}) {
		out.Compat, err = place(s, &s.doc.Compat, compat)
	}
	if err == nil && len(m.Headers) > 0 && !identifies(m.Headers) {
		out.Headers, err = place(s, &s.doc.Headers, m.Headers)
	}
	l := m.Limits
	limits := providers.InputLimits{
		RequestBytes: l.RequestBytes, Images: l.Images.PerRequest, ImagesPerMessage: l.Images.PerMessage,
		ImageBytes: l.Images.Resize.Bytes, ImageSide: l.Images.Resize.Width,
	}
	if l.Images.Resize.Width != l.Images.Resize.Height {
		return out, errors.New("has images that are not square")
	}
	if err == nil && limits != (providers.InputLimits{}) {
		out.Limits, err = place(s, &s.doc.Limits, limits)
	}
	return out, err
}

func (r sourceRates) list() [4]float64 {
	return [4]float64{r.Input, r.Output, r.CacheRead, r.CacheWrite}
}

// compatOf reads the members that codecs use. A member that is neither read nor in unread is an error.
func compatOf(members map[string]any) (c providers.Compat, err error) {
	kept := map[string]any{}
	for name, v := range members {
		if !slices.Contains(unread(), name) {
			kept[name] = v
		}
	}
	raw, err := json.Marshal(kept)
	if err != nil {
		return c, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return c, d.Decode(&c)
}

func sortedKeys[T any](m map[string]T) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// pack returns the file of a document.
func pack(doc *document) ([]byte, error) {
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, err = z.Write(raw)
	err = errors.Join(err, z.Close())
	return out.Bytes(), err
}

// TestCatalogMatchesSource regenerates the catalog if the package is given.
// covers: providers/101
func TestCatalogMatchesSource(t *testing.T) {
	f, err := packed.Open(packedName)
	if err != nil {
		t.Fatal(err)
	}
	have, err := unpack(f)
	if err != nil && !*rewrite {
		t.Fatal(err)
	}
	if have != nil && have.Source != (Source{sourcePackage, sourceVersion, have.Source.Generated, sourceIntegrity}) && !*rewrite {
		t.Errorf("got a file of %+v, want the pinned package", have.Source)
	}
	if *source == "" {
		return
	}
	pkg, err := os.ReadFile(*source)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := generate(pkg, sourceIntegrity)
	if err != nil {
		t.Fatal(err)
	}
	if !*rewrite {
		if diff := cmp.Diff(doc, have); diff != "" {
			t.Errorf("the file is another than the package gives (-want +got):\n%s", diff)
		}
		return
	}
	out, err := pack(doc)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(packedName, out, 0o644); err != nil {
		t.Fatal(err)
	}
}

// packageOf returns a package with one data file.
func packageOf(t *testing.T, id, data string) (pkg []byte, integrity string) {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	archive := tar.NewWriter(z)
	for name, text := range map[string]string{
		sourceFolder + sourceManifest: `{"generatedAt":"2026-01-02T03:04:05Z"}`, sourceFolder + id + ".json": data, "package/other.json": "{",
	} {
		err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))})
		if err == nil {
			_, err = io.WriteString(archive, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(archive.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	sum := sha512.Sum512(out.Bytes())
	return out.Bytes(), base64.StdEncoding.EncodeToString(sum[:])
}

// entry returns a model of the source, with more members.
func entry(provider, api, id, baseURL, more string) string {
	return fmt.Sprintf(`"chat:%s":{"id":%[1]q,"name":"N","api":%q,"provider":%q,"baseUrl":%q,"type":"chat","input":["text","image"],
		"contextWindow":100,"maxTokens":10,"cost":{"input":1.10,"output":2,"cacheRead":0,"cacheWrite":0}%s}`, id, api, provider, baseURL, more)
}

// covers: providers/103, providers/104
func TestGenerate(t *testing.T) {
	pkg, integrity := packageOf(t, "openrouter", `{
		"anthropic-messages":{`+entry("openrouter", "anthropic-messages", "a", "https://one", `,"headers":{"X-A":"1"}`)+`},
		"openai-completions":{`+
		entry("openrouter", "openai-completions", "z", "https://two", `,"compat":{"supportsStore":false,"supportsToolSearch":true},"thinkingLevelMap":{"off":null}`)+","+
		entry("openrouter", "openai-completions", "b", "https://two", `,"headers":{"User-Agent":"Other/1"},"compat":{"supportsStore":false}`)+`},
		"openai-decisions":{"chat:c":{"id":"c"}}, "openai-responses":{"classifier:d":{"id":"d"}}}`)
	got, err := generate(pkg, integrity)
	if err != nil {
		t.Fatal(err)
	}
	want := &document{
		Source:   Source{sourcePackage, sourceVersion, "2026-01-02T03:04:05Z", integrity},
		Thinking: []providers.ThinkingMap{{"off": nil}}, Compat: []providers.Compat{{SupportsStore: providers.FlagOff}}, Headers: []map[string]string{{"X-A": "1"}},
		Providers: []provider{{
			ID:        "openrouter",
			Endpoints: []endpoint{{"openai-completions", "https://two"}, {"anthropic-messages", "https://one"}},
			Models: []model{
				{ID: "b", ContextWindow: 100, MaxTokens: 10, Images: true, Cost: [4]float64{1.1, 2}, Compat: 1},
				{ID: "z", ContextWindow: 100, MaxTokens: 10, Images: true, Cost: [4]float64{1.1, 2}, Compat: 1, Thinking: 1},
				{ID: "a", ContextWindow: 100, MaxTokens: 10, Images: true, Cost: [4]float64{1.1, 2}, Headers: 1, Endpoint: 1},
			},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	one, err := pack(got)
	if err != nil {
		t.Fatal(err)
	}
	again, err := unpack(bytes.NewReader(one))
	if diff := cmp.Diff(want, again); err != nil || diff != "" {
		t.Errorf("unpacked catalog differs: %v\n%s", err, diff)
	}
	if two, err := pack(again); err != nil || !bytes.Equal(one, two) {
		t.Errorf("repacked catalog differs: %v", err)
	}
}

// TestGenerateRefuses: unexpected data in the source requires a manual change.
func TestGenerateRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ id, data, want string }{
		"a member":         {"p", `{"openai-completions":{` + entry("p", "openai-completions", "m", "u", `,"mood":"good"`) + `}}`, "mood"},
		"a quirk":          {"p", `{"openai-completions":{` + entry("p", "openai-completions", "m", "u", `,"compat":{"isFast":true}`) + `}}`, "isFast"},
		"another provider": {"p", `{"openai-completions":{` + entry("q", "openai-completions", "m", "u", "") + `}}`, "m of q"},
		"a model twice": {"openrouter", `{"openai-completions":{` + entry("openrouter", "openai-completions", "m", "u", "") + `},
			"openai-responses":{` + entry("openrouter", "openai-responses", "m", "u", "") + `}}`, "duplicate"},
		"two endpoints": {"p", `{"openai-completions":{` + entry("p", "openai-completions", "m", "u", "") + "," + entry("p", "openai-completions", "n", "v", "") + `}}`, "2 endpoints"},
		"an input":      {"p", strings.Replace(`{"openai-completions":{`+entry("p", "openai-completions", "m", "u", "")+`}}`, `"image"`, `"smell"`, 1), "smell"},
		"no data":       {"p", `[]`, "p.json"},
	} {
		pkg, integrity := packageOf(t, tt.id, tt.data)
		if _, err := generate(pkg, integrity); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
	pkg, _ := packageOf(t, "p", `{}`)
	if _, err := generate(pkg, sourceIntegrity); err == nil || !strings.Contains(err.Error(), "SHA-512") {
		t.Errorf("another package: got %v", err)
	}
}

// TestUnpackRefuses detects files that were edited manually or exceed the limit.
func TestUnpackRefuses(t *testing.T) {
	packed := func(text string) io.Reader {
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		if _, err := io.WriteString(z, text); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return &out
	}
	for text, want := range map[string]string{
		`{"providers":[{"id":"p"}]}`: "no models",
		`{"providers":[{"id":"p","endpoints":[{}],"models":[{"id":"m","compat":1}]}]}`:   "unknown reference",
		`{"providers":[{"id":"p","endpoints":[{}],"models":[{"id":"m","endpoint":1}]}]}`: "unknown reference",
		`{"more":1}`: "more",
		`{"source":{"package":"` + strings.Repeat("x", maxUnpacked) + `"}}`: "longer than",
	} {
		if _, err := unpack(packed(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: got %v, want %q", text, err, want)
		}
	}
	if _, err := unpack(strings.NewReader("no gzip")); err == nil {
		t.Error("invalid catalog: got no error")
	}
}

// TestDecodeIsBounded bounds the memory of the decoded catalog and of decoding.
func TestDecodeIsBounded(t *testing.T) {
	var before, decoded, kept runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f, err := packed.Open(packedName)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := unpack(f)
	if err != nil {
		t.Fatal(err)
	}
	c := doc.models()
	runtime.ReadMemStats(&decoded)
	if took := decoded.TotalAlloc - before.TotalAlloc; took > 8<<20 {
		t.Errorf("got %d bytes allocated for decoding", took)
	}
	doc = nil
	runtime.GC()
	runtime.ReadMemStats(&kept)
	if stays := int64(kept.HeapAlloc) - int64(before.HeapAlloc); stays > 2<<20 {
		t.Errorf("got %d bytes retained by the catalog", stays)
	}
	runtime.KeepAlive(c)
	if a, b := Builtin(), Builtin(); &a["openai"].Models()[0] != &b["openai"].Models()[0] {
		t.Error("got a second decoding")
	}
}

// TestNothingIsDecodedUnasked: the data is decoded only when models are requested.
// covers: providers/116
func TestNothingIsDecodedUnasked(t *testing.T) {
	decode, decoded := load, 0
	load = func() loaded { decoded++; return decode() }
	defer func() { load = decode }()
	c := Builtin()
	r := providers.NewRegistry(&providers.RegistryOptions{Catalog: c, Getenv: func(string) string { return "" }})
	for id := range c {
		if err := r.RegisterProvider(id, providers.Registration{}); err != nil {
			t.Error(err)
		}
		r.EnvKeys(id)
	}
	if decoded != 0 {
		t.Errorf("registry: got %d decodings", decoded)
	}
	if _, err := r.Resolve("groq/new"); err != nil || decoded != 1 {
		t.Errorf("model: got %d decodings, %v", decoded, err)
	}
}

func BenchmarkDecode(b *testing.B) {
	for b.Loop() {
		f, err := packed.Open(packedName)
		if err != nil {
			b.Fatal(err)
		}
		doc, err := unpack(f)
		if err != nil {
			b.Fatal(err)
		}
		doc.models()
	}
}
