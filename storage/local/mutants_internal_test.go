//go:build mutants

package local

import (
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// loses returns the first object that a corrupt folder lacks without an error: path was truncated
// at each byte, and each of its bytes has had a flipped bit.
func loses(t *testing.T, disk vfs.FS, path string) string {
	t.Helper()
	files := content(t, disk, testDir)
	whole := files[path]
	for at := range len(whole) {
		for _, now := range []string{whole[:at], whole[:at] + string([]byte{whole[at] ^ 1<<(at%8)}) + whole[at+1:]} {
			changed := maps.Clone(files)
			changed[path] = now
			s, err := openReadOnly(newDisk(t, changed), testDir, nil)
			if err != nil {
				continue
			}
			key, _ := missing(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if key != "" {
				return key
			}
		}
	}
	return ""
}

// writtenAtOnce makes a folder that one process has written and closed: its manifest begins without the table.
func writtenAtOnce(t *testing.T) *vfs.MemFS {
	t.Helper()
	disk := vfs.NewMem()
	s := openTest(t, disk, nil)
	mustPut(t, s, "table", []byte("kept"))
	mustPut(t, s, "large", make([]byte, defaultLargeObjectBytes+1))
	for i := range 4 { // The log of the table is used again.
		if err := s.engine.(*pebbleEngine).db.Flush(); err != nil {
			t.Fatal(err)
		}
		mustPut(t, s, fmt.Sprint("later", i), []byte("kept"))
	}
	mustPut(t, s, "log", []byte("kept"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return disk
}

// TestMutants switches off one check of a folder after the other: a corrupt folder then opens
// without an object that was stored.
func TestMutants(t *testing.T) {
	disk, plain := writtenAtOnce(t), writtenAtOnce(t)
	drop(t, plain, extentPrefix)
	for _, c := range []struct {
		name string
		rule *atomic.Bool
		disk *vfs.MemFS
		file string
	}{
		{"a manifest is not compared with its extent", &rules.comparesExtents, disk, manifestPrefix},
		{"a log is not compared with its extent", &rules.comparesExtents, disk, ".log"},
		{"tables are not compared with the manifest", &rules.comparesTables, plain, manifestPrefix},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := ""
			for _, name := range names(t, c.disk, testDB) {
				if strings.HasPrefix(name, c.file) || strings.HasSuffix(name, c.file) && !strings.HasPrefix(name, extentPrefix) {
					path = c.disk.PathJoin(testDB, name)
				}
			}
			if key := loses(t, c.disk, path); key != "" {
				t.Fatalf("with every check: %s is lost after corruption of %s, want an error", key, path)
			}
			c.rule.Store(true)
			defer c.rule.Store(false)
			if key := loses(t, c.disk, path); key == "" {
				t.Errorf("corruption of %s loses nothing, want a lost object", path)
			}
		})
	}
}
