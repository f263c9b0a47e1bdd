package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

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

// do sends a request and returns the status and the body.
func do(t *testing.T, s *Store, method, path string, body []byte, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, "http://"+Endpoint+"/"+Bucket+path, bytes.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.RoundTrip(req)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, string(data)
}

// isLogSync selects the syncs of the engine's write-ahead log.
func isLogSync(op errorfs.Op) bool {
	switch op.Kind {
	case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
		return strings.HasSuffix(op.Path, ".log")
	}
	return false
}

// stalling is a disk in memory. While it is armed, a sync of the log waits for a release.
func stalling(armed *atomic.Bool, release <-chan struct{}) vfs.FS {
	return errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if armed.Load() && isLogSync(op) {
			<-release
		}
		return nil
	}))
}

// TestWriteOutlivesItsCaller: nobody waits longer than for a context, and what the store
// owns goes on.
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
			t.Errorf("what may be lost is read: %q, %v", got, err)
		}
		if page, err := s.List(short, storage.ListQuery{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("what may be lost is listed: %v, %v", page, err)
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

// TestFailureAfterTheCallerLeft: an operator learns of it all the same.
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
			t.Errorf("the log says %q", &log)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestStalledSync holds the sync of a commit back. What the commit made visible
// must not be read, listed or missed before the sync is over. In the bubble Wait
// returns when every request is blocked or answered.
func TestStalledSync(t *testing.T) {
	for _, tt := range []struct {
		name, method string
		status       int
		after        string
	}{
		{"put", "PUT", 200, "new"},
		{"delete", "DELETE", 204, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stalledSync(t, tt.method, tt.status, tt.after)
			})
		})
	}
}

func stalledSync(t *testing.T, method string, status int, after string) {
	var armed atomic.Bool
	release := make(chan struct{})
	s := openTest(t, stalling(&armed, release), nil)
	for _, path := range []string{"/a/0", "/a/1", "/a/k", "/b/other"} {
		do(t, s, "PUT", path, []byte("old"))
	}
	armed.Store(true)
	write := start(t, s, method, "/a/k", []byte("new"))
	if write.answered() {
		t.Fatal("the write was answered before its sync")
	}
	// The premise: the engine shows the change already.
	o, err := s.engine.(*pebbleEngine).lookup("a/k", true)
	if string(o.inline) != after || (err != nil) != (after == "") {
		t.Fatalf("the engine shows %q, %v", o.inline, err)
	}
	var blocked, free []*pending
	for _, path := range []string{"/a/k", "/?list-type=2", "/?list-type=2&prefix=a/", "/?list-type=2&delimiter=/", "/?list-type=2&prefix=a/&max-keys=2"} {
		blocked = append(blocked, start(t, s, "GET", path, nil))
	}
	blocked = append(blocked, start(t, s, "HEAD", "/a/k", nil))
	for _, path := range []string{"/b/other", "/a/none", "/?list-type=2&prefix=b/", "/?list-type=2&start-after=a/k", "/?list-type=2&max-keys=1"} {
		free = append(free, start(t, s, "GET", path, nil))
	}
	for _, p := range free {
		if !p.answered() {
			t.Errorf("%s waits", p.name)
		}
	}
	for _, p := range blocked {
		if p.answered() {
			t.Errorf("%s does not wait: %d %q", p.name, p.status, p.body)
		}
	}
	close(release)
	if !write.answered() || write.status != status {
		t.Errorf("write: %d", write.status)
	}
	for _, p := range blocked {
		if !p.answered() {
			t.Errorf("%s waits for nothing", p.name)
		}
	}
	if got := blocked[0]; after != "" && got.body != after || after == "" && got.status != 404 {
		t.Errorf("get: %d %q", got.status, got.body)
	}
	if list := blocked[1]; strings.Contains(list.body, "<Key>a/k</Key>") != (after != "") {
		t.Errorf("list: %s", list.body)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// pending is a request of a bubble that may be blocked.
type pending struct {
	name   string
	done   atomic.Bool
	status int
	body   string
}

func start(t *testing.T, s *Store, method, path string, body []byte) *pending {
	p := &pending{name: method + " " + path}
	go func() {
		p.status, p.body = do(t, s, method, path, body)
		p.done.Store(true)
	}()
	return p
}

// answered tells, when nothing in the bubble can go on, whether p is answered.
func (p *pending) answered() bool {
	synctest.Wait()
	return p.done.Load()
}

// TestGivenUpRead checks that a read which waits ends with its context.
func TestGivenUpRead(t *testing.T) {
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

// TestFatalCommit makes a sync fail under concurrent writers: no write may be
// acknowledged, the hook runs once, nothing is readable any more, and the next
// start has every write that was acknowledged before.
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
	if status, _ := do(t, s, "PUT", "/before", []byte("kept")); status != 200 {
		t.Fatal(status)
	}
	armed.Store(true)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			size := 10
			if w%2 == 0 {
				size = defaultLargeObjectBytes + 1
			}
			if status, body := do(t, s, "PUT", fmt.Sprint("/", w), make([]byte, size), "If-None-Match", "*"); status != 500 {
				t.Errorf("put %d: %d %s", w, status, body)
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
	for _, part := range []string{testDir, "no space left", "free space", "start the process again"} {
		if !strings.Contains(fatal.Error(), part) {
			t.Errorf("message %q lacks %q", fatal, part)
		}
	}
	for _, path := range []string{"/before", "/1", "/?list-type=2"} {
		if status, _ := do(t, s, "GET", path, nil); status != 500 {
			t.Errorf("get %s after the failure: %d", path, status)
		}
	}
	armed.Store(false)
	after := openTest(t, disk.CrashClone(vfs.CrashCloneCfg{}), nil)
	if status, body := do(t, after, "GET", "/before", nil); status != 200 || body != "kept" {
		t.Errorf("after the next start: %d %q", status, body)
	}
	if err := after.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); !errors.As(err, &fe) {
		t.Errorf("close: %v", err)
	}
}

// TestUploadError fails the steps before a large object's key: the request
// fails, the store goes on, and nothing is left.
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
			if status, _ := do(t, s, "PUT", "/k", body); status != 500 {
				t.Errorf("put: %d", status)
			}
			armed.Store(false)
			if status, _ := do(t, s, "GET", "/k", nil); status != 404 {
				t.Errorf("get: %d", status)
			}
			if status, _ := do(t, s, "PUT", "/k", body, "If-None-Match", "*"); status != 200 {
				t.Errorf("put again: %d", status)
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

// TestCrash takes the disk away while writers run, several times and with
// different parts of the unsynced data, and checks every acknowledged write.
func TestCrash(t *testing.T) {
	disk := &crashDisk{MemFS: vfs.NewCrashableMem()}
	var s *Store
	present := map[string]string{}
	for round := range 6 {
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
			status, got := do(t, s, "GET", "/"+key, nil)
			if body == "" && status != 404 || body != "" && (status != 200 || got != body) {
				t.Fatalf("round %d: %s: status %d, %d bytes, want %d", round, key, status, len(got), len(body))
			}
		}
		// What is listed can be read, acknowledged or not.
		err := s.engine.scan(t.Context(), "", "", func(key string, o object) (string, bool) {
			if status, got := do(t, s, "GET", "/"+key, nil); status != 200 || int64(len(got)) != o.size {
				t.Errorf("round %d: listed key %s: status %d", round, key, status)
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
	if len(present) < 50 {
		t.Errorf("only %d keys were acknowledged", len(present))
	}
}

// crashDisk keeps clones apart from the calls that lock the disk twice, which wait
// for each other otherwise.
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

// crash is a disk as of a moment and what was acknowledged before that moment;
// an empty body is an acknowledged deletion.
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
				if status, doc := do(t, s, "PUT", "/"+key, []byte(body), "If-None-Match", "*"); status != 200 {
					t.Errorf("put %s: %d %s", key, status, doc)
				}
				if i%4 != 3 {
					ack(key, body)
					continue
				}
				if status, _ := do(t, s, "DELETE", "/"+key, nil); status != 204 {
					t.Errorf("delete %s: %d", key, status)
				}
				ack(key, "")
			}
		})
	}
	wg.Wait()
	return result
}

func TestDamagedValue(t *testing.T) {
	var logged bytes.Buffer
	mem := vfs.NewMem()
	s := openTest(t, mem, &Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	do(t, s, "PUT", "/large", make([]byte, defaultLargeObjectBytes+1))
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
	for _, req := range [][2]string{{"GET", "/damaged"}, {"GET", "/large"}, {"GET", "/?list-type=2"}, {"PUT", "/damaged"}} {
		if status, _ := do(t, s, req[0], req[1], nil); status != 500 {
			t.Errorf("%s %s: %d", req[0], req[1], status)
		}
	}
	if !strings.Contains(logged.String(), "value is shorter") {
		t.Errorf("log: %s", &logged)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
