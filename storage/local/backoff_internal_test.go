package local

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/parleyrun/parley/storage"
)

// fullDisk has no space for tables while it is full, and counts attempts to create one. Logs succeed
// because they reuse files.
type fullDisk struct {
	full  atomic.Bool
	asked atomic.Int64
}

func (d *fullDisk) over(fs vfs.FS) vfs.FS {
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if d.full.Load() && op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			d.asked.Add(1)
			return syscall.ENOSPC
		}
		return nil
	}))
}

// TestStartOnAFullDisk opens a folder whose log must first be flushed into a table. The open fails
// with a remedy. The engine's retries cost next to nothing, and a start with space has all objects.
func TestStartOnAFullDisk(t *testing.T) {
	disk := keptFolder(t, false)
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		var full fullDisk
		full.full.Store(true)
		log := slog.New(slog.NewTextHandler(&logged, nil))
		_, err := openStore(full.over(disk), testDir, &Options{Logger: log, Fatal: func(err error) { t.Errorf("ends the process: %v", err) }})
		var fatal *FatalError
		if !errors.As(err, &fatal) || !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("opens with %v", err)
		}
		for _, part := range []string{testDir, "no space left", "free space", "restart the process"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("got message %q, want %q in it", err, part)
			}
		}
		time.Sleep(time.Minute)
		if n := full.asked.Load(); n > 30 {
			t.Errorf("tried %d times in a minute", n)
		}
		if n := bytes.Count(logged.Bytes(), []byte("\n")); n == 0 || n > 20 {
			t.Errorf("logged %d lines in a minute: %s", n, &logged)
		}
		full.full.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		wantKept(t, disk)
	})
}

// TestDiskFillsUp leaves no space for tables under a running store. Retries and their log lines become
// rare, and the store continues when there is space again. Close does not wait for the next retry.
func TestDiskFillsUp(t *testing.T) {
	for _, recovers := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var logged bytes.Buffer
			var full fullDisk
			s := openTest(t, full.over(vfs.NewMem()), &Options{
				Logger: slog.New(slog.NewTextHandler(&logged, nil)), Fatal: func(err error) { t.Errorf("ends the process: %v", err) },
			})
			full.full.Store(true)
			for i := range 14 {
				mustPut(t, s, fmt.Sprint(i), make([]byte, defaultLargeObjectBytes))
			}
			time.Sleep(10 * time.Minute)
			if n := full.asked.Load(); n == 0 || n > 150 {
				t.Errorf("tried %d times in ten minutes", n)
			}
			if n := bytes.Count(logged.Bytes(), []byte("\n")); n == 0 || n > 30 {
				t.Errorf("logged %d lines in ten minutes: %s", n, &logged)
			}
			if recovers {
				full.full.Store(false)
				time.Sleep(time.Minute)
				tables := int64(0)
				for _, level := range s.engine.(*pebbleEngine).db.Metrics().Levels {
					tables += level.TablesCount
				}
				if tables == 0 {
					t.Error("no table was made after space was freed")
				}
			}
			begun := time.Now()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if took := time.Since(begun); took > 0 {
				t.Errorf("close took %v", took)
			}
		})
	}
}

// TestFullDiskStopsWrites writes until every write waits for space for a table. The process must then
// end, because nothing else would report the cause.
func TestFullDiskStopsWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full fullDisk
		reported := make(chan error, 2)
		s := openTest(t, full.over(vfs.NewMem()), &Options{Fatal: func(err error) { reported <- err }})
		full.full.Store(true)
		var last *pending
		for i := range 100 {
			last = start("put", func() (string, error) {
				return "", s.Put(t.Context(), fmt.Sprint(i), storage.Bytes(make([]byte, defaultLargeObjectBytes)))
			})
			if !last.answered() {
				break
			}
		}
		if last.answered() {
			t.Fatal("every write returned")
		}
		fatal := <-reported
		var fe *FatalError
		if !errors.As(fatal, &fe) || !errors.Is(fatal, syscall.ENOSPC) || !strings.Contains(fatal.Error(), "free space") {
			t.Errorf("got fatal error %v", fatal)
		}
		full.full.Store(false)
		time.Sleep(time.Minute)
		if !last.answered() || !errors.Is(last.err, storage.ErrUncertain) {
			t.Errorf("the write that waited: %v", last.err)
		}
		if err := s.Close(); !errors.As(err, &fe) {
			t.Errorf("close: %v", err)
		}
	})
}
