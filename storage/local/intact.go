package local

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// The engine finds its state by two empty files whose names are what they say: which
// manifest is the current one, and in which format the folder is written. Backups that
// skip empty files lose both. The engine takes a folder without the first, and one
// whose manifest cannot be read, for an empty one, and deletes every table there.
const (
	manifestMarker = "manifest"
	formatMarker   = "format-version"
	manifestPrefix = "MANIFEST-"
	tableSuffix    = ".sst"
)

// intact looks, before the engine does, whether a folder has what the engine finds its
// data by. It writes nothing.
type intact struct {
	fs   vfs.FS
	dir  string // the data folder
	db   string // the engine's folder
	lock *pebble.Lock
	// names are what is in db.
	names []string
}

// checkIntact returns nil for a folder that is whole and for one without data, which the
// engine may make anew. Otherwise the error is an *IncompleteError.
func checkIntact(fs vfs.FS, dir, db string, lock *pebble.Lock) error {
	names, err := fs.List(db)
	if err != nil {
		return fmt.Errorf("list folder: %w", err)
	}
	c := &intact{fs: fs, dir: dir, db: db, lock: lock, names: names}
	if held, err := c.holdsData(); err != nil || !held {
		return err
	}
	manifest, err := atomicfs.ReadMarker(fs, db, manifestMarker)
	if err != nil {
		return c.incomplete(fmt.Sprintf("the engine cannot read the names of its files db/marker.* (%v)", err), nil)
	}
	format, err := atomicfs.ReadMarker(fs, db, formatMarker)
	if err != nil {
		return err
	}
	if manifest != "" {
		flaw, err := c.flaw(manifest)
		if err != nil {
			return err
		}
		if flaw != "" {
			return c.incomplete(flaw, nil)
		}
	}
	var missing, mends []string
	if manifest == "" {
		missing = append(missing, "db/marker."+manifestMarker+".*")
		mends = append(mends, "marker."+manifestMarker+".000001."+c.current())
	}
	if format == "" {
		missing = append(missing, "db/marker."+formatMarker+".*")
		mends = append(mends, "marker."+formatMarker+".000001."+pebbleFormat.String())
	}
	if len(missing) == 0 {
		return nil
	}
	if !c.wholeWith(mends) {
		mends = nil
	}
	return c.incomplete("lacks "+strings.Join(missing, " and "), mends)
}

func (c *intact) incomplete(lost string, mends []string) error {
	e := &IncompleteError{Dir: c.dir, Lost: lost}
	for _, name := range mends {
		e.Create = append(e.Create, c.fs.PathJoin(c.db, name))
	}
	return e
}

// holdsData tells whether there is anything to lose. Both markers are durable before
// any of this exists, so what a creation leaves that was cut short is no data.
func (c *intact) holdsData() (bool, error) {
	for _, name := range c.names {
		if strings.HasPrefix(name, "OPTIONS-") || strings.HasSuffix(name, tableSuffix) ||
			strings.HasSuffix(name, ".blob") || name == "CURRENT" {
			return true, nil
		}
	}
	switch _, err := c.fs.Stat(c.fs.PathJoin(c.dir, "objects")); {
	case err == nil:
		return true, nil
	case !errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("look for object files: %w", err)
	}
	logs, err := wal.Scan(wal.Dir{FS: c.fs, Dirname: c.db})
	if err != nil {
		return false, err
	}
	for _, log := range logs {
		r := log.OpenForRead()
		_, _, err := r.NextRecord()
		if cerr := r.Close(); cerr != nil {
			return false, fmt.Errorf("read log: %w", cerr)
		}
		// A log that was begun and never used ends at once.
		if !errors.Is(err, io.EOF) {
			return true, nil
		}
	}
	return false, nil
}

// flaw says what is wrong with the manifest that the marker names, "" for nothing.
func (c *intact) flaw(manifest string) (string, error) {
	switch {
	case !strings.HasPrefix(manifest, manifestPrefix):
		return fmt.Sprintf("its file db/marker.%s.* names %s, which is no manifest", manifestMarker, manifest), nil
	case !slices.Contains(c.names, manifest):
		return fmt.Sprintf("lacks db/%s, which db/marker.%s.* names", manifest, manifestMarker), nil
	}
	if n, err := c.records(manifest, 1); err != nil || n == 0 {
		return fmt.Sprintf("its file db/%s is damaged", manifest), err
	}
	for _, other := range c.manifests() {
		if manifestNumber(other) <= manifestNumber(manifest) {
			break
		}
		// A crash before the marker was moved leaves two records in the next manifest.
		if n, err := c.records(other, 3); err != nil || n == 3 {
			return fmt.Sprintf("its file db/marker.%s.* names %s, which %s has replaced", manifestMarker, manifest, other), err
		}
	}
	return "", nil
}

// manifests are the names of the manifests, latest first.
func (c *intact) manifests() []string {
	all := slices.DeleteFunc(slices.Clone(c.names), func(name string) bool { return !strings.HasPrefix(name, manifestPrefix) })
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(manifestNumber(b), manifestNumber(a)) })
	return all
}

// current is the manifest that a lost marker may have named, "" if there is none. One
// that follows another is complete from its second record on.
func (c *intact) current() string {
	all := c.manifests()
	if len(all) == 0 {
		return ""
	}
	want := min(len(all), 2)
	if n, err := c.records(all[0], want); err != nil || n < want {
		return ""
	}
	return all[0]
}

func manifestNumber(name string) uint64 {
	n, _ := strconv.ParseUint(strings.TrimPrefix(name, manifestPrefix), 10, 64)
	return n
}

// records counts the whole records at the begin of a manifest, up to most.
func (c *intact) records(manifest string, most int) (int, error) {
	f, err := c.fs.Open(c.fs.PathJoin(c.db, manifest))
	if err != nil {
		return 0, fmt.Errorf("read manifest: %w", err)
	}
	defer f.Close()
	r := record.NewReader(f, 0)
	for n := range most {
		edit, err := r.Next()
		if err == nil {
			_, err = io.Copy(io.Discard, edit)
		}
		if err == io.EOF || record.IsInvalidRecord(err) {
			return n, nil
		}
		if err != nil {
			return 0, fmt.Errorf("read manifest: %w", err)
		}
	}
	return most, nil
}

// wholeWith opens the folder, for reading only, as if it had these markers too, and
// tells whether that leaves no table over: a manifest that knows them all is the
// current one.
func (c *intact) wholeWith(markers []string) bool {
	log := slog.New(slog.DiscardHandler)
	quiet := newFailure(c.dir, log, func(error) {})
	opts := pebbleOptions(&markedFS{c.fs, c.db, markers}, log, quiet, newSetbacks(log, quiet))
	opts.ReadOnly, opts.ErrorIfNotExists, opts.Lock = true, true, c.lock
	db, err := pebble.Open(c.db, opts)
	if err != nil {
		return false
	}
	levels, err := db.SSTables()
	if cerr := db.Close(); err != nil || cerr != nil {
		return false
	}
	known := map[string]bool{}
	for _, level := range levels {
		for _, table := range level {
			known[table.FileNum.String()+tableSuffix] = true
		}
	}
	return !slices.ContainsFunc(c.names, func(name string) bool { return strings.HasSuffix(name, tableSuffix) && !known[name] })
}

// markedFS shows files in a folder that are not there.
type markedFS struct {
	vfs.FS
	folder string
	more   []string
}

// List implements vfs.FS.
func (m *markedFS) List(dir string) ([]string, error) {
	names, err := m.FS.List(dir)
	if dir == m.folder {
		names = append(names, m.more...)
	}
	return names, err
}

// Unwrap implements vfs.FS.
func (m *markedFS) Unwrap() vfs.FS { return m.FS }
