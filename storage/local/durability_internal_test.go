package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/storage"
)

const testDir = "/data"

// openTest opens a store on a file system of the test.
func openTest(t *testing.T, fs vfs.FS, opts *Options) *Store {
	t.Helper()
	if err := mkdirSynced(fs, testDir); err != nil {
		t.Fatal(err)
	}
	s, err := openStore(fs, testDir, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustPut(t *testing.T, s *Store, key string, body []byte) {
	t.Helper()
	if err := s.Put(t.Context(), key, storage.Bytes(body)); err != nil {
		t.Fatal(err)
	}
}

// isLogSync selects the syncs of the engine's write-ahead log.
func isLogSync(op errorfs.Op) bool {
	switch op.Kind {
	case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
		return strings.HasSuffix(op.Path, ".log")
	}
	return false
}

// stalling is a disk in memory. While it is armed, a sync of the log blocks until release.
func stalling(armed *atomic.Bool, release <-chan struct{}) vfs.FS {
	return errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if armed.Load() && isLogSync(op) {
			<-release
		}
		return nil
	}))
}

// TestWriteOutlivesItsCaller checks that callers wait no longer than their context, while the store
// completes its commit.
func TestWriteOutlivesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var armed atomic.Bool
		release := make(chan struct{})
		s := openTest(t, stalling(&armed, release), nil)
		armed.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := s.Create(ctx, "k", storage.Bytes([]byte("x")))
		if !errors.Is(err, storage.ErrUncertain) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("create: %v", err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got, err := s.Get(short, "k"); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("get of an unsynced object: got %q, %v", got, err)
		}
		if page, err := s.List(short, storage.ListQuery{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("list of an unsynced object: got %v, %v", page, err)
		}
		close(release)
		synctest.Wait()
		if got, err := s.Get(t.Context(), "k"); err != nil || string(got) != "x" {
			t.Errorf("get: %q, %v", got, err)
		}
		if err := s.Create(t.Context(), "k", storage.Bytes([]byte("y"))); !errors.Is(err, storage.ErrExists) {
			t.Errorf("create again: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := s.Get(t.Context(), "k"); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("get after close: %v", err)
		}
		if err := s.Create(t.Context(), "l", storage.Bytes([]byte("z"))); !errors.Is(err, storage.ErrUncertain) {
			t.Errorf("create after close: %v", err)
		}
	})
}

// TestFailureAfterTheCallerLeft checks that the operator still gets the error.
func TestFailureAfterTheCallerLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var armed atomic.Bool
		release := make(chan struct{})
		var log bytes.Buffer
		s := openTest(t, errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if armed.Load() && op.Kind == errorfs.OpCreate && strings.Contains(op.Path, "/tmp/") {
				<-release
				return errors.New("the disk is bad")
			}
			return nil
		})), &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		armed.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := s.Put(ctx, "k", storage.Bytes(bytes.Repeat([]byte("x"), 300<<10)))
		if !errors.Is(err, storage.ErrUncertain) || strings.Contains(err.Error(), "bad") {
			t.Errorf("put: %v", err)
		}
		close(release)
		synctest.Wait()
		if !strings.Contains(log.String(), "the disk is bad") || !strings.Contains(log.String(), "key=k") {
			t.Errorf("got log %q", &log)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestStalledSync stalls the sync of a commit. Until it completes, reads and lists must not see the
// change. In the bubble, Wait returns when every request is blocked or answered.
func TestStalledSync(t *testing.T) {
	for name, tt := range map[string]struct {
		write func(context.Context, *Store) error
		after string
	}{
		"put":    {func(ctx context.Context, s *Store) error { return s.Put(ctx, "a/k", storage.Bytes([]byte("new"))) }, "new"},
		"delete": {func(ctx context.Context, s *Store) error { return s.Delete(ctx, "a/k") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stalledSync(t, tt.write, tt.after)
			})
		})
	}
}

func stalledSync(t *testing.T, do func(context.Context, *Store) error, after string) {
	var armed atomic.Bool
	release := make(chan struct{})
	s := openTest(t, stalling(&armed, release), nil)
	for _, key := range []string{"a/0", "a/1", "a/k", "b/other"} {
		mustPut(t, s, key, []byte("old"))
	}
	armed.Store(true)
	write := start("write", func() (string, error) { return "", do(t.Context(), s) })
	if write.answered() {
		t.Fatal("write returned before its sync")
	}
	// Precondition: the engine shows the change already.
	o, err := s.engine.(*pebbleEngine).lookup("a/k", true)
	if string(o.inline) != after || (err != nil) != (after == "") {
		t.Fatalf("the engine shows %q, %v", o.inline, err)
	}
	get := func(key string) *pending {
		return start("get "+key, func() (string, error) {
			body, err := s.Get(t.Context(), key)
			return string(body), err
		})
	}
	list := func(q storage.ListQuery) *pending {
		return start(fmt.Sprintf("list %+v", q), func() (string, error) {
			page, err := s.List(t.Context(), q)
			return fmt.Sprint(page), err
		})
	}
	blocked := []*pending{get("a/k"), start("open", func() (string, error) {
		r, _, err := s.Open(t.Context(), "a/k")
		if err == nil {
			err = r.Close()
		}
		return "", err
	})}
	for _, q := range []storage.ListQuery{{}, {Prefix: "a/"}, {Delimiter: "/"}, {Prefix: "a/", Limit: 2}} {
		blocked = append(blocked, list(q))
	}
	free := []*pending{get("b/other"), get("a/none")}
	for _, q := range []storage.ListQuery{{Prefix: "b/"}, {After: "a/k"}, {Limit: 1}} {
		free = append(free, list(q))
	}
	for _, p := range free {
		if !p.answered() {
			t.Errorf("%s waits", p.name)
		}
	}
	for _, p := range blocked {
		if p.answered() {
			t.Errorf("%s does not wait: %q, %v", p.name, p.got, p.err)
		}
	}
	close(release)
	if !write.answered() || write.err != nil {
		t.Errorf("write: %v", write.err)
	}
	for _, p := range blocked {
		if !p.answered() {
			t.Errorf("%s still waits", p.name)
		}
	}
	if got := blocked[0]; got.got != after || errors.Is(got.err, storage.ErrNotFound) != (after == "") {
		t.Errorf("get: %q, %v", got.got, got.err)
	}
	if all := blocked[2]; all.err != nil || strings.Contains(all.got, "a/k") != (after != "") {
		t.Errorf("list: %s, %v", all.got, all.err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// pending is a request in a bubble that may be blocked.
type pending struct {
	name string
	done atomic.Bool
	got  string
	err  error
}

func start(name string, act func() (string, error)) *pending {
	p := &pending{name: name}
	go func() {
		p.got, p.err = act()
		p.done.Store(true)
	}()
	return p
}

// answered reports whether p is answered once nothing in the bubble can proceed.
func (p *pending) answered() bool {
	synctest.Wait()
	return p.done.Load()
}

// TestCancelledRead checks that a waiting read ends with its context.
func TestCancelledRead(t *testing.T) {
	st := stripes{seed: maphash.MakeSeed()}
	c := st.of("k").begin("k")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := st.waitKey(ctx, "k"); !errors.Is(err, context.Canceled) {
		t.Errorf("wait: %v", err)
	}
	if err := st.waitRange(ctx, func(string) bool { return true }); !errors.Is(err, context.Canceled) {
		t.Errorf("wait: %v", err)
	}
	failed := errors.New("no disk")
	st.of("k").finish(c, failed)
	if err := st.waitKey(t.Context(), "k"); !errors.Is(err, failed) {
		t.Errorf("wait for a failed commit: %v", err)
	}
}

// TestFatalCommit makes a sync fail under concurrent writers. No write may be acknowledged, the hook
// runs once, reads fail afterwards, and the next start has every write that was acknowledged before.
func TestFatalCommit(t *testing.T) {
	disk := vfs.NewCrashableMem()
	var armed atomic.Bool
	noSpace := errors.New("no space left on device")
	fs := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if armed.Load() && isLogSync(op) {
			return noSpace
		}
		return nil
	}))
	var calls atomic.Int32
	var fatal error
	s := openTest(t, fs, &Options{Fatal: func(err error) {
		calls.Add(1)
		fatal = err
	}})
	mustPut(t, s, "before", []byte("kept"))
	armed.Store(true)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			size := 10
			if w%2 == 0 {
				size = defaultLargeObjectBytes + 1
			}
			if err := s.Create(t.Context(), fmt.Sprint(w), storage.Bytes(make([]byte, size))); !errors.Is(err, storage.ErrUncertain) {
				t.Errorf("create %d: %v", w, err)
			}
		})
	}
	wg.Wait()
	if n := calls.Load(); n != 1 {
		t.Fatalf("the hook ran %d times", n)
	}
	var fe *FatalError
	if !errors.As(fatal, &fe) || fe.Dir != testDir || !errors.Is(fatal, noSpace) {
		t.Errorf("fatal error: %#v", fatal)
	}
	for _, part := range []string{testDir, "no space left", "free space", "restart the process"} {
		if !strings.Contains(fatal.Error(), part) {
			t.Errorf("got message %q, want %q in it", fatal, part)
		}
	}
	for _, key := range []string{"before", "1"} {
		if _, err := s.Get(t.Context(), key); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("get %s after the failure: %v", key, err)
		}
	}
	if _, err := s.List(t.Context(), storage.ListQuery{}); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("list after the failure: %v", err)
	}
	armed.Store(false)
	after := openTest(t, disk.CrashClone(vfs.CrashCloneCfg{}), nil)
	if body, err := after.Get(t.Context(), "before"); err != nil || string(body) != "kept" {
		t.Errorf("after the next start: %q, %v", body, err)
	}
	if err := after.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); !errors.As(err, &fe) {
		t.Errorf("close: %v", err)
	}
}

// TestUploadError fails the steps before a large object's key is written: the request fails, the store
// continues, and no file remains.
func TestUploadError(t *testing.T) {
	for name, step := range map[string]errorfs.OpKind{
		"create":      errorfs.OpCreate,
		"write":       errorfs.OpFileWrite,
		"sync":        errorfs.OpFileSync,
		"link":        errorfs.OpLink,
		"sync folder": errorfs.OpOpenDir,
	} {
		t.Run(name, func(t *testing.T) {
			var armed atomic.Bool
			mem := vfs.NewMem()
			s := openTest(t, errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if armed.Load() && op.Kind == step && !strings.Contains(op.Path, "/db/") {
					return errors.New("no space left on device")
				}
				return nil
			})), &Options{Fatal: func(err error) { t.Error(err) }})
			body := make([]byte, defaultLargeObjectBytes+1)
			armed.Store(true)
			if err := s.Put(t.Context(), "k", storage.Bytes(body)); !errors.Is(err, storage.ErrUncertain) {
				t.Errorf("put: %v", err)
			}
			armed.Store(false)
			if _, err := s.Get(t.Context(), "k"); !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("get: %v", err)
			}
			if err := s.Create(t.Context(), "k", storage.Bytes(body)); err != nil {
				t.Errorf("put again: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			for folder, want := range map[string]int{"objects": 1, "tmp": 0} {
				names, err := mem.List(testDir + "/" + folder)
				if err != nil || len(names) != want {
					t.Errorf("%s: %q, %v", folder, names, err)
				}
			}
		})
	}
}

// TestCrash crashes the disk while writers run, several times and with different parts of the unsynced
// data, and checks every acknowledged write.
func TestCrash(t *testing.T) {
	disk := &crashDisk{MemFS: vfs.NewCrashableMem()}
	var s *Store
	present := map[string]string{}
	rounds := sample.Of(6, 3)
	for round := range rounds {
		s = openTest(t, disk, nil)
		acked := crashRound(t, s, disk, round)
		for key, body := range acked.before {
			present[key] = body
		}
		disk = acked.clone
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openTest(t, disk, nil)
		for key, body := range present {
			got, err := s.Get(t.Context(), key)
			if body == "" && !errors.Is(err, storage.ErrNotFound) || body != "" && (err != nil || string(got) != body) {
				t.Fatalf("round %d: %s: %d bytes, %v, want %d", round, key, len(got), err, len(body))
			}
		}
		// Listed objects are readable, acknowledged or not.
		err := s.engine.scan(t.Context(), "", "", func(key string, o object) (string, bool) {
			if got, err := s.Get(t.Context(), key); err != nil || int64(len(got)) != o.size {
				t.Errorf("round %d: listed key %s: %v", round, key, err)
			}
			return "", true
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(present) < 10*rounds {
		t.Errorf("only %d keys were acknowledged", len(present))
	}
}

// crashDisk separates clones from calls that lock the disk twice, which would deadlock.
type crashDisk struct {
	*vfs.MemFS
	links sync.RWMutex
}

func (d *crashDisk) Link(oldname, newname string) error {
	d.links.RLock()
	defer d.links.RUnlock()
	return d.MemFS.Link(oldname, newname)
}

func (d *crashDisk) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	d.links.RLock()
	defer d.links.RUnlock()
	return d.MemFS.ReuseForWrite(oldname, newname, category)
}

func (d *crashDisk) clone(cfg vfs.CrashCloneCfg) *crashDisk {
	d.links.Lock()
	defer d.links.Unlock()
	return &crashDisk{MemFS: d.CrashClone(cfg)}
}

// crash is a disk at some moment and the writes acknowledged before; an empty body is an acknowledged
// deletion.
type crash struct {
	clone  *crashDisk
	before map[string]string
}

func crashRound(t *testing.T, s *Store, disk *crashDisk, round int) crash {
	const writers, cloneAfter = 8, 100
	var mu sync.Mutex
	result := crash{before: map[string]string{}}
	crashed := make(chan struct{})
	var once sync.Once
	ack := func(key, body string) {
		mu.Lock()
		defer mu.Unlock()
		if result.clone != nil {
			return
		}
		result.before[key] = body
		if len(result.before) >= cloneAfter {
			result.clone = disk.clone(vfs.CrashCloneCfg{
				UnsyncedDataPercent: round * 20,
				RNG:                 rand.New(rand.NewPCG(1, uint64(round))),
			})
			once.Do(func() { close(crashed) })
		}
	}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-crashed:
					return
				default:
				}
				key := fmt.Sprintf("%d/%d/%d", round, w, i)
				body := strings.Repeat(key, 50)
				if i%5 == 4 {
					body = strings.Repeat("x", defaultLargeObjectBytes) + key
				}
				if err := s.Create(t.Context(), key, storage.Bytes([]byte(body))); err != nil {
					t.Error(err)
				}
				if i%4 != 3 {
					ack(key, body)
					continue
				}
				if err := s.Delete(t.Context(), key); err != nil {
					t.Error(err)
				}
				ack(key, "")
			}
		})
	}
	wg.Wait()
	return result
}

func TestCorruptValue(t *testing.T) {
	var logged bytes.Buffer
	mem := vfs.NewMem()
	s := openTest(t, mem, &Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	mustPut(t, s, "large", make([]byte, defaultLargeObjectBytes+1))
	e := s.engine.(*pebbleEngine)
	if err := e.db.Set(spaceKey(objectSpace, "damaged"), []byte("?"), nil); err != nil {
		t.Fatal(err)
	}
	names, err := mem.List(testDir + "/objects")
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	if err := mem.Remove(testDir + "/objects/" + names[0]); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"damaged", "large"} {
		if _, err := s.Get(t.Context(), key); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("get %s: %v", key, err)
		}
	}
	if _, err := s.List(t.Context(), storage.ListQuery{}); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("list: %v", err)
	}
	if err := s.Put(t.Context(), "damaged", storage.Bytes([]byte("x"))); !errors.Is(err, storage.ErrUncertain) {
		t.Errorf("put: %v", err)
	}
	if !strings.Contains(logged.String(), "value is shorter") {
		t.Errorf("log: %s", &logged)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
