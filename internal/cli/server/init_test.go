package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/config"
)

// The created program equals the example, and its agent can be served.
func TestInitWritesAFirstAgent(t *testing.T) {
	example, err := os.ReadFile("../../../examples/hello/main.go")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	code, out, errOut := program.Output(t, "init", "--go", "--yaml", "both")
	if code != 0 || errOut != "" || !strings.Contains(out, "wrote main.go, go.mod, parley.yaml in both") || !strings.Contains(out, "  cd both\n") ||
		!strings.Contains(out, "  go run . dev\n") || !strings.Contains(out, "The first build takes one to two minutes and prints nothing.") {
		t.Errorf("exit %d, %q, %q", code, out, errOut)
	}
	if got, err := os.ReadFile("both/main.go"); err != nil || string(got) != string(example) {
		t.Errorf("main.go is not examples/hello: %v\n%s", err, got)
	}
	if got, err := os.ReadFile("both/go.mod"); err != nil || string(got) != "module hello\n\ngo 1.26\n" {
		t.Errorf("go.mod: %v, %q", err, got)
	}
	p := &cli.Program{Agents: []*agent.Agent{{Name: "hello", Model: cli.DemoModel}}}
	conf, err := config.Load("both/parley.yaml", p.ConfigOptions())
	if err != nil || len(conf.Agents) != 1 || conf.Agents[0].Mounts[0] != "/agents/hello" {
		t.Errorf("parley.yaml of a program: %+v, %v", conf, err)
	}
	if code, out, errOut = program.Output(t, "init", "--yaml", "--name", "desk-1"); code != 0 || strings.Contains(out, "cd ") {
		t.Errorf("exit %d, %q, %q", code, out, errOut)
	}
	conf, err = config.Load("parley.yaml", (&cli.Program{}).ConfigOptions())
	if err != nil || conf.Agents[0].Agent.Name != "desk-1" || conf.Agents[0].Agent.Model != cli.DemoModel {
		t.Errorf("parley.yaml: %+v, %v", conf, err)
	}
	out, errOut = program.Serving(t, "dev", "--listen", "127.0.0.1:0")
	if !strings.Contains(out, `agent "desk-1", model demo/parrot`) || errOut != "" {
		t.Errorf("dev of it: %q, %q", out, errOut)
	}
	if released("v1.2.3") != "v1.2.3" || released("devel") != "" || released("v0.0.0-20261124101112-abcdefabcdef+dirty") != "" ||
		released("v1.2.3-4-gabcdef0") != "" || released("v1.2.3-dirty") != "" || released("v1.2.3-rc.1") != "v1.2.3-rc.1" {
		t.Error("go.mod lacks the requirement")
	}
}

func TestInitMistakes(t *testing.T) {
	t.Chdir(t.TempDir())
	clitest.Write(t, "go.mod", "module mine\n")
	for args, want := range map[string]string{
		"":                   "choose the files to create: --go",
		"--go":               "go.mod exists, nothing was written",
		"--yaml --name A":    "use lower-case letters, digits and dashes",
		"--yaml go.mod":      "go.mod",
		"--yaml one another": "takes one argument",
	} {
		exit := 1
		if args == "--yaml one another" {
			exit = cli.ExitUsage
		}
		code, out, errOut := program.Output(t, append([]string{"init"}, strings.Fields(args)...)...)
		if code != exit || out != "" || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit %d, %q, %q; want %q", args, code, out, errOut, want)
		}
	}
	if files, _ := filepath.Glob("*"); len(files) != 1 {
		t.Errorf("left behind: %q", files)
	}
}
