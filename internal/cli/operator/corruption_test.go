package operator

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/inspect"
	"github.com/parleyrun/parley/storage/local"
)

var (
	corruptions    = flag.Int("corruptions", sample.Of(16, 4), "corrupt so many folders, by seeds from -corruptionseed on")
	corruptionSeed = flag.Uint64("corruptionseed", 0, "the first seed")
)

// folderAge is a data folder and its content.
type folderAge struct {
	name, dir string
	// objects maps the key of each object to its digest.
	objects map[string]string
	// conversations is their number.
	conversations int64
	// unproved marks a folder in which nothing proves where its logs end.
	unproved bool
}

// TestRandomCorruption corrupts a random file of a folder, with one seed per case and folders in every
// state. Commands that read detect it or read the former content, and never change a byte. A store or
// a node that refuses the folder does not change it either. One that opens it loses nothing without
// reporting it.
func TestRandomCorruption(t *testing.T) {
	ages := foldersOfAllAges(t)
	counts := map[string]int{}
	for i := range *corruptions {
		seed := *corruptionSeed + uint64(i)
		r := rand.New(rand.NewPCG(seed, 41))
		age := ages[r.IntN(len(ages))]
		c := &corruption{t: t, seed: seed, age: age, dir: filepath.Join(t.TempDir(), "d")}
		if err := os.CopyFS(c.dir, os.DirFS(age.dir)); err != nil {
			t.Fatal(err)
		}
		c.desc = c.corrupt(r)
		outcome := c.check(seed%8 == 0)
		counts[outcome]++
		counts[outcome+", "+age.name]++
		t.Logf("seed %d: %s: %s: %s", seed, age.name, c.desc, outcome)
		if err := os.RemoveAll(filepath.Dir(c.dir)); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	for _, outcome := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%4d %s", counts[outcome], outcome)
	}
}

// foldersOfAllAges returns folders that a node has used, one per history.
func foldersOfAllAges(t *testing.T) (ages []folderAge) {
	data, number := filepath.Join(t.TempDir(), "d"), 0
	keep := func(name string) *folderAge {
		dir := filepath.Join(t.TempDir(), "d")
		if err := os.CopyFS(dir, os.DirFS(data)); err != nil {
			t.Fatal(err)
		}
		a := folderAge{name: name, dir: dir}
		a.objects = mustRead(t, dir)
		ages = append(ages, a)
		return &ages[len(ages)-1]
	}
	serve := func(sizes ...int) *clitest.Node {
		n := program.StartDev(t, data)
		for _, size := range sizes {
			send(t, n, fmt.Sprintf("c%d", number), size)
			number++
		}
		return n
	}
	end := func(n *clitest.Node) {
		if err := n.End(syscall.SIGTERM); err != nil {
			t.Fatalf("SIGTERM: %v\n%s", err, n.Logs)
		}
	}
	end(serve(10))
	keep("one start")
	end(serve())
	keep("two starts")
	serve(10).Kill()
	keep("killed")
	end(serve(300<<10, 10)) // A large message is stored as a file of its own.
	keep("restarted after a kill")
	for range 5 {
		end(serve(10))
	}
	keep("many starts")
	n := serve(slices.Repeat([]int{250 << 10}, 20)...) // The messages exceed one log file.
	n.Kill()
	keep("killed with many logs")
	end(serve())
	keep("much compacted")
	extents, err := filepath.Glob(filepath.Join(data, "db", "synced.*"))
	if err != nil || len(extents) == 0 {
		t.Fatal(extents, err)
	}
	for _, path := range extents {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	keep("of an earlier version").unproved = true
	for i := range ages {
		sum, err := verified(t.Context(), ages[i].dir, local.OpenReadOnly)
		if err != nil || sum.Corruption > 0 {
			t.Fatalf("%s: %+v, %v", ages[i].name, sum, err)
		}
		ages[i].conversations = sum.Conversations
	}
	return ages
}

// send sends a message with random pictures to a conversation and waits for the settlement. A size
// above 256 KiB is one picture, a smaller one is split into eight.
func send(t *testing.T, n *clitest.Node, id string, size int) {
	t.Helper()
	args, pictures := []string{"send"}, 8
	if size > 256<<10 {
		pictures = 1
	}
	for i := range pictures {
		picture := append([]byte("\x89PNG\r\n\x1a\n"), clitest.Photo(size/pictures)...)
		picture = fmt.Append(picture, id, i) // Every picture is unique.
		args = append(args, "--attach", clitest.Write(t, filepath.Join(t.TempDir(), "a.png"), string(picture)))
	}
	if code, out, errOut := program.Output(t, append(args, n.Base+"/"+id, "hello")...); code != 0 {
		t.Fatalf("message of %d bytes: exit %d, %q, %q", size, code, out, errOut)
	}
}

// opening is local.Open or local.OpenReadOnly.
type opening func(string, *local.Options) (*local.Store, error)

// on opens a store while use runs.
func on(dir string, open opening, use func(*local.Store) error) error {
	store, err := open(dir, &local.Options{Fatal: func(error) {}})
	if err != nil {
		return err
	}
	return errors.Join(use(store), store.Close())
}

// readAll returns the digests of all objects.
func readAll(ctx context.Context, store *local.Store) (map[string]string, error) {
	all := map[string]string{}
	for q := (storage.ListQuery{}); ; {
		page, err := store.List(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, k := range page.Keys {
			body, err := store.Get(ctx, k.Key)
			if err != nil {
				return nil, err
			}
			all[k.Key] = fmt.Sprintf("%x", sha256.Sum256(body))
			q.After = k.Key
		}
		if !page.More {
			return all, nil
		}
	}
}

func mustRead(t *testing.T, dir string) (all map[string]string) {
	t.Helper()
	err := on(dir, local.OpenReadOnly, func(s *local.Store) (err error) {
		all, err = readAll(t.Context(), s)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// verified runs the checks of package inspect on a folder.
func verified(ctx context.Context, dir string, open opening) (sum inspect.Summary, err error) {
	err = on(dir, open, func(s *local.Store) (err error) {
		sum, err = inspect.Verify(ctx, s, inspect.Scope{}, nil, func(inspect.Finding) {})
		return err
	})
	return sum, err
}

// corruption is one change of a folder.
type corruption struct {
	t         *testing.T
	seed      uint64
	age       folderAge
	dir, desc string
}

func (c *corruption) errorf(format string, args ...any) {
	c.t.Helper()
	c.t.Errorf("seed %d: %s: %s: %s; run it again with -corruptions 1 -corruptionseed %d",
		c.seed, c.age.name, c.desc, fmt.Sprintf(format, args...), c.seed)
}

// corrupt changes a file of the store and returns a description.
func (c *corruption) corrupt(r *rand.Rand) string {
	// Each kind of file has the same probability, regardless of its number.
	kinds := map[string][]string{}
	err := filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			kind, _, _ := strings.Cut(d.Name(), "-")
			if kind == d.Name() {
				kind = filepath.Base(filepath.Dir(path)) + filepath.Ext(path)
			}
			kinds[kind] = append(kinds[kind], path)
		}
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	names := slices.Sorted(maps.Keys(kinds))
	files := kinds[names[r.IntN(len(names))]]
	path := files[r.IntN(len(files))]
	whole, err := os.ReadFile(path)
	if err != nil {
		c.t.Fatal(err)
	}
	name, _ := filepath.Rel(c.dir, path)
	how, now := "lost", whole
	at := 0
	if len(whole) > 0 {
		at = r.IntN(len(whole))
	}
	changes := 8
	if c.age.unproved && strings.HasSuffix(name, ".log") {
		changes = 3
	}
	switch kind := r.IntN(changes); {
	case kind <= 2 && len(whole) > 0:
		bit := r.IntN(8)
		how, now = fmt.Sprintf("bit %d of byte %d of %d", bit, at, len(whole)), slices.Clone(whole)
		now[at] ^= 1 << bit
	case kind == 3 && len(whole) > 0:
		how, now = fmt.Sprintf("zeros from byte %d of %d", at, len(whole)), slices.Clone(whole)
		clear(now[at:min(at+512, len(now))])
	case kind == 4 && len(whole) > 0:
		how, now = fmt.Sprintf("truncated to %d of %d", at, len(whole)), whole[:at]
	case kind == 5:
		how, now = "empty", nil
	case kind == 6:
		how, now = fmt.Sprintf("more bytes after %d", len(whole)), append(slices.Clone(whole), make([]byte, 1+r.IntN(100))...)
		now[len(now)-1] = byte(r.Uint32())
	}
	if err := os.Remove(path); err != nil {
		c.t.Fatal(err)
	}
	switch {
	case how != "lost":
		clitest.Write(c.t, path, string(now))
	case r.IntN(2) == 0:
		how = "a folder"
		if err := os.Mkdir(path, 0o700); err != nil {
			c.t.Fatal(err)
		}
	}
	return name + ": " + how
}

// check opens a corrupt folder in every way and returns the outcome: found or harmless.
func (c *corruption) check(node bool) string {
	before := c.bytes(c.dir)
	code, out, errOut := program.Output(c.t, "log", "verify", "--data", c.dir)
	c.unchanged("log verify", c.dir, before)
	found := code != 0
	if found && code != exitCorruption && !strings.Contains(errOut, "restore") {
		c.errorf("log verify: got exit %d and %q, %q; want the remedy", code, out, errOut)
	}
	if !found {
		c.wantAll("log verify", out)
	}
	found = c.read("a store for reading", local.OpenReadOnly) || found
	c.unchanged("a store for reading", c.dir, before)
	if node {
		c.serve(before)
	}
	found = c.read("a store", local.Open) || found
	found = c.read("a store after that", local.OpenReadOnly) || found
	if found {
		return "found"
	}
	return "harmless"
}

// wantAll requires all conversations in the output of a clean verification.
func (c *corruption) wantAll(how, out string) {
	if want := fmt.Sprintf(": %d conversation", c.age.conversations); !strings.Contains(out, want) {
		c.errorf("%s: got %q, want %q", how, out, want)
	}
}

// read reads a store and reports whether the corruption was detected. Otherwise it requires the former
// content. A folder that the store refuses must not change.
func (c *corruption) read(how string, open opening) bool {
	before, opened := c.bytes(c.dir), false
	var sum inspect.Summary
	err := on(c.dir, open, func(s *local.Store) error {
		opened = true
		now, err := readAll(c.t.Context(), s)
		if err != nil {
			return err
		}
		if sum, err = inspect.Verify(c.t.Context(), s, inspect.Scope{}, nil, func(inspect.Finding) {}); err != nil {
			return err
		}
		if sum.Corruption == 0 && (sum.Conversations != c.age.conversations || !maps.Equal(now, c.age.objects)) {
			c.errorf("%s: got %d conversations and %d objects, want %d and %d, or an error", how, sum.Conversations, len(now), c.age.conversations, len(c.age.objects))
		}
		return nil
	})
	if !opened {
		c.unchanged(how+" that refuses the folder", c.dir, before)
	}
	return err != nil || sum.Corruption > 0
}

// serve starts a node on a copy of the folder. Either it ends with the remedy and does not change the
// folder, or it serves until it is stopped. Then every missing conversation must be reported.
func (c *corruption) serve(before map[string]string) {
	dir := filepath.Join(filepath.Dir(c.dir), "node")
	if err := os.CopyFS(dir, os.DirFS(c.dir)); err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), clitest.Timeout)
	defer cancel()
	ready := false
	var errOut bytes.Buffer
	code := program.Run(ctx, []string{"dev", "--listen", "127.0.0.1:0", "--data", dir}, clitest.WriterFunc(func(p []byte) (int, error) {
		if bytes.Contains(p, []byte("Press Ctrl-C to stop.")) {
			ready = true
			cancel()
		}
		return len(p), nil
	}), &errOut)
	if !ready {
		if code == 0 || !strings.Contains(errOut.String(), "restore") {
			c.errorf("dev: got exit %d, %q; want a refusal with the remedy", code, errOut.String())
		}
		c.unchanged("dev", dir, before)
		return
	}
	if code, out, _ := program.Output(c.t, "log", "verify", "--data", dir); code == 0 {
		c.wantAll("log verify after dev", out)
	}
}

// bytes reads a folder, except the content of its lock.
func (c *corruption) bytes(dir string) map[string]string {
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		switch {
		case err != nil || d.Name() == "LOCK":
			return err
		case d.IsDir():
			all[name] = "folder"
			return nil
		}
		body, err := os.ReadFile(path)
		all[name] = fmt.Sprintf("%x", sha256.Sum256(body))
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return all
}

func (c *corruption) unchanged(how, dir string, before map[string]string) {
	c.t.Helper()
	if now := c.bytes(dir); !maps.Equal(before, now) {
		c.errorf("%s changed the folder: got %q, want %q", how, now, before)
	}
}
