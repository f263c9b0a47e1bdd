package http

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/memory"
)

const (
	// spoolBytes is the maximum initial allocation of a spool.
	spoolBytes = 8 << 10
	// fileBuffer and memoryBuffer are the buffer sizes of a spool's readers, in bytes. Reads from memory are
	// cheap.
	fileBuffer   = 16 << 10
	memoryBuffer = 512
)

// spools contains the shared settings of a handler's spools: their directory, and their memory and
// disk limits.
type spools struct {
	dir          string
	memory, disk *memory.Account
	allowed      func(n int64) error // nil means no limit
}

// room returns an error if n more bytes do not fit into a file. It reserves nothing.
func (s *spools) room(n int64) error {
	err := s.take(n)
	if err == nil {
		s.disk.Add(-n)
	}
	return err
}

// take reserves n bytes of disk.
func (s *spools) take(n int64) error {
	if s.allowed != nil {
		if err := s.allowed(n); err != nil {
			return diskError("write", err)
		}
	}
	return s.disk.Take(n)
}

// check reports whether temporary files can be made.
func (s *spools) check() error {
	f, err := os.CreateTemp(s.dir, spoolPattern)
	if err != nil {
		return fmt.Errorf("temporary folder %s cannot be used: %w; set TMPDIR to a folder that this process may write to", s.dir, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

const (
	// spoolRetryAfter is the Retry-After after a failure of a temporary file.
	spoolRetryAfter = 5 * time.Second
	spoolPattern    = "parley-*.tmp"
)

// diskError returns runtime_unavailable for a failure of a temporary file. Nothing was admitted, so
// the request can be repeated.
func diskError(verb string, err error) error {
	return conversation.Unavailable(spoolRetryAfter, fmt.Errorf("%s temporary file: %w", verb, err))
}

// open returns an empty spool that holds at most bound bytes in memory.
func (s *spools) open(bound int) *spool { return &spool{in: s, bound: bound} }

// spool holds bytes in memory up to a bound, beyond it in a temporary file. It is written first and
// read later; reads may be concurrent.
type spool struct {
	in    *spools
	bound int
	mem   []byte
	file  *os.File
	// unlinked is set once the file is removed and exists only while open.
	unlinked bool
	size     int64
	// memory and disk are its reserved bytes.
	memory, disk int64
}

// reserve makes room in memory for n more bytes, within the bound.
func (s *spool) reserve(n int) error {
	need := len(s.mem) + n
	if need <= cap(s.mem) {
		return nil
	}
	// Double up to exactly the bound; append would exceed it.
	size := min(s.bound, max(need, 2*cap(s.mem)))
	more := int64(size) - s.memory
	if err := s.in.memory.Take(more); err != nil {
		return err
	}
	s.memory += more
	s.mem = append(make([]byte, 0, size), s.mem...)
	return nil
}

// readAll writes all of r. size is the declared length, or -1. Data that stays in memory is read in
// place.
func (s *spool) readAll(r io.Reader, size int64) error {
	if size < 0 {
		size = spoolBytes / 16
	}
	// One extra byte lets the last read find the end without growth.
	if err := s.reserve(int(min(size+1, spoolBytes))); err != nil {
		return err
	}
	for len(s.mem) < s.bound {
		if err := s.reserve(1); err != nil {
			return err
		}
		n, err := r.Read(s.mem[len(s.mem):cap(s.mem)])
		s.mem = s.mem[:len(s.mem)+n]
		s.size += int64(n)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	_, err := io.Copy(s, r)
	return err
}

// Write implements io.Writer.
func (s *spool) Write(p []byte) (int, error) {
	if s.file == nil && len(s.mem)+len(p) <= s.bound {
		if err := s.reserve(len(p)); err != nil {
			return 0, err
		}
		s.mem = append(s.mem, p...)
		s.size += int64(len(p))
		return len(p), nil
	}
	if s.file == nil {
		if err := s.spill(); err != nil {
			return 0, err
		}
	}
	if err := s.grow(len(p)); err != nil {
		return 0, err
	}
	n, err := s.file.Write(p)
	s.size += int64(n)
	if err != nil {
		return n, diskError("write", err)
	}
	return n, nil
}

// spill moves the memory to a file.
func (s *spool) spill() error {
	if err := s.grow(len(s.mem)); err != nil {
		return err
	}
	f, err := os.CreateTemp(s.in.dir, spoolPattern)
	if err != nil {
		return diskError("create", err)
	}
	s.file = f
	// Unlink at once, so that a crash leaves no file. Some systems refuse it for an open file; Close
	// removes it there.
	s.unlinked = os.Remove(f.Name()) == nil
	if _, err := f.Write(s.mem); err != nil {
		return diskError("write", err)
	}
	s.release()
	return nil
}

// grow reserves n more bytes of the file.
func (s *spool) grow(n int) error {
	if err := s.in.take(int64(n)); err != nil {
		return err
	}
	s.disk += int64(n)
	return nil
}

// release frees the memory.
func (s *spool) release() {
	s.in.memory.Add(-s.memory)
	s.mem, s.memory = nil, 0
}

// ReadAt implements io.ReaderAt.
func (s *spool) ReadAt(p []byte, off int64) (int, error) {
	if s.file != nil {
		n, err := s.file.ReadAt(p, off)
		if err != nil && !errors.Is(err, io.EOF) {
			err = diskError("read", err)
		}
		return n, err
	}
	if off >= int64(len(s.mem)) {
		return 0, io.EOF
	}
	n := copy(p, s.mem[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// section reads the bytes of a span.
func (s *spool) section(v span) *io.SectionReader {
	return io.NewSectionReader(s, v.from, v.to-v.from)
}

// reader reads the bytes of a span in pieces.
func (s *spool) reader(v span) *bufio.Reader {
	size := int64(fileBuffer)
	if s.file == nil {
		size = memoryBuffer
	}
	return bufio.NewReaderSize(s.section(v), int(min(size, v.size())))
}

// bytes returns the bytes of a span. They are shared with the spool and must not be
// changed.
func (s *spool) bytes(v span) ([]byte, error) {
	if s.file == nil {
		return s.mem[v.from:v.to:v.to], nil
	}
	b := make([]byte, v.size())
	if _, err := io.ReadFull(s.section(v), b); err != nil {
		return nil, diskError("read", err)
	}
	return b, nil
}

// Close releases the bytes.
func (s *spool) Close() error {
	s.release()
	s.in.disk.Add(-s.disk)
	s.disk = 0
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	if !s.unlinked {
		err = errors.Join(err, os.Remove(s.file.Name()))
	}
	return err
}
