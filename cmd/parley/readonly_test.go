package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/waiting"
	"github.com/parleyrun/parley/storage"
)

// folderWriters maps the commands with --data that write to the folder to the reason.
var folderWriters = map[string]string{
	"chat": "serves", "dev": "serves", "run": "serves", "serve": "serves",
	"send":          "its --data is the initial data of a conversation",
	"bucket check":  "stores objects to measure, and removes them",
	"import flue":   "stores conversations",
	"outbox drop":   "deletes letters",
	"outbox resend": "deletes the letters of what it sent",
}

// folderReaders maps the commands with --data that do not change the folder to the arguments of each
// run.
func folderReaders(key, conv string) map[string][][]string {
	return map[string][][]string{
		"log verify":     {{}, {"--json"}, {"--agent", "assistant", "--id", "c0"}},
		"log dump":       {{key}, {"format.json"}, {"no/such/key"}, {"--conv", conv}},
		"log repair":     {{}, {"--json"}, {"--conv", conv}, {"--conv", conv, "--truncate"}},
		"log quarantine": {{}, {"--conv", conv}},
		"outbox list":    {{}, {"--json"}},
		"events replay":  {{"--dry-run"}, {"--to", "stdout"}},
		"trace":          {{}},
		"stats":          {{}},
	}
}

// Every command with --data is in one of the two tables.
func TestEveryCommandWithAFolderIsKnown(t *testing.T) {
	readers := folderReaders("", "")
	for _, name := range leaves(program.Root()) {
		cmd, _, err := program.Root().Find(strings.Fields(name))
		if err != nil {
			t.Fatal(err)
		}
		_, reads := readers[name]
		_, writes := folderWriters[name]
		if has := cmd.Flags().Lookup("data") != nil; has != (reads || writes) || reads && writes {
			t.Errorf("parley %s: got --data %t, reads %t, writes %t; want it in folderReaders or in folderWriters if it has --data", name, has, reads, writes)
		}
	}
}

// snapshot returns digest, mode and modification time of every file in a folder.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var body []byte
		if !d.IsDir() {
			if body, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		changed := info.ModTime().String()
		if d.Name() == "LOCK" {
			changed = "" // Locking changes it.
		}
		all[path] = fmt.Sprintf("%x %s %s", sha256.Sum256(body), info.Mode(), changed)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Each command that reads runs on a closed folder, one of a killed node, one without its empty files,
// and one with a truncated manifest. None changes a byte or a name.
func TestCommandsThatReadChangeNoByte(t *testing.T) {
	data := filepath.Join(t.TempDir(), "closed")
	n := program.StartDev(t, data)
	send := func(id string) {
		if code, out, errOut := program.Output(t, "send", n.Base+"/"+id, "hello"); code != 0 {
			t.Fatalf("send: exit %d, %q, %q", code, out, errOut)
		}
	}
	send("c0")
	n.Kill()
	killed := copyFolder(t, data)
	n = program.StartDev(t, data)
	send("c1")
	if err := n.End(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	n = program.StartDev(t, data)
	if err := n.End(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	unlocked, corrupt := copyFolder(t, data), copyFolder(t, data)
	if err := os.Remove(filepath.Join(unlocked, "db", "LOCK")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(unlocked, "tmp")); err != nil {
		t.Fatal(err)
	}
	manifests, err := filepath.Glob(filepath.Join(corrupt, "db", "MANIFEST-*"))
	if err != nil || len(manifests) == 0 {
		t.Fatal(manifests, err)
	}
	for _, path := range manifests {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)-1] ^= 1
		clitest.Write(t, path, string(b))
	}
	conv := conversation.Address{Agent: "assistant", ID: "c0"}.Key()
	for age, dir := range map[string]string{"closed": data, "killed": killed, "without LOCK": unlocked, "damaged": corrupt} {
		before := snapshot(t, dir)
		for name, runs := range folderReaders(storage.LogKey(conv, 0), string(conv)) {
			for _, args := range runs {
				args = append(append(strings.Fields(name), args...), "--data", dir)
				code, out, errOut := program.Output(t, args...)
				opensStore := name != "trace" && name != "stats"
				if age == "damaged" && opensStore && (code == 0 || !strings.Contains(errOut, "restore the whole folder from a backup")) {
					t.Errorf("%s: %q: got exit %d, %q%q; want a refusal with the remedy", age, args, code, out, errOut)
				}
				if age != "damaged" && name == "log verify" && (code != 0 || !strings.Contains(out, `conversation`)) {
					t.Errorf("%s: %q: got exit %d, %q, %q; want 0", age, args, code, out, errOut)
				}
				if after := snapshot(t, dir); !maps.Equal(before, after) {
					t.Fatalf("%s: %q changed the folder: got %v, want %v", age, args, after, before)
				}
			}
		}
	}
	for serves, args := range map[string][]string{"dev": {"--listen", "127.0.0.1:0"}, "serve": {"--config", clitest.EchoConfig(t, t.TempDir())}} {
		before := snapshot(t, corrupt)
		if code, out, errOut := program.Output(t, append([]string{serves, "--data", corrupt}, args...)...); code == 0 || !strings.Contains(errOut, "restore the whole folder from a backup") {
			t.Errorf("%s: got exit %d, %q, %q; want a refusal with the remedy", serves, code, out, errOut)
		}
		if after := snapshot(t, corrupt); !maps.Equal(before, after) {
			t.Errorf("%s changed the folder: got %v, want %v", serves, after, before)
		}
	}
}

// Each command that reads runs next to a node under load, after kills of the node, and next to a node
// that was restarted after a kill. No command is rejected, and none reports work in progress as
// corruption. Commands that write are rejected.
func TestCommandsThatReadNextToAServer(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	address := filepath.Join(data, "read.address")
	conv := conversation.Address{Agent: "assistant", ID: "c0"}.Key()
	for range 2 {
		n := program.StartDev(t, data)
		if code, out, errOut := program.Output(t, "send", n.Base+"/c0", "hello"); code != 0 {
			t.Fatalf("send: exit %d, %q, %q", code, out, errOut)
		}
		stop := load(t, n.Base)
		waiting.Until(t, "the first events", func() bool {
			code, _, _ := program.Output(t, "trace", "--data", data)
			return code == 0
		})
		for range 2 {
			for name, runs := range folderReaders("format.json", string(conv)) {
				for _, args := range runs {
					args = append(append(strings.Fields(name), args...), "--data", data)
					code, out, errOut := program.Output(t, args...)
					absent := slices.Contains(args, "no/such/key")
					if (code == 0) == absent || strings.Contains(errOut, "in use") {
						t.Errorf("%q next to a node: got exit %d, %q, %q; want the output for a closed folder", args, code, out, errOut)
					}
				}
			}
		}
		stop()
		refuseWriters(t, data)
		n.Kill()
		if _, err := os.Stat(address); err != nil {
			t.Errorf("after a kill: %v, want the address of the socket to be left", err)
		}
		if code, out, errOut := program.Output(t, "log", "verify", "--data", data); code != 0 {
			t.Errorf("log verify after a kill: got exit %d, %q, %q; want 0", code, out, errOut)
		}
	}
	n := program.StartDev(t, data)
	if err := n.End(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(address); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stat %s after SIGTERM: got %v, want that it is gone", address, err)
	}
}

// maxLoad bounds the messages of each sender of load, so that commands that read everything end on a
// slow machine.
const maxLoad = 60

// load sends messages to conversations concurrently until it is stopped.
func load(t *testing.T, base string) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var senders sync.WaitGroup
	for i := range 4 {
		senders.Go(func() {
			for n := 0; n < maxLoad && ctx.Err() == nil; n++ {
				id := fmt.Sprintf("c%d-%d", i, n/8) // Some conversations are short, and new ones begin.
				if code := program.Run(ctx, []string{"send", base + "/" + id, "hello"}, io.Discard, io.Discard); code != 0 && ctx.Err() == nil {
					t.Errorf("send to %s: exit %d", id, code)
				}
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); senders.Wait() })
	t.Cleanup(stop)
	return stop
}

// refuseWriters requires that commands that write to a served folder are rejected.
func refuseWriters(t *testing.T, data string) {
	t.Helper()
	for _, args := range [][]string{
		{"log", "repair", "--write"}, {"log", "quarantine", "--set", "--agent", "assistant", "--id", "c0"},
		{"outbox", "drop", "--all"}, {"bucket", "check"}, {"dev", "--listen", "127.0.0.1:0"},
	} {
		args = append(args, "--data", data)
		code, out, errOut := program.Output(t, args...)
		if code != cli.ExitRefused || !strings.Contains(errOut, "stop that process") || !strings.Contains(errOut, "over HTTP") {
			t.Errorf("%q next to a node: got exit %d, %q, %q; want %d and the remedies", args, code, out, errOut, cli.ExitRefused)
		}
	}
}

// copyFolder copies a folder into a temporary one.
func copyFolder(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}
