package operator

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/storage"
)

// usedFolder returns a data folder that a server has used. It has one conversation of many batches,
// with a kill and a restart, and a short one.
func usedFolder(t *testing.T) (data string, conv conversation.Key) {
	t.Helper()
	data = t.TempDir()
	n := program.StartDev(t, data)
	for i, text := range []string{"help", "time", "hello", "long 60"} {
		if i == 2 {
			n.Kill()
			n = program.StartDev(t, data)
		}
		if code, out, errOut := program.Output(t, "send", n.Base+"/long", text); code != 0 {
			t.Fatalf("send: exit %d, %q, %q", code, out, errOut)
		}
	}
	program.Output(t, "send", n.Base+"/short", "hello")
	if err := n.End(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	return data, conversation.Address{Agent: "assistant", ID: "long"}.Key()
}

func TestLogOfAServer(t *testing.T) {
	t.Parallel()
	data, conv := usedFolder(t)
	clitest.OnFolder(t, data, func(b storage.Bucket) {
		if prefix := string(conv[:2]) + "/" + string(conv) + "/seg/"; len(clitest.Keys(t, b, prefix)) == 0 {
			t.Error("dev has compacted nothing at the end of four turns")
		}
	})
	// A kill may leave a checkpoint that no head names yet, or a merged segment.
	code, out, errOut := program.Output(t, "log", "verify", "--data", data)
	if code != 0 || !strings.Contains(out, "2 conversations") || !strings.Contains(out, "0 damaged") {
		t.Fatalf("verify: exit %d\n%s%s", code, out, errOut)
	}
	if code, out, errOut := program.Output(t, "log", "repair", "--data", data, "--write"); code != 0 {
		t.Fatalf("repair: exit %d\n%s%s", code, out, errOut)
	}
	code, out, errOut = program.Output(t, "log", "verify", "--data", data)
	if code != 0 || !strings.Contains(out, "0 damaged, 0 repairable, 0 notes") {
		t.Fatalf("verify after repair: exit %d\n%s%s", code, out, errOut)
	}
	file := clitest.EchoConfig(t, t.TempDir(), fmt.Sprintf("bucket: {dir: %q}", data))
	if code, out, errOut = program.Output(t, "log", "verify", "--config", file, "--agent", "assistant", "--id", "short"); code != 0 || !strings.Contains(out, "1 conversation,") {
		t.Errorf("verify of one: exit %d\n%s%s", code, out, errOut)
	}
	t.Run("dump", func(t *testing.T) { dumpAll(t, data, conv) })
	t.Run("repair", func(t *testing.T) { repairFolder(t, data, conv) })
}

func dumpAll(t *testing.T, data string, conv conversation.Key) {
	var all []string
	clitest.OnFolder(t, data, func(b storage.Bucket) { all = clitest.Keys(t, b, "") })
	kinds := map[storage.ObjectKind]bool{}
	for _, key := range all {
		name, err := storage.ParseKey(key)
		if err != nil {
			t.Error(err)
		}
		kinds[name.Kind] = true
		code, out, errOut := program.Output(t, "log", "dump", "--data", data, key)
		lines := bufio.NewScanner(strings.NewReader(out))
		lines.Buffer(nil, 1<<20)
		for n := 0; lines.Scan(); n++ {
			var line map[string]any
			err := json.Unmarshal(lines.Bytes(), &line)
			if n == 0 && (err != nil || line["object"] != string(name.Kind) || line["key"] != key) {
				t.Errorf("dump of %s begins with %.200s", key, lines.Text())
			}
			if !json.Valid(lines.Bytes()) {
				t.Errorf("dump of %s has the line %.200s", key, lines.Text())
			}
		}
		if code != 0 || out == "" {
			t.Errorf("dump of %s: exit %d, %s", key, code, errOut)
		}
	}
	for _, kind := range []storage.ObjectKind{
		storage.KindBatch, storage.KindSegment, storage.KindHead, storage.KindCheckpoint, storage.KindFormat, storage.KindIndex,
	} {
		if !kinds[kind] {
			t.Errorf("the server has left no %s; it left %v", kind, all)
		}
	}
	code, out, _ := program.Output(t, "log", "dump", "--data", data, "--conv", string(conv), "--from", "1", "--to", "2")
	if code != 0 || strings.Count(out, `"object":"batch"`) != 2 || !strings.Contains(out, `"seq":2,`) {
		t.Errorf("dump of batches 1 and 2: exit %d\n%s", code, out)
	}
}

// repairFolder deletes objects that repair restores, and then objects that it cannot restore.
func repairFolder(t *testing.T, data string, conv conversation.Key) {
	_, before, _ := program.Output(t, "log", "dump", "--data", data, "--agent", "assistant", "--id", "long")
	var pinned string
	clitest.OnFolder(t, data, func(b storage.Bucket) {
		if err := b.Delete(t.Context(), storage.HeadKey(conv)); err != nil {
			t.Fatal(err)
		}
		pinned = storage.LogKey(conv, 0)
		if err := b.Put(t.Context(), pinned, storage.Bytes([]byte("x"))); err != nil {
			t.Fatal(err)
		}
	})
	if code, out, _ := program.Output(t, "log", "dump", "--data", data, pinned); code != 1 || !strings.Contains(out, `"bytes":1`) {
		t.Errorf("dump of a corrupt batch: exit %d\n%s", code, out)
	}
	for _, step := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"verify"}, exitRepairable, []string{"repairable lost-head at " + storage.HeadKey(conv), "repairable unreadable-batch at " + pinned, "2 repairable"}},
		{[]string{"verify", "--json"}, exitRepairable, []string{`"kind":"lost-head"`, `{"summary":{"conversations":2,`}},
		{[]string{"repair"}, exitRepairable, []string{"planned: write " + pinned + " again", ", 2 to be repaired with --write"}},
		{[]string{"repair", "--write"}, 0, []string{"done: write " + storage.HeadKey(conv), "done: write " + pinned, ", 2 repaired"}},
		{[]string{"verify"}, 0, []string{"0 repairable"}},
		{[]string{"repair"}, 0, []string{", nothing to repair"}},
		{[]string{"repair", "--write", "--agent", "assistant", "--id", "long"}, 0, []string{"1 conversation,"}},
	} {
		code, out, errOut := program.Output(t, append([]string{"log", step.args[0], "--data", data}, step.args[1:]...)...)
		for _, want := range step.want {
			if code != step.code || !strings.Contains(out, want) {
				t.Errorf("%v: exit %d, want %d and %q\n%s%s", step.args, code, step.code, want, out, errOut)
			}
		}
	}
	if _, after, _ := program.Output(t, "log", "dump", "--data", data, "--agent", "assistant", "--id", "long"); after != before || before == "" {
		t.Errorf("the log is\n%s\nit was\n%s", after, before)
	}
	clitest.OnFolder(t, data, func(b storage.Bucket) {
		keys := clitest.Keys(t, b, storage.FolderOf(conv)+"log/")
		if err := b.Put(t.Context(), keys[len(keys)-1], storage.Bytes([]byte("x"))); err != nil {
			t.Fatal(err)
		}
	})
	for _, command := range []string{"verify", "repair"} {
		if code, out, _ := program.Output(t, "log", command, "--data", data); code != exitCorruption || !strings.Contains(out, "damage unreadable-batch at ") ||
			!strings.Contains(out, "\n  conversation \"long\" of agent \"assistant\"\n") {
			t.Errorf("%s of a corrupt log: exit %d\n%s", command, code, out)
		}
	}
}

func TestLogMistakesNameRemedy(t *testing.T) {
	data := t.TempDir()
	n := program.StartDev(t, data)
	if err := os.Remove(filepath.Join(data, "read.address")); err != nil { // simulates a server without a socket
		t.Fatal(err)
	}
	for _, args := range [][]string{{"log", "verify"}, {"log", "repair"}, {"log", "dump", "format.json"}} {
		code, _, errOut := program.Output(t, append(args, "--data", data)...)
		if code != cli.ExitRefused || !strings.Contains(errOut, "stop that process") || !strings.Contains(errOut, "no process serves the data folder to readers") {
			t.Errorf("%v next to a server without a socket: got exit %d, %q; want %d and the reason", args, code, errOut, cli.ExitRefused)
		}
	}
	if err := n.End(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no folder":        {[]string{"verify", "--data", data + "/none"}, cli.ExitUnknown, "name an existing one"},
		"no conversation":  {[]string{"verify", "--data", data, "--agent", "assistant", "--id", "x"}, cli.ExitUnknown, `no conversation "x" of agent "assistant"`},
		"repair of none":   {[]string{"repair", "--data", data, "--agent", "assistant", "--id", "x"}, cli.ExitUnknown, `no conversation "x"`},
		"dump of none":     {[]string{"dump", "--data", data, "--agent", "assistant", "--id", "x"}, 1, `no conversation "x"`},
		"bad key":          {[]string{"verify", "--data", data, "--conv", "x"}, cli.ExitUsage, "32 hexadecimal digits"},
		"agent alone":      {[]string{"verify", "--data", data, "--agent", "x"}, cli.ExitUsage, "--id is missing"},
		"dump of nothing":  {[]string{"dump", "--data", data}, cli.ExitUsage, "takes one object key"},
		"dump of too much": {[]string{"dump", "--data", data, "format.json", "--agent", "a", "--id", "x"}, cli.ExitUsage, "takes one object key"},
		"unknown key":      {[]string{"dump", "--data", data, "nothing"}, 1, "is not an object key; keys are"},
		"missing object":   {[]string{"dump", "--data", data, "members/" + fmt.Sprintf("%016d", 9)}, 1, "not found"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, errOut := program.Output(t, append([]string{"log"}, tt.args...)...)
			if code != tt.code || !strings.Contains(errOut, tt.want) {
				t.Errorf("exit %d, %q; want exit %d and %q", code, errOut, tt.code, tt.want)
			}
		})
	}
}

// TestLogTruncate truncates the corrupt end of a log, first as a plan, and continues the log.
func TestLogTruncate(t *testing.T) {
	data := t.TempDir()
	n := program.StartDev(t, data)
	program.Output(t, "send", n.Base+"/c", "hello")
	if err := n.End(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	conv := conversation.Address{Agent: "assistant", ID: "c"}.Key()
	clitest.OnFolder(t, data, func(b storage.Bucket) {
		logs := clitest.Keys(t, b, storage.FolderOf(conv)+"log/")
		if err := b.Put(t.Context(), logs[len(logs)-1], storage.Bytes([]byte("damage"))); err != nil {
			t.Fatal(err)
		}
	})
	cut := func(args ...string) (int, string) {
		t.Helper()
		code, out, errOut := program.Output(t, append([]string{"log", "repair", "--data", data, "--truncate"}, args...)...)
		return code, out + errOut
	}
	for _, command := range []string{"verify", "repair"} {
		code, out, _ := program.Output(t, "log", command, "--data", data, "--conv", string(conv))
		if want := "parley log repair --truncate --conversation " + string(conv); code != exitCorruption || !strings.Contains(out, want) {
			t.Errorf("log %s of a corrupt log: exit %d, %s; want exit %d and %q", command, code, out, exitCorruption, want)
		}
	}
	if code, out := cut(); code != cli.ExitUsage || !strings.Contains(out, "one conversation") {
		t.Errorf("without a conversation: exit %d\n%s", code, out)
	}
	of := []string{"--agent", "assistant", "--id", "c"}
	if code, out := cut(of...); code != exitRepairable || !strings.Contains(out, "lost batch") || !strings.Contains(out, "nothing was changed") {
		t.Errorf("plan: exit %d\n%s", code, out)
	}
	run := func(desc string) {
		t.Helper()
		if code, out, errOut := program.Output(t, append([]string{"log", "quarantine", "--data", data, desc}, of...)...); code != 0 {
			t.Errorf("%s: exit %d\n%s%s", desc, code, out, errOut)
		}
	}
	run("--set")
	if code, out := cut(append(of, "--write")...); code != 0 || !strings.Contains(out, "truncated and kept under") || !strings.Contains(out, "is released") {
		t.Errorf("cut: exit %d\n%s", code, out)
	}
	run("--set")
	if code, out := cut(of...); code != 0 || !strings.Contains(out, "nothing to truncate") || !strings.Contains(out, "still quarantined") {
		t.Errorf("once more: exit %d\n%s", code, out)
	}
	code, out, errOut := program.Output(t, append([]string{"log", "repair", "--data", data, "--write"}, of...)...)
	if code != 0 || !strings.Contains(out, "still quarantined") {
		t.Errorf("repair of an intact log: exit %d\n%s%s", code, out, errOut)
	}
	run("--release")
	if code, out, errOut := program.Output(t, "log", "verify", "--data", data); code != 0 {
		t.Errorf("verify: exit %d\n%s%s", code, out, errOut)
	}
	n = program.StartDev(t, data)
	if code, out, errOut := program.Output(t, "send", n.Base+"/c", "hello again"); code != 0 {
		t.Errorf("send after the cut: exit %d\n%s%s", code, out, errOut)
	}
}
