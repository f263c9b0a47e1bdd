package local

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/parleyrun/parley/storage"
)

// Planned ends of a cycle.
const (
	endClone = "clone"      // Power loss of a disk in memory, in this process.
	endKill  = "kill"       // SIGKILL of a child that writes to a folder.
	endPower = "power loss" // Like endClone, in a child, which leaves the surviving data in the folder.
)

// cycle is the use of a store from its opening to its crash. The seed determines everything except the
// order of concurrent events.
type cycle struct {
	Seed    uint64
	Number  int
	End     string
	Workers int
	Limit   int    // Number of events before the crash.
	Calls   int    // Number of modifying calls of the file system before an endClone; 0 is none.
	Lost    int    // Percentage of unsynced blocks and names that survive a power loss.
	Heavy   bool   // Larger objects.
	Fault   string // Key of faults; "" is none.
	Early   bool   // Count calls from the start rather than from when the store is open.
	After   int    // Number of matching calls that succeed first.
	Once    bool   // Only one call fails, not every later one.
}

// fault selects calls of the file system. A fatal fault must end the process.
type fault struct {
	fatal bool
	match func(op errorfs.Op) bool
}

// Parts of file names, including their folder.
const (
	logFile  = ".log"
	manifest = "/MANIFEST"
	table    = ".sst"
	upload   = "tmp/"
)

// on selects calls of some kinds for files of one kind.
func on(part string, kinds ...errorfs.OpKind) func(errorfs.Op) bool {
	return func(op errorfs.Op) bool {
		name := path.Base(path.Dir(op.Path)) + "/" + path.Base(op.Path)
		return slices.Contains(kinds, op.Kind) && strings.Contains(name, part)
	}
}

func faults() map[string]fault {
	const (
		create, reuse, link, rename, remove = errorfs.OpCreate, errorfs.OpReuseForWrite, errorfs.OpLink, errorfs.OpRename, errorfs.OpRemove
		write, writeAt                      = errorfs.OpFileWrite, errorfs.OpFileWriteAt
		sync, syncData, syncTo              = errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo
	)
	folder := func(name string) func(errorfs.Op) bool {
		return func(op errorfs.Op) bool {
			return (op.Kind == sync || op.Kind == errorfs.OpOpenDir) && strings.HasSuffix(op.Path, name)
		}
	}
	return map[string]fault{
		"log write":      {true, on(logFile, write, writeAt)},
		"log sync":       {true, on(logFile, sync, syncData, syncTo)},
		"log create":     {true, on(logFile, create, reuse)},
		"manifest write": {true, on(manifest, write, writeAt)},
		"manifest sync":  {true, on(manifest, sync, syncData)},
		"table create":   {false, on(table, create)},
		"table write":    {false, on(table, write, writeAt)},
		"table sync":     {false, on(table, sync, syncData)},
		"db folder":      {true, folder("/db")},
		"upload create":  {false, on(upload, create)},
		"upload write":   {false, on(upload, write, writeAt)},
		"upload sync":    {false, on(upload, sync, syncData)},
		"upload link":    {false, on(upload, link)},
		"objects folder": {false, folder("/objects")},
		"remove":         {false, on("", remove)},
		"rename":         {false, on("", rename, reuse)},
		"anything": {false, func(op errorfs.Op) bool {
			return op.Kind != errorfs.OpLock && op.Kind.ReadOrWrite() == errorfs.OpIsWrite
		}},
	}
}

// newCycle derives the cycle of a seed.
func newCycle(seed uint64, number int, end string, faultName string) cycle {
	rng := rand.New(rand.NewPCG(seed, uint64(number)))
	c := cycle{
		Seed: seed, Number: number, End: end, Fault: faultName,
		Workers: 2 + rng.IntN(5),
		Limit:   20 + rng.IntN(180),
		Lost:    []int{0, 0, 20, 50, 80, 100}[rng.IntN(6)],
		Heavy:   rng.IntN(4) == 0,
		After:   rng.IntN(40),
		Once:    rng.IntN(2) == 0,
		Early:   rng.IntN(8) == 0,
	}
	if end == endClone && rng.IntN(4) > 0 {
		c.Calls = 1 + rng.IntN(500)
	}
	switch {
	case strings.HasPrefix(faultName, "table"), strings.HasPrefix(faultName, "manifest"), faultName == "db folder",
		faultName == "log create", faultName == "rename", faultName == "remove":
		// Rare calls: the engine makes them after many writes.
		c.Heavy, c.After = true, 0
	case strings.HasPrefix(faultName, "upload"), strings.HasPrefix(faultName, "objects"):
		c.After %= 6
	}
	if faultName == "rename" {
		c.Early = true
	}
	if faultName != "" {
		c.Limit += 100
	}
	return c
}

// injector fails the calls that the cycle selects, after it has recorded them.
func (c cycle) injector(r *recorder, opened *atomic.Bool) errorfs.Injector {
	f, ok := faults()[c.Fault]
	var seen atomic.Int64
	return errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !ok || !c.Early && !opened.Load() || !f.match(op) {
			return nil
		}
		n := int(seen.Add(1)) - 1
		if n < c.After || c.Once && n > c.After {
			return nil
		}
		r.add(event{Phase: phaseFault, Note: fmt.Sprintf("kind %d of %s", op.Kind, op.Path)})
		return syscall.ENOSPC
	})
}

// perform opens the store and works on it until the cycle ends or the plan is done.
func (c cycle) perform(ctx context.Context, fs vfs.FS, dir string, opts *Options, r *recorder, opened *atomic.Bool) (*Store, error) {
	s, err := openStore(fs, dir, opts)
	if err != nil {
		return nil, err
	}
	opened.Store(true)
	r.add(event{Phase: phaseOpened})
	var wg sync.WaitGroup
	for w := range c.Workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(c.Seed, uint64(c.Number)<<8|uint64(w)))
			for i := 0; i < 400 && ctx.Err() == nil; i++ {
				c.step(s, r, rng, fmt.Sprintf("log/%d/%d/%d", c.Number, w, i))
			}
		})
	}
	wg.Wait()
	return s, nil
}

// step runs one operation, on a shared key or on a new one. Only the crash interrupts it.
func (c cycle) step(b storage.Bucket, r *recorder, rng *rand.Rand, fresh string) {
	ctx := context.Background()
	e := event{Phase: phaseBegin, Key: fmt.Sprintf("shared/%02d", rng.IntN(16))}
	switch n := rng.IntN(20); {
	case n < 5:
		e.Verb, e.Key = verbCreate, fresh
	case n < 10:
		e.Verb = verbCreate
	case n < 14:
		e.Verb = verbPut
	case n < 18:
		e.Verb = verbDelete
	default:
		e.Verb = verbGet
	}
	if e.Verb == verbCreate || e.Verb == verbPut {
		e.Value = valueOf(c.Number, c.Heavy)
	}
	if e.Op = r.add(e); e.Op == 0 {
		return
	}
	e.Phase, e.Result = phaseEnd, resultDone
	var err error
	switch e.Verb {
	case verbCreate:
		err = b.Create(ctx, e.Key, storage.Bytes(bodyOf(e.Value+e.Op<<1)))
	case verbPut:
		err = b.Put(ctx, e.Key, storage.Bytes(bodyOf(e.Value+e.Op<<1)))
	case verbDelete:
		err = b.Delete(ctx, e.Key)
	case verbGet:
		e.Value, err = read(ctx, b, e.Key)
	}
	switch {
	case errors.Is(err, storage.ErrExists):
		e.Result = resultExists
	case err != nil:
		e.Result, e.Note = resultUnknown, err.Error()
	}
	r.add(e)
}

// errCorrupt is an object that was never written.
var errCorrupt = errors.New("corrupt object")

// read returns the value under key, 0 if absent.
func read(ctx context.Context, b storage.Bucket, key string) (uint64, error) {
	body, err := b.Get(ctx, key)
	if errors.Is(err, storage.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	value, err := valueIn(body)
	if err != nil {
		return 0, fmt.Errorf("%w: %s: %w", errCorrupt, key, err)
	}
	return value, nil
}
