package local

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// Exit statuses of a child. 1 is the product's own, which logs the cause.
const (
	statusFatal   = 1
	statusNotOpen = 3 // The store did not open.
	statusOrphan  = 4 // The parent has exited.
	statusPower   = 9 // Simulated power loss.
	statusKilled  = -1
)

// cycleEnv holds the cycle of a child as JSON.
const cycleEnv = "PARLEY_LOCAL_TEST_CYCLE"

// crashChild runs a cycle in its own process. It writes the history to standard output, line by line,
// and does not return.
func crashChild() {
	var c cycle
	if err := json.Unmarshal([]byte(os.Getenv(cycleEnv)), &c); err != nil {
		panic(err)
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(statusOrphan)
	}()
	ctx, cancel := context.WithCancel(context.Background())
	r := &recorder{cancel: cancel, sink: func(e event) {
		line, err := json.Marshal(e)
		if err == nil {
			// One call, so that a kill cannot split a line.
			_, err = os.Stdout.Write(append(line, '\n'))
		}
		if err != nil {
			panic(err)
		}
	}}
	var fs vfs.FS = vfs.Default
	var opened, fatal atomic.Bool
	opts := &Options{}
	dir := os.Getenv("PARLEY_LOCAL_TEST_DIR")
	folder := dir
	if c.End == endPower {
		disk := diskFrom(folder)
		fs, dir = disk, testDir
		r.limit, r.crash = c.Limit, func() { c.losePower(disk, folder+"-after") }
		opts.Fatal = func(err error) {
			fatal.Store(true)
			r.end()
			exit(err)
		}
		go func() {
			<-ctx.Done()
			if !fatal.Load() {
				os.Exit(statusPower)
			}
		}()
	}
	if _, err := c.perform(ctx, errorfs.Wrap(fs, c.injector(r, &opened)), dir, opts, r, &opened); err != nil {
		fatal.Store(true)
		r.end()
		fmt.Fprintln(os.Stderr, err)
		os.Exit(statusNotOpen)
	}
	if c.End == endPower {
		r.end()
	}
	select {}
}

// diskFrom returns a disk in memory with the content of a folder.
func diskFrom(folder string) *crashDisk {
	disk := &crashDisk{MemFS: vfs.NewCrashableMem()}
	if err := mkdirSynced(disk, testDir); err != nil {
		panic(err)
	}
	if _, err := vfs.Clone(vfs.Default, disk, folder, testDir, vfs.CloneSync); err != nil {
		panic(err)
	}
	return disk
}

// after returns the disk after a power loss at this moment.
func (c cycle) after(disk *crashDisk) *crashDisk {
	return disk.clone(vfs.CrashCloneCfg{
		UnsyncedDataPercent: c.Lost,
		RNG:                 rand.New(rand.NewPCG(c.Seed, uint64(c.Number))),
	})
}

func (c cycle) losePower(disk *crashDisk, folder string) {
	if _, err := vfs.Clone(c.after(disk), vfs.Default, testDir, folder); err != nil {
		panic(err)
	}
}

// exitResult is the result of a cycle.
type exitResult struct {
	history []event
	status  int
	stderr  string
}

// inChild runs a cycle in a child process and waits for its end.
func (c cycle) inChild(t *testing.T, dir string) exitResult {
	t.Helper()
	plan, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"=crash", "PARLEY_LOCAL_TEST_DIR="+dir, cycleEnv+"="+string(plan))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var d exitResult
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Errorf("line %q: %v", lines.Bytes(), err)
		}
		if d.history = append(d.history, e); c.End == endKill && len(d.history) == c.Limit {
			if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Error(err)
			}
		}
	}
	var status *exec.ExitError
	if err := errors.Join(lines.Err(), cmd.Wait()); err != nil && !errors.As(err, &status) {
		t.Fatal(err)
	}
	d.status, d.stderr = cmd.ProcessState.ExitCode(), stderr.String()
	return d
}

// inProcess runs a cycle on a disk in memory and returns the disk after the power loss.
func (c cycle) inProcess(t *testing.T, disk *crashDisk) (exitResult, *crashDisk) {
	t.Helper()
	d := exitResult{status: statusPower}
	var after *crashDisk
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := &recorder{
		limit: c.Limit, cancel: cancel,
		sink:  func(e event) { d.history = append(d.history, e) },
		crash: func() { after = c.after(disk) },
	}
	var calls atomic.Int64
	anything := faults()["anything"].match
	fs := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if anything(op) && calls.Add(1) == int64(c.Calls) {
			r.end()
		}
		return nil
	}))
	var opened atomic.Bool
	s, err := c.perform(ctx, fs, testDir, &Options{Fatal: func(err error) { t.Error(err) }}, r, &opened)
	if err != nil {
		t.Fatal(err)
	}
	r.end()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return d, after
}
