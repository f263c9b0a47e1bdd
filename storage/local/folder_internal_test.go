package local

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// syncLog is a disk that records the synced paths, or fails the syncs.
type syncLog struct {
	vfs.FS
	mu     sync.Mutex
	synced []string
	refuse error
}

func newSyncLog(disk vfs.FS) *syncLog {
	l := &syncLog{}
	l.FS = errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind != errorfs.OpFileSync {
			return nil
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.synced = append(l.synced, op.Path)
		return l.refuse
	}))
	return l
}

// TestExistingFolderIsSynced repeats the work of a process that crashed between the creation of a
// folder and the sync of its parent.
func TestExistingFolderIsSynced(t *testing.T) {
	disk := newSyncLog(vfs.NewMem())
	if err := disk.MkdirAll("/data/objects", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := mkdirSynced(disk, "/data/objects"); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(disk.synced, []string{"/data"}) {
		t.Errorf("synced %q, want the parent of the folder", disk.synced)
	}
	disk.refuse = errors.New("no disk")
	if err := mkdirSynced(disk, "/data/objects"); !errors.Is(err, disk.refuse) {
		t.Errorf("failing sync of the parent: got %v", err)
	}
}

// TestNewFoldersAreSynced checks that every entry on the path is synced, outermost first.
func TestNewFoldersAreSynced(t *testing.T) {
	disk := newSyncLog(vfs.NewMem())
	if err := disk.MkdirAll("/a", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := mkdirSynced(disk, "/a/b/c"); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(disk.synced, []string{"/", "/a", "/a/b"}) {
		t.Errorf("synced %q", disk.synced)
	}
}

// TestFolderSurvivesASecondStart crashes after a start that found the folder created but not synced.
func TestFolderSurvivesASecondStart(t *testing.T) {
	disk := vfs.NewCrashableMem()
	if err := disk.MkdirAll("/data", 0o700); err != nil {
		t.Fatal(err)
	}
	s := openTest(t, disk, nil)
	mustPut(t, s, "k", []byte("kept"))
	after := openTest(t, disk.CrashClone(vfs.CrashCloneCfg{}), nil)
	if body, err := after.Get(t.Context(), "k"); err != nil || string(body) != "kept" {
		t.Errorf("after a crash: %q, %v", body, err)
	}
	for _, s := range []*Store{s, after} {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
