package local

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// logFlaw describes the defect of the logs that are not in tables yet, from first on. Each must begin
// with its synced bytes.
func (c *intact) logFlaw(first wal.NumWAL) (string, error) {
	for _, mark := range c.names {
		name, isExtent := strings.CutPrefix(mark, extentPrefix)
		number, _, isLog := wal.ParseLogFilename(name)
		if !isExtent || !isLog || number < first {
			continue
		}
		if _, known := readExtent(c.fs, c.fs.PathJoin(c.db, name)); known && !slices.Contains(c.names, name) {
			return "lacks db/" + name, nil
		}
	}
	logs, err := wal.Scan(wal.Dir{FS: c.fs, Dirname: c.db})
	if err != nil {
		return "", err
	}
	for _, log := range logs {
		if log.Num < first {
			continue
		}
		if whole, err := c.holdsLog(log); err != nil || !whole {
			_, path := log.SegmentLocation(0)
			return fmt.Sprintf("its file db/%s is corrupt", c.fs.PathBase(path)), err
		}
	}
	return "", nil
}

// holdsLog reports whether a log begins with its synced bytes, as far as they are known.
func (c *intact) holdsLog(log wal.LogicalLog) (bool, error) {
	disk, path := log.SegmentLocation(0)
	if synced, known := readExtent(disk, path); known {
		return synced.holds(disk, path)
	}
	end, err := endOf(log)
	return end != endCorrupt, err
}

// logEnd is the state of the end of a log.
type logEnd int

const (
	endTorn    logEnd = iota // after a crash
	endClosed                // after a clean shutdown
	endCorrupt               // closed cleanly, but unreadable before its end
)

// endOf reads a log. A cleanly closed log has a trailer with the next log number.
func endOf(log wal.LogicalLog) (logEnd, error) {
	r := log.OpenForRead()
	var at int64
	var err error
	for err == nil {
		var offset wal.Offset
		_, offset, err = r.NextRecord()
		at = offset.Physical
	}
	if cerr := r.Close(); cerr != nil {
		return endTorn, fmt.Errorf("read log: %w", cerr)
	}
	torn := errors.Is(err, record.ErrZeroedChunk) || errors.Is(err, record.ErrInvalidChunk) || errors.Is(err, record.ErrUnexpectedEOF) || pebble.IsCorruptionError(err)
	if !torn && !errors.Is(err, io.EOF) {
		return endTorn, fmt.Errorf("read log: %w", err)
	}
	rest, err := readFrom(log, at)
	const fullChunk = 5
	trailer := binary.LittleEndian.AppendUint32([]byte{6: fullChunk}, uint32(log.Num)+1)
	switch {
	case err != nil:
		return endTorn, err
	case !torn && bytes.HasPrefix(rest, trailer):
		return endClosed, nil
	case bytes.Contains(rest, trailer):
		return endCorrupt, nil
	}
	return endTorn, nil
}

// readFrom returns the bytes of a log from an offset on.
func readFrom(log wal.LogicalLog, at int64) ([]byte, error) {
	disk, path := log.SegmentLocation(0)
	all, err := readUpTo(disk, path, 1<<62)
	if err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	return all[min(at, int64(len(all))):], nil
}

// closed reports whether the last store in the folder was closed cleanly.
func (c *intact) closed() (bool, error) {
	logs, err := wal.Scan(wal.Dir{FS: c.fs, Dirname: c.db})
	if err != nil || len(logs) == 0 {
		return false, err
	}
	end, err := endOf(logs[len(logs)-1])
	return end == endClosed, err
}

// unknownTables opens the folder read-only as if it had the given markers too. It returns the tables
// that its manifest does not name. ok is false if the folder cannot be opened.
func (c *intact) unknownTables(markers []string) (unknown []string, ok bool) {
	quiet := newFailure(c.dir, discard, func(error) {})
	opts := pebbleOptions(&markedFS{c.fs, c.db, markers}, discard, quiet, newBackoffs(discard, quiet))
	opts.ReadOnly, opts.ErrorIfNotExists, opts.Lock = true, true, c.lock
	db, err := pebble.Open(c.db, opts)
	if err != nil {
		return nil, false
	}
	levels, err := db.SSTables()
	if cerr := db.Close(); err != nil || cerr != nil {
		return nil, false
	}
	known := map[string]bool{}
	for _, level := range levels {
		for _, table := range level {
			known[table.FileNum.String()+tableSuffix] = true
		}
	}
	for _, name := range c.names {
		if strings.HasSuffix(name, tableSuffix) && !known[name] {
			unknown = append(unknown, name)
		}
	}
	return unknown, true
}

// markedFS adds files to the listing of a folder.
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
