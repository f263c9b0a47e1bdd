package jsonl

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// rotate renames the file to the next number, creates a new one and removes the oldest. It reserves
// the new name first: two Files that rotate at once get two names, at worst with one short file.
func (f *File) rotate() error {
	numbers, err := rotated(f.path)
	if err != nil {
		return err
	}
	next := 1
	if len(numbers) > 0 {
		next = numbers[len(numbers)-1] + 1
	}
	for ; ; next++ {
		file, err := os.OpenFile(numbered(f.path, next), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := file.Close(); err != nil {
			return err
		}
		break
	}
	if err := f.moveTo(numbered(f.path, next)); err != nil {
		// At every attempt, an empty file would displace one of those to keep.
		return errors.Join(err, os.Remove(numbered(f.path, next)))
	}
	if err := f.open(); err != nil {
		return err
	}
	numbers = append(numbers, next)
	for _, n := range numbers[:max(0, len(numbers)-f.opts.Keep)] {
		if err := os.Remove(numbered(f.path, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// moveTo closes the file and renames it. It may have been removed.
func (f *File) moveTo(name string) error {
	if err := f.release(); err != nil {
		return err
	}
	if err := os.Rename(f.path, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Files returns the existing files of a path, oldest first: the renamed ones, then the current one.
func Files(path string) ([]string, error) {
	numbers, err := rotated(path)
	if err != nil {
		return nil, fmt.Errorf("list events files of %s: %w", path, err)
	}
	var files []string
	for _, n := range numbers {
		files = append(files, numbered(path, n))
	}
	switch _, err := os.Stat(path); {
	case err == nil:
		files = append(files, path)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("list events files of %s: %w", path, err)
	}
	return files, nil
}

func numbered(path string, n int) string { return fmt.Sprintf("%s.%06d", path, n) }

// rotated returns the numbers of the renamed files, ascending.
func rotated(path string) (numbers []int, err error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+".")
		if n, err := strconv.Atoi(digits); ok && err == nil && n > 0 && fmt.Sprintf("%06d", n) == digits {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}
