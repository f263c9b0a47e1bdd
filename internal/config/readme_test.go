package config_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/parleyrun/parley/internal/config"
)

// The configurations of README are valid: a server, and a cluster node whose bucket replaces the first
// one.
func TestReadmeConfigurations(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(readme, -1)
	if len(blocks) != 2 {
		t.Fatalf("README.md has %d blocks of yaml, want 2", len(blocks))
	}
	server := blocks[0][1]
	node := append(regexp.MustCompile(`(?m)^bucket: .*\n`).ReplaceAll(server, nil), blocks[1][1]...)
	o := options()
	o.Env = func(string) (string, bool) { return "set", true }
	for name, content := range map[string][]byte{"server": server, "node": node} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "parley.yaml")
			if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := config.Load(file, o); err != nil {
				t.Errorf("%v\n%s", err, content)
			}
		})
	}
}
