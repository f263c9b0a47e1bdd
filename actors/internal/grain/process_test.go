package grain_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/parleyrun/parley/actors/internal/grain"
)

const nodeEnv = "GRAIN_TEST_NODE"

// TestMain turns this binary into a node process on request; see startNode. Several members in one
// process trip the race detector, because the library replaces gRPC's global logger at each start.
func TestMain(m *testing.M) {
	if conf := os.Getenv(nodeEnv); conf != "" {
		if err := serveNode(conf); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serveNode runs a member that reads commands from standard input and answers each with a line: "view
// <members as JSON>", "ask <id> <text>", "stop".
func serveNode(conf string) error {
	var opts struct {
		Listen string
		TLS    *grain.TLSFiles
	}
	if err := json.Unmarshal([]byte(conf), &opts); err != nil {
		return err
	}
	m := newHandDriven()
	var c *grain.Cluster
	c, err := grain.New(kind, actorFunc(func(ctx actor.Context) {
		if s, ok := body(ctx); ok && s != "no reply" {
			ctx.Respond(text(c.MemberID()))
		}
		if _, ok := ctx.Message().(grain.HandOver); ok {
			grain.Passivate(ctx)
		}
	}), &grain.Options{Listen: opts.Listen, TLS: opts.TLS, Membership: m})
	if err != nil {
		return err
	}
	if err := c.Start(context.Background()); err != nil {
		return err
	}
	self, err := json.Marshal(m.self)
	if err != nil {
		return err
	}
	fmt.Println(string(self))
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		word, rest, _ := strings.Cut(in.Text(), " ")
		switch word {
		case "view":
			var view []grain.Member
			if err := json.Unmarshal([]byte(rest), &view); err != nil {
				return err
			}
			m.show(view...)
			fmt.Println("ok")
		case "ask":
			id, s, _ := strings.Cut(rest, " ")
			reply, err := c.Request(context.Background(), id, text(s))
			if err != nil {
				fmt.Println("error", err)
			} else {
				fmt.Println(value(reply))
			}
		case "stop":
			fmt.Println("stopped", c.Stop(context.Background()))
			return nil
		}
	}
	return in.Err()
}

type nodeProcess struct {
	self  grain.Member
	cmd   *exec.Cmd
	send  func(line string)
	lines chan string
}

// startNode starts this binary as a member at listen, which may be the port of a killed one.
func startNode(t *testing.T, listen string, tls *grain.TLSFiles) *nodeProcess {
	t.Helper()
	conf, err := json.Marshal(map[string]any{"Listen": listen, "TLS": tls})
	if err != nil {
		t.Fatal(err)
	}
	n := &nodeProcess{cmd: exec.Command(os.Args[0]), lines: make(chan string, 16)}
	n.cmd.Env = append(os.Environ(), nodeEnv+"="+string(conf), "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	n.cmd.Stderr = os.Stderr
	in, err := n.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := n.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	n.send = func(line string) { fmt.Fprintln(in, line) }
	go func() {
		defer close(n.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			n.lines <- s.Text()
		}
	}()
	t.Cleanup(n.kill)
	if err := json.Unmarshal([]byte(await(t, n.lines, "the node")), &n.self); err != nil {
		t.Fatal(err)
	}
	return n
}

// kill sends SIGKILL and waits for the end of the process.
func (n *nodeProcess) kill() {
	_ = n.cmd.Process.Kill()
	_ = n.cmd.Wait()
}

func (n *nodeProcess) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := n.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

func (n *nodeProcess) do(t *testing.T, format string, args ...any) string {
	t.Helper()
	n.send(fmt.Sprintf(format, args...))
	return await(t, n.lines, "an answer to "+format)
}

func (n *nodeProcess) show(t *testing.T, view ...grain.Member) {
	t.Helper()
	b, err := json.Marshal(view)
	if err != nil {
		t.Fatal(err)
	}
	if got := n.do(t, "view %s", b); got != "ok" {
		t.Fatalf("view: %s", got)
	}
}
