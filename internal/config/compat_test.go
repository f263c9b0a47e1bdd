package config_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/catalog"
)

// TestCompatTakesWhatTheCatalogSays: an operator can say of a server what the catalog says
// of others, word for word.
func TestCompatTakesWhatTheCatalogSays(t *testing.T) {
	seen := map[providers.Compat]bool{}
	for _, p := range catalog.Builtin() {
		for _, m := range p.Models {
			if seen[m.Compat] {
				continue
			}
			seen[m.Compat] = true
			compat, err := json.Marshal(m.Compat)
			if err != nil {
				t.Fatal(err)
			}
			thinking, err := json.Marshal(m.Thinking)
			if err != nil {
				t.Fatal(err)
			}
			said := `compat: ` + strings.ReplaceAll(string(compat), ":", ": ")
			if m.Thinking != nil {
				said += `, thinkingLevelMap: ` + strings.ReplaceAll(string(thinking), ":", ": ")
			}
			src := fmt.Sprintf("providers: {local: {api: anything, baseUrl: \"http://127.0.0.1\", %s}}\nagents: {a: {model: local/m}}\n", said)
			conf, err := config.Parse("x.yaml", []byte(src), nil)
			if err != nil {
				t.Fatalf("%s\n%v", src, err)
			}
			if got := conf.Providers["local"]; got.Compat != m.Compat || len(got.Thinking) != len(m.Thinking) {
				t.Errorf("%+v and %v became %+v and %v", m.Compat, m.Thinking, got.Compat, got.Thinking)
			}
		}
	}
	if len(seen) < 50 {
		t.Errorf("the catalog has %d kinds of servers", len(seen))
	}
}
