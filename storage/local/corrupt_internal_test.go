package local

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/storage"
)

// agedFolders returns folders with one object each under table and log, by their last event.
func agedFolders(t *testing.T) map[string]*vfs.MemFS {
	t.Helper()
	folders := map[string]*vfs.MemFS{"closed": keptFolder(t, true)}
	for age, unsynced := range map[string]int{"killed": 100, "power lost": 0} {
		disk := keepOn(t, vfs.NewCrashableMem(), true)
		s := openTest(t, disk, nil)
		mustPut(t, s, "log", []byte("kept"))
		folders[age] = disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: rand.New(rand.NewPCG(1, 1))})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return folders
}

// content reads the files of a folder, recursively.
func content(t *testing.T, disk vfs.FS, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range names(t, disk, dir) {
		path := disk.PathJoin(dir, name)
		info, err := disk.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir() {
			all[path+"/"] = ""
			maps.Copy(all, content(t, disk, path))
			continue
		}
		f, err := disk.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		all[path] = string(b)
	}
	return all
}

// newDisk makes a disk with the given files.
func newDisk(t *testing.T, files map[string]string) *vfs.MemFS {
	t.Helper()
	disk := vfs.NewMem()
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if err := disk.MkdirAll(disk.PathDir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(path, "/") {
			touch(t, disk, path, []byte(files[path])...)
		}
	}
	return disk
}

// missing returns the first key of keptFolder that is missing or different without an error, or the error.
func missing(t *testing.T, s *Store) (string, error) {
	t.Helper()
	for _, key := range []string{"large", "log", "table"} {
		body, err := s.Get(t.Context(), key)
		if errors.Is(err, storage.ErrNotFound) || err == nil && key != "large" && string(body) != "kept" {
			return key, err
		}
		if err != nil {
			return "", err
		}
	}
	return "", nil
}

// checkKept checks the objects that keptFolder has stored.
func checkKept(t *testing.T, s *Store) error {
	t.Helper()
	page, err := s.List(t.Context(), storage.ListQuery{})
	if err != nil {
		return err
	}
	key, err := missing(t, s)
	if key != "" {
		t.Errorf("get %s: got %v or other content; want an error or %q; the list is %v", key, err, "kept", page.Keys)
	}
	return err
}

// checkCorrupt opens a folder with one change, for reading and for writing. Each open detects the
// change or reads all objects. A failed open changes no byte, and a read-only open never does. It
// reports whether reading detected the change.
func checkCorrupt(t *testing.T, desc string, files map[string]string) bool {
	t.Helper()
	disk := newDisk(t, files)
	before := content(t, disk, testDir)
	same := func(how string) {
		t.Helper()
		want, after := maps.Clone(before), content(t, disk, testDir)
		maps.DeleteFunc(after, func(path, _ string) bool { return path == testDB+"/LOCK" && before[path] == "" })
		delete(want, testDB+"/LOCK")
		if !maps.Equal(want, after) {
			t.Errorf("%s: %s changed %q into %q", desc, how, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(after)))
		}
	}
	s, err := openReadOnly(disk, testDir, nil)
	if err == nil {
		err = errors.Join(checkKept(t, s), s.Close())
	}
	same("reading")
	found := err != nil
	s, err = openStore(disk, testDir, nil)
	if err != nil {
		same("a refused start")
		if !found {
			t.Errorf("%s: verification found nothing, start found %v", desc, err)
		}
		if text := err.Error(); !strings.Contains(text, "restore") || strings.Contains(text, "\n") {
			t.Errorf("%s: start failed with %q, want one line with the remedy", desc, text)
		}
		return found
	}
	if err := checkKept(t, s); (err != nil) != found {
		t.Errorf("%s: start found %v, verification found %t", desc, err, found)
	}
	if err := s.Close(); err != nil {
		t.Errorf("%s: close: %v", desc, err)
	}
	return found
}

// TestEveryAppendedByte changes each byte of the manifests, logs and extents in turn, and
// truncates each file everywhere. Every change of synced bytes is detected in the current manifest and
// log; any other is harmless.
func TestEveryAppendedByte(t *testing.T) {
	step := sample.Of(1, 13)
	for age, disk := range agedFolders(t) {
		files := content(t, disk, testDir)
		logs := slices.DeleteFunc(names(t, disk, testDB), func(n string) bool { return !strings.HasSuffix(n, ".log") || strings.HasPrefix(n, extentPrefix) })
		lastLog := logs[len(logs)-1]
		for path, whole := range files {
			base := disk.PathBase(path)
			of := strings.TrimPrefix(base, extentPrefix)
			if !hasExtent(of) {
				continue
			}
			synced, known := readExtent(disk, disk.PathJoin(testDB, of))
			current := base == last(t, disk, manifestPrefix) || base == lastLog
			if !current || !known {
				synced.length = 0
			}
			for at := 0; at < len(whole); at += step {
				changes := map[string]string{
					"a flipped bit": whole[:at] + string([]byte{whole[at] ^ 1<<(at%8)}) + whole[at+1:],
					"an end":        whole[:at],
				}
				for change, now := range changes {
					desc := fmt.Sprintf("%s, %s, %s at %d of %d", age, base, change, at, len(whole))
					changed := maps.Clone(files)
					changed[path] = now
					if found := checkCorrupt(t, desc, changed); found != (int64(at) < synced.length) {
						t.Fatalf("%s: got found %t, want true before %d", desc, found, synced.length)
					}
				}
			}
		}
	}
}

// TestEveryFile removes each file, empties it, and replaces it by a folder.
func TestEveryFile(t *testing.T) {
	for age, disk := range agedFolders(t) {
		files := content(t, disk, testDir)
		for path := range files {
			if strings.HasSuffix(path, "/") {
				continue
			}
			lost, empty, folder := maps.Clone(files), maps.Clone(files), maps.Clone(files)
			delete(lost, path)
			empty[path] = ""
			delete(folder, path)
			folder[path+"/"] = ""
			for change, changed := range map[string]map[string]string{"lost": lost, "empty": empty, "a folder": folder} {
				checkCorrupt(t, fmt.Sprintf("%s, %s is %s", age, path, change), changed)
			}
		}
	}
}

// TestReadOnly opens folders for reading: they stay unchanged, writes are rejected, and a missing
// store is not created.
func TestReadOnly(t *testing.T) {
	for age, disk := range agedFolders(t) {
		before := content(t, disk, testDir)
		s, err := openReadOnly(disk, testDir, nil)
		if err != nil {
			t.Fatalf("%s: %v", age, err)
		}
		if _, err := openStore(disk, testDir, nil); err == nil {
			t.Errorf("%s: folder opened for reading is writable", age)
		}
		if err := checkKept(t, s); err != nil {
			t.Errorf("%s: %v", age, err)
		}
		body := storage.Bytes(bytes.Repeat([]byte("x"), defaultLargeObjectBytes+1))
		for op, err := range map[string]error{
			"create": s.Create(t.Context(), "new", body), "put": s.Put(t.Context(), "log", body), "delete": s.Delete(t.Context(), "log"),
		} {
			if !errors.Is(err, storage.ErrRefused) {
				t.Errorf("%s: %s: got %v, want %v", age, op, err, storage.ErrRefused)
			}
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: close: %v", age, err)
		}
		if after := content(t, disk, testDir); !maps.Equal(before, after) {
			t.Errorf("%s: verification changed %q into %q", age, before, after)
		}
	}
	for _, files := range []map[string]string{{testDir + "/": ""}, {testDB + "/": ""}, {testDB + "/LOCK": "", testDB + "/MANIFEST-000001": ""}} {
		disk := newDisk(t, files)
		before := content(t, disk, testDir)
		if _, err := openReadOnly(disk, testDir, nil); !errors.Is(err, ErrNoStore) {
			t.Errorf("%v: got %v, want %v", files, err, ErrNoStore)
		}
		if after := content(t, disk, testDir); !maps.Equal(before, after) {
			t.Errorf("verification changed %q into %q", before, after)
		}
	}
}

// TestFolderWithoutExtents covers a folder that an earlier version closed. Every flipped bit of its
// manifest is detected. Any other change of the manifest, and every flipped bit of its log, is
// detected or harmless. The log is not truncated here, because nothing else records its end.
func TestFolderWithoutExtents(t *testing.T) {
	disk := keptFolder(t, true)
	drop(t, disk, extentPrefix)
	manifest := last(t, disk, manifestPrefix)
	log := slices.DeleteFunc(names(t, disk, testDB), func(n string) bool { return !strings.HasSuffix(n, ".log") })
	files := content(t, disk, testDir)
	for _, base := range []string{manifest, log[len(log)-1]} {
		path := disk.PathJoin(testDB, base)
		whole := files[path]
		for at := 0; at < len(whole); at += sample.Of(1, 7) {
			changed := maps.Clone(files)
			changed[path] = whole[:at] + string([]byte{whole[at] ^ 1<<(at%8)}) + whole[at+1:]
			if found := checkCorrupt(t, fmt.Sprintf("%s, a flipped bit at %d of %d", base, at, len(whole)), changed); !found && base == manifest {
				t.Errorf("%s, a flipped bit at %d of %d: got nothing found", base, at, len(whole))
			}
			changed[path] = whole[:at]
			if base == manifest {
				checkCorrupt(t, fmt.Sprintf("%s, an end at %d of %d", base, at, len(whole)), changed)
			}
		}
	}
	wantKept(t, disk)
}
