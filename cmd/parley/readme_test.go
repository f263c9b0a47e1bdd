package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/noderun"
)

// readmeBlocks returns the code blocks of the README in some languages, each with its language.
func readmeBlocks(t *testing.T) (blocks [][2]string) {
	t.Helper()
	src, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?ms)^```(sh|yaml)\n(.*?)^```").FindAllStringSubmatch(string(src), -1) {
		blocks = append(blocks, [2]string{m[1], m[2]})
	}
	return blocks
}

// newcomer follows the README at a terminal, in one folder.
type newcomer struct {
	t       *testing.T
	env     []string
	ports   *strings.Replacer // replaces the README's addresses by free ones
	serving *clitest.Screen
	ran     []string
}

// shown maps the beginning of each command of the README to its expected output. Those with "" are
// servers, which run until the next one starts.
var shown = map[string]string{
	"dev": "", "serve": "", "chat": "You said: hello (1 word)", "send": "[completed]", "run": "1 2 3 4 5", "cluster certs": "node-key.pem",
	"stats": "completed", "trace": "turn demo/parrot",
}

// elsewhere maps commands that need more than this machine to the test that covers them.
var elsewhere = map[string]string{"cluster status": "TestDeployCompose and the cluster run"}

func (n *newcomer) command(line string) {
	args := words(n.ports.Replace(line))
	name := args[0]
	if name == "cluster" {
		name += " " + args[1]
	}
	if elsewhere[name] != "" {
		return
	}
	want, ok := shown[name]
	if !ok {
		n.t.Fatalf("the README has a command that is new here: %s", line)
	}
	n.ran = append(n.ran, name)
	if want == "" {
		n.stop()
		n.serving = n.program(args)
		n.serving.Expect("Press Ctrl-C to stop.")
		return
	}
	s := n.program(args)
	if name == "chat" {
		s.Expect("> ")
		s.Types("hello\r")
		s.Expect(want)
		s.Expect("> ")
		s.Types("\x04")
	} else {
		s.Expect(want)
	}
	s.Ends()
}

func (n *newcomer) program(args []string) *clitest.Screen {
	return program.With(n.env...).AtTerminal(n.t, 80, args...)
}

// stop sends Ctrl-C to the running server.
func (n *newcomer) stop() {
	if n.serving != nil {
		n.serving.Types("\x03")
		n.serving.Ends()
	}
	n.serving = nil
}

// block runs one block.
func (n *newcomer) block(language, text string) {
	if language == "yaml" {
		if strings.Contains(text, "agents:") {
			clitest.Write(n.t, "parley.yaml", n.ports.Replace(text))
		}
		return
	}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "   #")
		if command, ok := strings.CutPrefix(line, "go run ./cmd/parley "); ok {
			n.command(strings.TrimSpace(command))
		} else if name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "="); ok && strings.HasPrefix(line, "export ") {
			n.env = append(n.env, name+"="+value)
		} else if strings.HasPrefix(line, "printf ") {
			if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
				n.t.Fatalf("%s: %v, %s", line, err, out)
			}
		}
	}
}

func TestReadmeNamesEveryCommand(t *testing.T) {
	src, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?s)`parley help` describes.*?\\.\n").FindString(string(src))
	for _, c := range program.Root().Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" && !strings.Contains(row, "`"+c.Name()+"`") {
			t.Errorf("%s is missing in %q", c.Name(), row)
		}
	}
}

// TestReadmeAtATerminal runs the README from top to bottom in one folder, with a server in another
// shell.
func TestReadmeAtATerminal(t *testing.T) {
	blocks := readmeBlocks(t)
	t.Chdir(t.TempDir())
	clitest.WithoutKeys(t)
	var ports []string
	for _, port := range []string{"5173", "3000"} {
		ports = append(ports, "127.0.0.1:"+port, noderun.Refusing(t))
	}
	n := &newcomer{t: t, ports: strings.NewReplacer(ports...)}
	for _, b := range blocks {
		if strings.Contains(b[1], "go run ./cmd/parley dev") {
			n.env = []string{"PARLEY_LISTEN=" + ports[1]}
		} else if strings.Contains(b[1], "serve --config") {
			n.env = append(n.env, "PARLEY_LISTEN="+ports[3])
		}
		n.block(b[0], b[1])
	}
	n.stop()
	if got, want := fmt.Sprint(n.ran), "[dev send chat run serve send cluster certs serve stats trace]"; got != want {
		t.Errorf("ran %s, want %s", got, want)
	}
}
