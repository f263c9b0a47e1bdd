package local

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// The engine finds its state by the names of two empty files: the current manifest and the format of
// the folder. Backups that skip empty files lose both. The engine takes a folder without the first, or
// with an unreadable manifest, for an empty one and deletes every table in it.
const (
	manifestMarker = "manifest"
	formatMarker   = "format-version"
	manifestPrefix = "MANIFEST-"
	tableSuffix    = ".sst"
)

// intact checks, before the engine opens a folder, that it has the files by which the engine finds its
// data. It writes nothing.
type intact struct {
	fs   vfs.FS
	dir  string // the data folder
	db   string // the engine's folder
	lock *pebble.Lock
	// names are the files in db.
	names []string
}

// checkIntact returns nil for a complete folder and for one without data, which the engine may create;
// held distinguishes them. Otherwise the error is an *IncompleteError.
func checkIntact(fs vfs.FS, dir, db string, lock *pebble.Lock) (held bool, err error) {
	names, err := fs.List(db)
	if err != nil {
		return false, fmt.Errorf("open local store %q: list folder: %w", dir, err)
	}
	c := &intact{fs: fs, dir: dir, db: db, lock: lock, names: names}
	if held, err = c.holdsData(); err == nil && held {
		err = c.check()
	}
	if err != nil {
		err = fmt.Errorf("open local store: %w", err)
	}
	return held, err
}

// check returns an *IncompleteError if the folder is not complete.
func (c *intact) check() error {
	manifest, err := atomicfs.ReadMarker(c.fs, c.db, manifestMarker)
	if err != nil {
		return c.incomplete(fmt.Sprintf("the names of its files db/marker.* are unreadable (%v)", err), nil)
	}
	format, err := atomicfs.ReadMarker(c.fs, c.db, formatMarker)
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
	var missing, repairable []string
	if manifest == "" {
		missing = append(missing, "db/marker."+manifestMarker+".*")
		repairable = append(repairable, "marker."+manifestMarker+".000001."+c.current())
	}
	if format == "" {
		missing = append(missing, "db/marker."+formatMarker+".*")
		repairable = append(repairable, "marker."+formatMarker+".000001."+pebbleFormat.String())
	}
	if len(missing) == 0 {
		return nil
	}
	// A manifest that names all tables is the current one.
	if unknown, ok := c.unknownTables(repairable); !ok || len(unknown) > 0 {
		repairable = nil
	}
	return c.incomplete("lacks "+strings.Join(missing, " and "), repairable)
}

func (c *intact) incomplete(lost string, repairable []string) error {
	e := &IncompleteError{Dir: c.dir, Lost: lost}
	for _, name := range repairable {
		e.Create = append(e.Create, c.fs.PathJoin(c.db, name))
	}
	return e
}

// holdsData reports whether the folder holds data that could be lost. Both markers are durable before
// any data exists, so the files of an interrupted creation are not data.
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
		return false, fmt.Errorf("list object files: %w", err)
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
		// An unused log ends at once.
		if !errors.Is(err, io.EOF) {
			return true, nil
		}
	}
	return false, nil
}

// flaw describes the defect of the files that the manifest needs, "" for none.
func (c *intact) flaw(manifest string) (string, error) {
	switch {
	case !strings.HasPrefix(manifest, manifestPrefix):
		return fmt.Sprintf("its file db/marker.%s.* names %s, which is not a manifest", manifestMarker, manifest), nil
	case !slices.Contains(c.names, manifest):
		return fmt.Sprintf("lacks db/%s, which db/marker.%s.* names", manifest, manifestMarker), nil
	}
	if flaw, err := c.folders(); flaw != "" || err != nil {
		return flaw, err
	}
	checkKept, err := c.edits(manifest, -1)
	if err != nil {
		return "", err
	}
	corrupt := fmt.Sprintf("its file db/%s is corrupt", manifest)
	synced, known := readExtent(c.fs, c.fs.PathJoin(c.db, manifest))
	if checkKept.count == 0 || !known && checkKept.torn {
		return corrupt, nil
	}
	if known {
		if ok, err := synced.holds(c.fs, c.fs.PathJoin(c.db, manifest)); err != nil || !ok {
			return corrupt, err
		}
	}
	for _, other := range c.manifests() {
		if manifestNumber(other) <= manifestNumber(manifest) {
			break
		}
		// A crash before the marker was moved leaves two records in the next manifest.
		if next, err := c.edits(other, 3); err != nil || next.count == 3 {
			return fmt.Sprintf("its file db/marker.%s.* names %s, which %s replaced", manifestMarker, manifest, other), err
		}
	}
	if flaw, err := c.logFlaw(checkKept.firstLog); known || flaw != "" || err != nil {
		return flaw, err
	}
	return c.tableFlaw(manifest)
}

// tableFlaw describes a table that a manifest without an extent does not name. A crash may leave one,
// a clean shutdown does not.
func (c *intact) tableFlaw(manifest string) (string, error) {
	closed, err := c.closed()
	if err != nil || !closed || !comparesTables() {
		return "", err
	}
	if unknown, ok := c.unknownTables(nil); ok && len(unknown) > 0 {
		return fmt.Sprintf("its file db/%s is corrupt: it does not name db/%s", manifest, unknown[0]), nil
	}
	return "", nil
}

// folders describes a folder in place of a file of the engine.
func (c *intact) folders() (string, error) {
	for _, name := range c.names {
		if !hasExtent(name) && !strings.HasSuffix(name, tableSuffix) && !strings.HasPrefix(name, "OPTIONS-") {
			continue
		}
		info, err := c.fs.Stat(c.fs.PathJoin(c.db, name))
		if err != nil {
			return "", fmt.Errorf("stat file: %w", err)
		}
		if info.IsDir() {
			return fmt.Sprintf("its file db/%s is a folder", name), nil
		}
	}
	return "", nil
}

// manifests returns the names of the manifests, latest first.
func (c *intact) manifests() []string {
	all := slices.DeleteFunc(slices.Clone(c.names), func(name string) bool { return !strings.HasPrefix(name, manifestPrefix) })
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(manifestNumber(b), manifestNumber(a)) })
	return all
}

// current returns the manifest that a lost marker may have named, "" if there is none. A manifest that
// follows another is complete from its second record on.
func (c *intact) current() string {
	all := c.manifests()
	if len(all) == 0 {
		return ""
	}
	want := min(len(all), 2)
	if checkKept, err := c.edits(all[0], want); err != nil || checkKept.count < want {
		return ""
	}
	return all[0]
}

func manifestNumber(name string) uint64 {
	n, _ := strconv.ParseUint(strings.TrimPrefix(name, manifestPrefix), 10, 64)
	return n
}

// edits are the records of a manifest.
type edits struct {
	count int
	// torn is set if an incomplete record follows.
	torn bool
	// firstLog is the first log that is not yet in tables.
	firstLog wal.NumWAL
}

// edits reads the first records of a manifest, at most most unless that is negative.
func (c *intact) edits(manifest string, most int) (all edits, err error) {
	f, err := c.fs.Open(c.fs.PathJoin(c.db, manifest))
	if err != nil {
		return edits{}, fmt.Errorf("read manifest: %w", err)
	}
	defer f.Close()
	r := record.NewReader(f, 0)
	for all.count != most {
		var edit []byte
		next, err := r.Next()
		if err == nil {
			edit, err = io.ReadAll(next)
		}
		if err == io.EOF {
			return all, nil
		}
		if errors.Is(err, record.ErrZeroedChunk) || errors.Is(err, record.ErrInvalidChunk) || errors.Is(err, record.ErrUnexpectedEOF) {
			all.torn = true
			return all, nil
		}
		if err != nil {
			return edits{}, fmt.Errorf("read manifest: %w", err)
		}
		all.count++
		if log, ok := firstLog(edit); ok {
			all.firstLog = log
		}
	}
	return all, nil
}

// firstLog reads the number of the first log that is not in tables from an edit of a manifest. Such
// fields, each a tag and a number or name, come first.
func firstLog(edit []byte) (wal.NumWAL, bool) {
	const comparator, logNumber = 1, 2
	for {
		tag, n := binary.Uvarint(edit)
		if n <= 0 || tag != comparator && tag != logNumber {
			return 0, false
		}
		value, m := binary.Uvarint(edit[n:])
		if m <= 0 {
			return 0, false
		}
		edit = edit[n+m:]
		if tag == logNumber {
			return wal.NumWAL(value), true
		}
		edit = edit[min(value, uint64(len(edit))):] // The comparator's name.
	}
}
