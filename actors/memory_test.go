package actors_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
)

// childOf names, in the environment of a child process, the test it is for.
const childOf = "PARLEY_TEST_CHILD_OF"

// TestMemoryOfEndlessModels runs models that never end in a process of its own and looks
// at the most memory that it took, which the race detector multiplies. What the models
// would say is more.
func TestMemoryOfEndlessModels(t *testing.T) {
	const most = 512 << 20
	if os.Getenv(childOf) == t.Name() {
		endlessModels(t)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1", "-test.v")
	cmd.Env = append(os.Environ(), childOf+"="+t.Name())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out[max(0, len(out)-4000):])
	}
	found := regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`).FindSubmatch(out)
	if found == nil {
		t.Fatalf("no VmHWM in %s", out)
	}
	kb, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d MiB", kb>>10)
	if kb<<10 > most {
		t.Errorf("%d MiB, want at most %d", kb>>10, most>>20)
	}
}

// endlessModels settles one conversation for each way not to end, all at once, and
// prints what the kernel says about the process.
func endlessModels(t *testing.T) {
	const enough = 2 << 30 // beyond it nothing shows that anything is bounded
	piece := strings.Repeat("x", 4<<10)
	ways := map[string]func(a *providers.Assembler){
		"text":      func(a *providers.Assembler) { a.Text(piece) },
		"reasoning": func(a *providers.Assembler) { a.Reasoning(piece, "") },
		"parts": func(a *providers.Assembler) {
			for range len(piece) / 16 {
				a.Text("x")
				a.Reasoning("y", "")
			}
		},
		"arguments": func(a *providers.Assembler) { a.CallArguments(0, piece) },
	}
	a := chatAgent()
	a.Limits = agent.Limits{ResponseBytes: 1 << 20, ArgumentBytes: 256 << 10}
	w := newWorld(t)
	n := w.start(setup{opts: agents(a), model: script(func(_ context.Context, req providers.Request, out *providers.Assembler) error {
		seen := shown(req)
		way := strings.TrimPrefix(seen[len(seen)-1], "user: ")
		if way == "arguments" {
			out.StartCall("p", "t")
		}
		for i := 0; i < enough/len(piece) && !out.Stopped(); i++ {
			ways[way](out)
		}
		out.Finish(providers.Done{StopReason: providers.StopStop})
		return nil
	})})
	for way := range ways {
		n.admit(chat(way), "1", way)
	}
	for way := range ways {
		afterSettlements(w, chat(way), 1)
		settled := only[*conversation.SubmissionSettled](w.records(chat(way)))[0]
		if settled.Error == nil || settled.Error.Type != conversation.CodeOutputTooLong {
			t.Errorf("%s: settled as %s with %+v", way, settled.Outcome, settled.Error)
		}
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%s\n", status)
}
