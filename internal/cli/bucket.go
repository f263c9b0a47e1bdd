package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/internal/readsocket"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
)

// OpenBucket opens a bucket without starting a node.
func OpenBucket(at config.Bucket) (storage.Bucket, func() error, error) {
	return openBucket(at, local.Open)
}

// OpenExisting opens a bucket that already holds conversations. It does not create or modify a folder
// that is not a Parley data folder.
func OpenExisting(at config.Bucket) (storage.Bucket, func() error, error) {
	return openBucket(at, func(dir string, opts *local.Options) (*local.Store, error) {
		for _, name := range []string{"db", "objects"} {
			if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
				return local.Open(dir, opts)
			}
		}
		return nil, local.ErrNoStore
	})
}

// OpenForReading opens a bucket that already holds conversations and does not modify its folder. A
// folder that another process serves is read through the socket of that process.
func OpenForReading(at config.Bucket) (storage.Bucket, func() error, error) {
	var served error
	if at.Endpoint == "" {
		var b *readsocket.Bucket
		if b, served = readsocket.Open(at.Dir); served == nil {
			return b, b.Close, nil
		}
	}
	bucket, closeBucket, err := openBucket(at, local.OpenReadOnly)
	if exit, ok := errors.AsType[*ExitError](err); ok {
		err = &ExitError{Code: exit.Code, Err: fmt.Errorf("%w; reading through its socket failed: %w", exit.Err, served)}
	}
	return bucket, closeBucket, err
}

func openBucket(at config.Bucket, open func(string, *local.Options) (*local.Store, error)) (storage.Bucket, func() error, error) {
	if at.Endpoint != "" {
		bucket, err := at.Open()
		return bucket, func() error { return nil }, err
	}
	// Opening creates the folder, so a mistyped name is rejected first.
	if info, err := os.Stat(at.Dir); err != nil || !info.IsDir() {
		return nil, nil, fmt.Errorf("open the data folder: %s is not a folder; name an existing one with --data, or in the configuration file", at.Dir)
	}
	store, err := open(at.Dir, nil)
	if err != nil {
		return nil, nil, FolderError(at.Dir, err)
	}
	return store, store.Close, nil
}

// FolderError adds a remedy to an error of opening a data folder. The error of a folder that is in use
// carries [ExitRefused].
func FolderError(dir string, err error) error {
	var locked *local.LockedError
	var corrupt *local.CorruptError
	var path *fs.PathError
	switch {
	case errors.Is(err, local.ErrNoStore):
		return fmt.Errorf("open the data folder: %s is not a data folder, it has no conversations; name another one with --data, or in the configuration file", dir)
	case errors.As(err, &corrupt):
		return fmt.Errorf("open the data folder: %w", err)
	case errors.As(err, &locked):
		err = fmt.Errorf("open the data folder: %s is in use by another process: stop that process, such as parley dev or serve, and retry, or name another folder with --data (%w); commands that call its server over HTTP, such as parley send, need no folder", dir, locked.Err)
		return &ExitError{Code: ExitRefused, Err: err}
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("open the data folder: %w; let this user read and write all of it, or name another folder with --data", err)
	case errors.As(err, &path):
		return fmt.Errorf("open the data folder: %w; name another folder with --data", err)
	}
	return fmt.Errorf("open the data folder: %w", err)
}
