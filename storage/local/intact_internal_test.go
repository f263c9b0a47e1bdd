package local

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/parleyrun/parley/storage"
)

const testDB = testDir + "/db"

// keptFolder is a cleanly closed folder: table is in a table, log only in the log, and large, if
// requested, in a file.
func keptFolder(t *testing.T, large bool) *vfs.MemFS {
	t.Helper()
	return keepOn(t, vfs.NewMem(), large)
}

// keepOn creates such a folder on a disk.
func keepOn(t *testing.T, disk *vfs.MemFS, large bool) *vfs.MemFS {
	t.Helper()
	// The second start gives the store another manifest.
	for _, key := range []string{"table", "log"} {
		s := openTest(t, disk, nil)
		put := []string{key}
		if large && key == "log" {
			put = append(put, "large")
		}
		for _, key := range put {
			body := []byte("kept")
			if key == "large" {
				body = make([]byte, defaultLargeObjectBytes+1)
			}
			mustPut(t, s, key, body)
		}
		if key == "table" {
			if err := s.engine.(*pebbleEngine).db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return disk
}

// names lists a folder of the disk; an absent one is empty.
func names(t *testing.T, disk vfs.FS, folder string) []string {
	t.Helper()
	ls, err := disk.List(folder)
	if err != nil && !strings.Contains(err.Error(), "not exist") {
		t.Fatal(err)
	}
	slices.Sort(ls)
	return ls
}

// drop removes the files of db with one of the prefixes or suffixes.
func drop(t *testing.T, disk vfs.FS, parts ...string) {
	t.Helper()
	for _, name := range names(t, disk, testDB) {
		if slices.ContainsFunc(parts, func(p string) bool { return strings.HasPrefix(name, p) || strings.HasSuffix(name, p) }) {
			if err := disk.Remove(disk.PathJoin(testDB, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func touch(t *testing.T, disk vfs.FS, path string, content ...byte) {
	t.Helper()
	f, err := disk.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// last returns the last file of db with the prefix.
func last(t *testing.T, disk vfs.FS, prefix string) string {
	t.Helper()
	all := slices.DeleteFunc(names(t, disk, testDB), func(n string) bool { return !strings.HasPrefix(n, prefix) })
	if len(all) == 0 {
		t.Fatalf("no %s*", prefix)
	}
	return all[len(all)-1]
}

// loss is a loss of files in a folder with data.
type loss struct {
	name   string
	large  bool
	remove func(t *testing.T, disk *vfs.MemFS)
	// want is part of the error; repairable reports whether it names files to create.
	want       string
	repairable bool
}

// losses returns the losses after which a folder is rejected.
func losses() []loss {
	return []loss{
		{name: "manifest marker", remove: func(t *testing.T, d *vfs.MemFS) { drop(t, d, "marker.manifest") }, want: "marker.manifest", repairable: true},
		{name: "version marker", remove: func(t *testing.T, d *vfs.MemFS) { drop(t, d, "marker.format") }, want: "marker.format-version", repairable: true},
		{name: "every empty file", remove: func(t *testing.T, d *vfs.MemFS) { drop(t, d, "marker.", "LOCK") }, want: "marker.manifest", repairable: true},
		{name: "markers, tables", remove: func(t *testing.T, d *vfs.MemFS) { drop(t, d, "marker.", ".sst", "OPTIONS") }, want: "marker.manifest"},
		{name: "all but the log", remove: func(t *testing.T, d *vfs.MemFS) { drop(t, d, "marker.", ".sst", "OPTIONS", "MANIFEST") }, want: "marker.manifest"},
		{name: "all but the tables", remove: func(t *testing.T, d *vfs.MemFS) { drop(t, d, "marker.", ".log", "OPTIONS", "MANIFEST") }, want: "marker.manifest"},
		{name: "all but the options", remove: func(t *testing.T, d *vfs.MemFS) { drop(t, d, "marker.", ".log", ".sst", "MANIFEST") }, want: "marker.manifest"},
		{name: "manifest", remove: func(t *testing.T, d *vfs.MemFS) { drop(t, d, "MANIFEST") }, want: "MANIFEST-"},
		{name: "manifest and marker", remove: func(t *testing.T, d *vfs.MemFS) { drop(t, d, "MANIFEST", "marker.manifest") }, want: "marker.manifest"},
		{name: "marker of two manifests", want: "marker.manifest", remove: func(t *testing.T, d *vfs.MemFS) {
			drop(t, d, "marker.manifest")
			touch(t, d, testDB+"/MANIFEST-000999", 1)
		}},
		{name: "marker of another manifest", want: "MANIFEST-000999", remove: func(t *testing.T, d *vfs.MemFS) {
			drop(t, d, "marker.manifest")
			touch(t, d, testDB+"/marker.manifest.000009.MANIFEST-000999")
		}},
		{name: "marker of no manifest", want: "000005.sst", remove: func(t *testing.T, d *vfs.MemFS) {
			drop(t, d, "marker.manifest")
			touch(t, d, testDB+"/marker.manifest.000009.000005.sst")
		}},
		{name: "marker without a form", want: "db/marker.", remove: func(t *testing.T, d *vfs.MemFS) {
			drop(t, d, "marker.manifest")
			touch(t, d, testDB+"/marker.manifest")
		}},
		{name: "marker of an older manifest", want: "marker.manifest", remove: func(t *testing.T, d *vfs.MemFS) {
			old := last(t, d, "MANIFEST")
			drop(t, d, "marker.manifest")
			touch(t, d, testDB+"/marker.manifest.000009."+old)
			newer, err := d.Create(testDB+"/MANIFEST-000999", vfs.WriteCategoryUnspecified)
			if err != nil {
				t.Fatal(err)
			}
			w := record.NewWriter(newer)
			for range 3 {
				if _, err := w.WriteRecord([]byte("edit")); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(w.Close(), newer.Close()); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "marker, and a table is left over", want: "marker.manifest", remove: func(t *testing.T, d *vfs.MemFS) {
			drop(t, d, "marker.")
			touch(t, d, testDB+"/000999.sst")
		}},
		{name: "content of the manifest", want: "MANIFEST-", remove: func(t *testing.T, d *vfs.MemFS) { touch(t, d, testDB+"/"+last(t, d, "MANIFEST")) }},
		{name: "begin of the manifest", want: "MANIFEST-", remove: func(t *testing.T, d *vfs.MemFS) {
			touch(t, d, testDB+"/"+last(t, d, "MANIFEST"), make([]byte, 4096)...)
		}},
		{name: "markers, beside a file of another time", want: "marker.manifest", repairable: true, remove: func(t *testing.T, d *vfs.MemFS) {
			drop(t, d, "marker.")
			touch(t, d, testDB+"/CURRENT", []byte("MANIFEST-000001\n")...)
		}},
		{name: "db", large: true, want: "marker.manifest", remove: func(t *testing.T, d *vfs.MemFS) {
			if err := d.RemoveAll(testDB); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "db, without large objects", want: "marker.manifest", remove: func(t *testing.T, d *vfs.MemFS) {
			if err := d.RemoveAll(testDB); err != nil {
				t.Fatal(err)
			}
		}},
	}
}

// TestFolderWithoutItsFilesIsRefused removes files of the engine from a folder with data. The open
// fails with a remedy and leaves the rest unchanged. If the error names files to create, creating them
// completes the folder.
func TestFolderWithoutItsFilesIsRefused(t *testing.T) {
	for _, tt := range losses() {
		t.Run(tt.name, func(t *testing.T) {
			disk := keptFolder(t, tt.large)
			tt.remove(t, disk)
			before, objects := names(t, disk, testDB), names(t, disk, testDir+"/objects")
			s, err := openStore(disk, testDir, nil)
			if err == nil {
				t.Errorf("served; %q became %q", before, names(t, disk, testDB))
				s.Close()
				return
			}
			var lost *IncompleteError
			if !errors.As(err, &lost) || lost.Dir != testDir {
				t.Fatalf("got error %v", err)
			}
			for _, want := range []string{tt.want, testDir, "restore", "backup"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
			after := slices.DeleteFunc(names(t, disk, testDB), func(n string) bool { return n == "LOCK" && !slices.Contains(before, n) })
			if !slices.Equal(before, after) || !slices.Equal(objects, names(t, disk, testDir+"/objects")) {
				t.Errorf("%q became %q", before, after)
			}
			if (len(lost.Create) > 0) != tt.repairable {
				t.Fatalf("asks for %q: %v", lost.Create, err)
			}
			for _, path := range lost.Create {
				if !strings.Contains(err.Error(), path) {
					t.Errorf("%q lacks %s", err, path)
				}
				touch(t, disk, path)
			}
			if tt.repairable {
				wantKept(t, disk)
			}
		})
	}
}

// wantKept opens a folder and checks the objects of keptFolder.
func wantKept(t *testing.T, disk vfs.FS) {
	t.Helper()
	s := openTest(t, disk, nil)
	for _, key := range []string{"table", "log"} {
		if body, err := s.Get(t.Context(), key); err != nil || string(body) != "kept" {
			t.Errorf("get %s: %q, %v", key, body, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestFolderWithoutDataIsMade covers every state of an interrupted creation: nothing can be lost, so a
// store is created.
func TestFolderWithoutDataIsMade(t *testing.T) {
	whole := keptFolder(t, false)
	version := last(t, whole, "marker.format")
	for _, files := range [][]string{
		nil,
		{"LOCK"},
		{"LOCK", "MANIFEST-000001"},
		{"LOCK", "MANIFEST-000001", "000002.log"},
		{"LOCK", "MANIFEST-000001", "temporary.000003.dbtmp", version},
	} {
		t.Run(fmt.Sprint(files), func(t *testing.T) {
			disk := vfs.NewMem()
			if err := disk.MkdirAll(testDB, 0o700); err != nil {
				t.Fatal(err)
			}
			for _, name := range files {
				touch(t, disk, testDB+"/"+name)
			}
			s := openTest(t, disk, nil)
			mustPut(t, s, "k", []byte("v"))
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCreationMayEndAnywhere takes a snapshot of the disk after every step of a creation, with and
// without the unsynced data. The next start creates the folder.
func TestCreationMayEndAnywhere(t *testing.T) {
	for unsynced := range 2 {
		var clones []*vfs.MemFS
		disk := vfs.NewCrashableMem()
		seed := rand.New(rand.NewPCG(1, 1))
		s := openTest(t, errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
				clones = append(clones, disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100 * unsynced, RNG: seed}))
			}
			return nil
		})), nil)
		made := len(clones)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if made < 20 {
			t.Errorf("the creation has only %d steps", made)
		}
		for i, clone := range clones[:made] {
			if err := openTest(t, clone, nil).Close(); err != nil {
				t.Errorf("step %d: %v", i, err)
			}
		}
	}
}

// TestCreationMayFail fails the creation of files from some step on, as on a full disk. The next start
// creates the folder.
func TestCreationMayFail(t *testing.T) {
	for step, failed := 0, true; failed; step++ {
		disk, left := vfs.NewMem(), step
		if err := mkdirSynced(disk, testDir); err != nil {
			t.Fatal(err)
		}
		s, err := openStore(errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind != errorfs.OpCreate {
				return nil
			}
			if left--; left < 0 {
				return syscall.ENOSPC
			}
			return nil
		})), testDir, &Options{Fatal: func(error) {}})
		if failed = err != nil; !failed {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if step < 4 {
				t.Errorf("the creation has only %d files", step)
			}
			return
		}
		var fatal *FatalError
		if !errors.As(err, &fatal) || !strings.Contains(err.Error(), "free space") {
			t.Errorf("step %d: %v", step, err)
		}
		if err := openTest(t, disk, nil).Close(); err != nil {
			t.Errorf("step %d: %v", step, err)
		}
	}
}

// TestStartMayEndAnywhere takes a snapshot after every step of a start on a folder with data, which
// writes another manifest and moves its marker, and of a start on some of those snapshots. The next
// start has all objects.
func TestStartMayEndAnywhere(t *testing.T) {
	seed := rand.New(rand.NewPCG(1, 1))
	steps := func(disk *vfs.MemFS) (clones []*vfs.MemFS) {
		var mu sync.Mutex // Pebble deletes files concurrently.
		s := openTest(t, errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
				clones = append(clones, disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100 * (len(clones) % 2), RNG: seed}))
			}
			return nil
		})), nil)
		mu.Lock()
		made := slices.Clone(clones)
		mu.Unlock()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return made
	}
	first := steps(keepOn(t, vfs.NewCrashableMem(), false))
	if len(first) < 10 {
		t.Errorf("a start has only %d steps", len(first))
	}
	for i, clone := range first {
		if i%5 == 0 {
			for _, again := range steps(clone.CrashClone(vfs.CrashCloneCfg{})) {
				wantKept(t, again)
			}
		}
		wantKept(t, clone)
	}
}

// TestCorruptTable checks that a corrupt table is reported in one line, with the remedy.
func TestCorruptTable(t *testing.T) {
	disk := keptFolder(t, false)
	name := testDB + "/" + slices.DeleteFunc(names(t, disk, testDB), func(n string) bool { return !strings.HasSuffix(n, ".sst") })[0]
	f, err := disk.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	content[4] ^= 1 // of the first block, which holds the object
	touch(t, disk, name, content...)
	s := openTest(t, disk, nil)
	defer func() { _ = s.Close() }()
	_, getErr := s.Get(t.Context(), "table")
	_, listErr := s.List(t.Context(), storage.ListQuery{})
	for _, err := range []error{getErr, listErr} {
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "restore the whole folder from a backup") {
			t.Errorf("got %v", err)
		}
	}
}
