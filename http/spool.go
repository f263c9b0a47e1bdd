package http

import (
	"errors"
	"fmt"
	"io"
	"os"
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

// Write implements io.Writer.
func (s *spool) Write(p []byte) (int, error) {
	if s.file == nil && len(s.mem)+len(p) <= s.bound {
		if need := len(s.mem) + len(p); need > cap(s.mem) {
			// Doubled up to the bound exactly, which append would overshoot.
			s.mem = append(make([]byte, 0, min(s.bound, max(need, 2*cap(s.mem)))), s.mem...)
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
