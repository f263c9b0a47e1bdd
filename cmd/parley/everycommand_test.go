package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/proc"
)

// binary is the program of examples/hello, built as its author builds it. It records the commands that
// were run.
type binary struct {
	*clitest.Program
	ran []string
}

// want runs a command and requires an exit code and a text in its output.
func (b *binary) want(t *testing.T, command string, code int, text string, args ...string) string {
	t.Helper()
	b.ran = append(b.ran, command)
	cmd := b.Command(append(strings.Fields(command), args...)...)
	out, _ := cmd.CombinedOutput() // The exit code is checked below.
	if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(string(out), text) {
		t.Errorf("%s %q: exit %d, %s\nwant exit %d and %q", command, args, got, out, code, text)
	}
	return string(out)
}

// leaves returns the commands that have an action.
func leaves(c *cobra.Command) (all []string) {
	for _, sub := range c.Commands() {
		all = append(all, leaves(sub)...)
	}
	if _, name, ok := strings.Cut(c.CommandPath(), " "); ok && (len(all) == 0 || name == "models") {
		all = append(all, name)
	}
	return all
}

// TestEveryCommand runs each command of Parley in the binary of an author.
func TestEveryCommand(t *testing.T) {
	b := &binary{Program: clitest.New(commandSets()...)}
	b.File = proc.Program(t, "examples/hello", false)
	t.Chdir(t.TempDir())
	submission := b.talked(t)
	b.checkToolCall(t, submission)
	b.served(t)
	all := leaves(b.Root())
	for _, name := range slices.Compact(slices.Sorted(slices.Values(b.ran))) {
		if !slices.Contains(all, name) {
			t.Errorf("%s is not a command", name)
		}
		all = slices.DeleteFunc(all, func(c string) bool { return c == name })
	}
	if len(all) > 0 {
		t.Errorf("not run: %q", all)
	}
}

// talked runs a conversation with the agent, with a kill, in the default folder.
func (b *binary) talked(t *testing.T) (submission string) {
	b.want(t, "init", 0, "go run . dev", "--go", "first")
	b.want(t, "run", 0, "The tool time says", "hello", "-m", "time")
	b.ran = append(b.ran, "dev")
	n := b.Start(t, "dev", "--quiet", "--listen", "127.0.0.1:0")
	if !strings.HasSuffix(n.Base, "/agents/hello") {
		t.Errorf("serves %s", n.Base)
	}
	var receipt clitest.Receipt
	if err := json.Unmarshal([]byte(b.want(t, "send", 0, "sub_", "--no-wait", "--key", "k", n.Base+"/x", "long 40")), &receipt); err != nil {
		t.Fatal(err)
	}
	n.Kill()
	n = b.Start(t, "dev", "--quiet", "--listen", "127.0.0.1:0")
	b.want(t, "send", 0, "40\n[completed]", "--key", "k", n.Base+"/x", "long 40")
	b.want(t, "chat", 0, "", n.Base+"/y") // standard input is empty
	b.want(t, "abort", 0, "nothing to abort", n.Base+"/x")
	b.want(t, "signal", 0, "signalled", n.Base+"/x", "approval", "true")
	b.want(t, "signal", 1, "409 already_decided", n.Base+"/x", "approval", "true")
	run := strings.TrimSuffix(n.Base, "/agents/hello") + "/runs/run_01ARZ3NDEKTSV4RRFFQ69G5FAV"
	b.want(t, "runs start", 1, "404", "x", "--server", strings.TrimSuffix(n.Base, "/agents/hello")) // the program has no workflow
	b.want(t, "runs show", 1, "404", run)
	b.want(t, "runs follow", 1, "404", run)
	b.want(t, "runs signal", 1, "404", run, "approval")
	b.want(t, "runs abort", 1, "404", run)
	b.ran = append(b.ran, "tail")
	tail := b.Command("tail", n.Base+"/x")
	out, err := tail.StdoutPipe()
	if err == nil {
		err = tail.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, len("user: "))
	if _, err := out.Read(first); err != nil || string(first) != "user: " {
		t.Errorf("tail prints %q, %v", first, err)
	}
	if err := tail.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	if err := tail.Wait(); err != nil {
		t.Errorf("tail: %v", err)
	}
	if err := n.End(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, n.Logs)
	}
	return string(receipt.SubmissionID)
}

// checkToolCall runs the commands that read the folder.
func (b *binary) checkToolCall(t *testing.T, submission string) {
	b.want(t, "stats", 0, "completed        2") // the signal counts as one
	b.want(t, "trace", 0, "turn demo/parrot", submission)
	b.want(t, "trace", 0, "sub_")
	b.want(t, "events replay", 0, `"submission_settled"`, "--data", ".parley", "--to", "stdout")
	b.want(t, "events schema", 0, "$schema")
	b.want(t, "events migrate", 1, "configures no ClickHouse", "--config", conf(t))
	b.want(t, "models", 0, "anthropic/", "--provider", "anthropic")
	b.want(t, "models check", 0, "answer: ", "demo/parrot")
	b.want(t, "log dump", 0, "schemaVersion", "format.json")
	b.want(t, "log verify", 0, "0 damaged")
	b.want(t, "log repair", 0, "0 damaged", "--write")
	b.want(t, "import flue", cli.ExitUsage, "takes the URLs of conversations")
	b.want(t, "outbox list", 0, "0 dead letters")
	b.want(t, "outbox resend", 1, "has no dead letter", "post_x")
	b.want(t, "outbox drop", 0, "", "--all")
	b.want(t, "log quarantine", 0, "0 conversations quarantined")
	b.want(t, "bucket check", 0, "requests in", "--data", ".parley")
	b.want(t, "cluster certs", 0, "certs/ca.pem", "certs")
	b.want(t, "cluster status", 1, "the bucket is a folder", "--config", conf(t))
	b.want(t, "cluster drain", 1, "the bucket is a folder", "--config", conf(t), "x")
	b.want(t, "version", 0, "stored format")
	b.want(t, "completion", 0, "__complete", "bash")
}

// conf writes a configuration that mounts the agent elsewhere, with other instructions.
func conf(t *testing.T) string {
	return clitest.Write(t, filepath.Join(t.TempDir(), "parley.yaml"), `
listen: 127.0.0.1:1
bucket: {dir: data}
agents:
  hello: {mounts: [/front], instructions: Be terse., limits: {callsPerReply: 3}, durability: {maxAttempts: 2}}
  more: {model: demo/parrot, mounts: [/more]}
`)
}

// served serves the agent with a configuration, and without one.
func (b *binary) served(t *testing.T) {
	b.ran = append(b.ran, "serve")
	t.Setenv("PARLEY_LISTEN", "127.0.0.1:0")
	n := b.Start(t, "serve", "--quiet", "--config", conf(t))
	if !strings.HasSuffix(n.Base, "/front") {
		t.Errorf("serves %s", n.Base)
	}
	b.want(t, "send", 0, "The tool time says", n.Base+"/x", "time")
	if err := n.End(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, n.Logs)
	}
	n = b.Start(t, "serve", "--quiet")
	if !strings.HasSuffix(n.Base, "/agents/hello") {
		t.Errorf("without a file it serves %s", n.Base)
	}
	if err := n.End(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, n.Logs)
	}
	b.want(t, "serve", 1, "none.yaml", "--config", "none.yaml")
}
