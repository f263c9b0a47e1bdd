package http

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
)

const (
	// spoolBytes is the most that a spool takes into memory before anything came.
	spoolBytes = 8 << 10
	// fileBuffer and memoryBuffer are how much a reader of a spool takes at a time:
	// a read of memory costs next to nothing.
	fileBuffer   = 16 << 10
	memoryBuffer = 512
)

// spool holds bytes in memory up to a bound and all of them in a temporary file
// beyond it. Writing comes first, then reading; reads may be concurrent.
type spool struct {
	dir   string
	bound int
	mem   []byte
	file  *os.File
	// unlinked is set when the file has no name any more and ends with its handle.
	unlinked bool
	size     int64
}

func newSpool(dir string, bound int) *spool { return &spool{dir: dir, bound: bound} }

// reserve makes room in memory for n more bytes, within the bound.
func (s *spool) reserve(n int) {
	if need := len(s.mem) + n; need > cap(s.mem) {
		// Doubled up to the bound exactly, which append would overshoot.
		s.mem = append(make([]byte, 0, min(s.bound, max(need, 2*cap(s.mem)))), s.mem...)
	}
}

// readAll writes all of r, which is said to have size bytes; -1 is unknown. What
// stays in memory is read into its place.
func (s *spool) readAll(r io.Reader, size int64) error {
	if size < 0 {
		size = spoolBytes / 16
	}
	// One byte more than there are, so that the end is found without growth.
	s.reserve(int(min(size+1, spoolBytes)))
	for len(s.mem) < s.bound {
		s.reserve(1)
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
		s.reserve(len(p))
		s.mem = append(s.mem, p...)
		s.size += int64(len(p))
		return len(p), nil
	}
	if s.file == nil {
		if err := s.spill(); err != nil {
			return 0, err
		}
	}
	n, err := s.file.Write(p)
	s.size += int64(n)
	if err != nil {
		return n, fmt.Errorf("write temporary file: %w", err)
	}
	return n, nil
}

// spill moves what is in memory to a file.
func (s *spool) spill() error {
	f, err := os.CreateTemp(s.dir, "parley-*.tmp")
	if err != nil {
		return fmt.Errorf("create temporary file: %w", err)
	}
	s.file = f
	// Unlinked at once, so that a crash leaves nothing behind. Some systems refuse
	// that for an open file; Close removes it there.
	s.unlinked = os.Remove(f.Name()) == nil
	if _, err := f.Write(s.mem); err != nil {
		return fmt.Errorf("write temporary file: %w", err)
	}
	s.mem = nil
	return nil
}

// ReadAt implements io.ReaderAt.
func (s *spool) ReadAt(p []byte, off int64) (int, error) {
	if s.file != nil {
		return s.file.ReadAt(p, off)
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
		return nil, fmt.Errorf("read temporary file: %w", err)
	}
	return b, nil
}

// Close drops the bytes.
func (s *spool) Close() error {
	s.mem = nil
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	if !s.unlinked {
		err = errors.Join(err, os.Remove(s.file.Name()))
	}
	return err
}
