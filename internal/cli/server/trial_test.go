package server

import (
	"net"
	"strings"
	"testing"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
)

// The command that users copy from the banner must work.
func TestBannerCommandWorks(t *testing.T) {
	type guest struct {
		Name string `json:"name"`
	}
	for name, tt := range map[string]struct {
		schema *agent.Schema
		want   string
	}{
		"none":     {nil, "send http://127.0.0.1:1/desk/hello 'Hello!'"},
		"optional": {agent.SchemaFor[*guest](), "send http://127.0.0.1:1/desk/hello 'Hello!'"},
		"required": {agent.SchemaFor[guest](), "send --initial-data '{…}' http://127.0.0.1:1/desk/hello 'Hello!'"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &agent.Agent{Name: "desk", Model: "demo/parrot", InitialData: tt.schema}
			conf := &config.Server{Agents: []config.Agent{{Agent: a, Mounts: []string{"/desk"}}}}
			got := trial(&cli.Program{Agents: []*agent.Agent{a}}, conf, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1})
			if len(got) != 1 || !strings.HasSuffix(got[0], tt.want) {
				t.Errorf("%q does not end with %q", got, tt.want)
			}
		})
	}
}
