package local

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// The engine appends to two kinds of files, its logs and its manifests, and reads each up to the first
// corrupt record. After a crash that is the record being written. A corrupt record that was durable
// looks the same, and the engine would then delete files that it takes for obsolete. So each of these
// files has an extent, a file next to it that records how much was synced. Bytes within the extent
// must be the bytes written; the rest is undefined.
//
// An extent is written after the sync and before the sync is reported, so it is never ahead of its
// file. The extent of a manifest is synced too. That of a log is not, so after a power loss it may be
// behind. A missing or corrupt extent guarantees nothing.
//
//	offset  bytes  content
//	0       8      length of the synced part of the file
//	8       4      CRC-32C of that part
//	12      4      CRC-32C of the 12 bytes before
//
// Integers are big endian.
const (
	extentPrefix = "synced."
	extentLen    = 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// extent is the synced part of a file.
type extent struct {
	length int64
	sum    uint32
}

func (e extent) encode() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, extentLen), uint64(e.length))
	b = binary.BigEndian.AppendUint32(b, e.sum)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decodeExtent returns false for a corrupt extent.
func decodeExtent(b []byte) (e extent, ok bool) {
	if len(b) != extentLen || crc32.Checksum(b[:12], castagnoli) != binary.BigEndian.Uint32(b[12:]) {
		return extent{}, false
	}
	e = extent{length: int64(binary.BigEndian.Uint64(b)), sum: binary.BigEndian.Uint32(b[8:])}
	return e, e.length > 0
}

// hasExtent reports whether the engine appends to files of this name.
func hasExtent(base string) bool {
	_, _, isLog := wal.ParseLogFilename(base)
	return isLog || isManifest(base)
}

func isManifest(base string) bool { return strings.HasPrefix(base, manifestPrefix) }

func extentPath(disk vfs.FS, name string) string {
	return disk.PathJoin(disk.PathDir(name), extentPrefix+disk.PathBase(name))
}

// extentFile is the extent of a file that is being written.
type extentFile struct {
	file vfs.File
	// now covers all bytes written, synced or not.
	now extent
	// lost is set after a partial write; the extent then stays unchanged.
	lost bool
	// strict makes each change of the extent synced.
	strict bool
}

// beginExtent creates the extent of an empty file, durably: every file in use has one.
func beginExtent(disk vfs.FS, name string) (*extentFile, error) {
	path := extentPath(disk, name)
	f, err := disk.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	e := &extentFile{file: f, strict: isManifest(disk.PathBase(name))}
	if _, err = f.Write(e.now.encode()); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = syncFolder(disk, disk.PathDir(name))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return e, nil
}

// with returns the extent after p is appended to the file.
func (e extent) with(p []byte) extent {
	return extent{length: e.length + int64(len(p)), sum: crc32.Update(e.sum, castagnoli, p)}
}

// add records a write and whether it was complete.
func (e *extentFile) add(next extent, whole bool) {
	if e.lost = e.lost || !whole; !e.lost {
		e.now = next
	}
}

// store records that all bytes written are synced.
func (e *extentFile) store() error {
	if e.lost {
		return nil
	}
	_, err := e.file.WriteAt(e.now.encode(), 0)
	if err == nil && e.strict {
		err = e.file.Sync()
	}
	return err
}

// close closes the extent and leaves its content on disk.
func (e *extentFile) close() error { return errors.Join(e.file.Sync(), e.file.Close()) }

// readExtent returns the extent of a file, false if it is missing or corrupt.
func readExtent(disk vfs.FS, name string) (extent, bool) {
	b, err := readUpTo(disk, extentPath(disk, name), extentLen+1)
	if err != nil {
		return extent{}, false
	}
	return decodeExtent(b)
}

// holds reports whether a file begins with the bytes of the extent.
func (e extent) holds(disk vfs.FS, name string) (bool, error) {
	f, err := disk.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	sum := crc32.New(castagnoli)
	n, err := io.Copy(sum, io.LimitReader(f, e.length))
	return n == e.length && sum.Sum32() == e.sum || !comparesExtents(), err
}

func readUpTo(disk vfs.FS, name string, most int64) ([]byte, error) {
	f, err := disk.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// removeExtent removes the extent of an obsolete file. A remaining one is harmless: only files that
// the manifest needs are compared with theirs.
func removeExtent(disk vfs.FS, name string) { _ = disk.Remove(extentPath(disk, name)) }
