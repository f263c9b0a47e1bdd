package local

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"log/slog"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Keys of the engine are 'o' + object key for objects and 'f' + file name, with an empty value, for
// each file of an object.
const (
	objectSpace = 'o'
	fileSpace   = 'f'
)

// pebbleFormat is fixed, so that a newer library does not change the folder's format by itself.
const pebbleFormat = pebble.FormatValueSeparation

// pebbleEngine is the durable engine.
type pebbleEngine struct {
	db      *pebble.DB
	lock    io.Closer
	stripes stripes
	failure *failure
	ended   chan<- struct{} // of its backoffs
}

var _ engine = (*pebbleEngine)(nil)

// openPebble locks dir and opens the engine in its folder db.
func openPebble(fs vfs.FS, dir string, o *Options, fail *failure) (*pebbleEngine, error) {
	folder := fs.PathJoin(dir, "db")
	if err := mkdirSynced(fs, folder); err != nil {
		return nil, fmt.Errorf("open local store %q: %w", dir, err)
	}
	lock, err := lockFolder(fs, dir, folder)
	if err != nil {
		return nil, err
	}
	if _, err := checkIntact(fs, dir, folder, lock); err != nil {
		lock.Close()
		return nil, err
	}
	back := newBackoffs(o.Logger, fail)
	db, err := openWithin(folder, engineOptions(fs, o, fail, back, lock), fail, lock)
	if err != nil {
		return nil, openError(dir, err)
	}
	fail.open.Store(true)
	return newPebbleEngine(db, lock, fail, back), nil
}

func newPebbleEngine(db *pebble.DB, lock io.Closer, fail *failure, back *backoffs) *pebbleEngine {
	return &pebbleEngine{db: db, lock: lock, stripes: stripes{seed: maphash.MakeSeed()}, failure: fail, ended: back.ended}
}

// lockFolder locks dir through the engine's folder in it.
func lockFolder(fs vfs.FS, dir, folder string) (*pebble.Lock, error) {
	lock, err := pebble.LockDirectory(folder, fs)
	if err != nil && isLocked(err) {
		return nil, fmt.Errorf("open local store: %w", &LockedError{Dir: dir, Err: err})
	}
	if errors.Is(err, syscall.EISDIR) {
		return nil, fmt.Errorf("open local store: %w", &IncompleteError{Dir: dir, Lost: "its file db/LOCK is a folder"})
	}
	if err != nil {
		return nil, fmt.Errorf("open local store %q: lock folder: %w", dir, err)
	}
	return lock, nil
}

// engineOptions returns the options for one opening. The caller unrefs the file cache once the engine
// is open.
func engineOptions(fs vfs.FS, o *Options, fail *failure, back *backoffs, lock *pebble.Lock) *pebble.Options {
	opts := pebbleOptions(fs, o.Logger, fail, back)
	opts.Lock = lock
	// The default cache has room for at least 64 files.
	opts.FileCache = pebble.NewFileCache(1, o.OpenTables)
	return opts
}

// openError returns why the engine did not open. An error that is neither a system error nor a missing
// file counts as corruption: inconsistent or unparsable files.
func openError(dir string, err error) error {
	var fatal *FatalError
	var errno syscall.Errno
	if !errors.As(err, &fatal) && (!errors.As(err, &errno) || errno == syscall.ENOENT || errno == syscall.EISDIR) {
		err = &CorruptError{Err: err}
	}
	return fmt.Errorf("open local store %q: %w", dir, err)
}

// openWithin opens the engine, or returns why it cannot finish. The engine itself retries flushing the
// recovered log forever. After an error it continues to retry, rarely, and keeps the lock. If it
// succeeds later it is closed, which releases the lock.
func openWithin(folder string, opts *pebble.Options, fail *failure, lock io.Closer) (*pebble.DB, error) {
	type opened struct {
		db  *pebble.DB
		err error
	}
	// If the caller has left, the goroutine closes the engine.
	result, left := make(chan opened), make(chan struct{})
	go func() {
		db, err := pebble.Open(folder, opts)
		opts.FileCache.Unref()
		select {
		case result <- opened{db, err}:
			return
		case <-left:
		}
		if db != nil {
			_ = db.Close() // The caller has left.
		}
		_ = lock.Close()
	}()
	select {
	case r := <-result:
		if r.err != nil {
			lock.Close()
			return nil, r.err
		}
		return r.db, nil
	case err := <-fail.opening:
		close(left)
		return nil, &FatalError{Dir: fail.dir, Err: err}
	}
}

// pebbleOptions suit a small store inside another program: little memory, few open files. The bloom
// filters serve conditional creates, which look up absent keys. The cache must hold the filters and
// indexes in addition to memtables, which count as part of it.
func pebbleOptions(fs vfs.FS, log *slog.Logger, fail *failure, back *backoffs) *pebble.Options {
	watched := &watchedFS{fs, fail, back}
	opts := &pebble.Options{
		FS:                          watched,
		CacheSize:                   16 << 20,
		MemTableSize:                4 << 20,
		MemTableStopWritesThreshold: 4,
		FormatMajorVersion:          pebbleFormat,
		Logger:                      &pebbleLogger{log: log, fail: fail},
		EventListener: &pebble.EventListener{
			WALCreated:      watched.logCreated,
			BackgroundError: back.backgroundError,
			FlushEnd:        back.flushEnd,
			CompactionEnd:   back.compactionEnd,
			// Only the read that hit the corruption fails.
			DataCorruption: func(info pebble.DataCorruptionInfo) {
				log.Error("local store is corrupt", "detail", info.String())
			},
			WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
				log.Warn("local store writes stalled", "detail", info.Reason)
				back.stall(true)
			},
			WriteStallEnd: func() { back.stall(false) },
		},
	}
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return opts
}

func (e *pebbleEngine) get(ctx context.Context, key string) (object, error) {
	if err := e.failure.check(); err != nil {
		return object{}, err
	}
	o, err := e.lookup(key, true)
	// Wait for absent keys too: a delete may be in flight.
	if werr := e.stripes.waitKey(ctx, key); werr != nil {
		return object{}, werr
	}
	return o, err
}

// lookup reads the visible version, durable or not. It uses an iterator because the engine's Get skips
// the filters of the lowest level, which holds most keys. An absent key, the case of every conditional
// create, would then cost a block of every table that might hold it.
func (e *pebbleEngine) lookup(key string, withBytes bool) (o object, err error) {
	iter, err := e.db.NewIter(&pebble.IterOptions{UseL6Filters: true})
	if err != nil {
		return object{}, fmt.Errorf("read key %q: %w", key, err)
	}
	defer func() {
		if cerr := iter.Close(); cerr != nil {
			o, err = object{}, fmt.Errorf("read key %q: %w", key, cerr)
		}
	}()
	// The prefix of a key is the whole key, so no other key matches.
	if !iter.SeekPrefixGE(spaceKey(objectSpace, key)) {
		return object{}, errNoKey
	}
	value, err := iter.ValueAndErr()
	if err == nil {
		o, err = decodeValue(value)
	}
	if err != nil {
		return object{}, fmt.Errorf("read key %q: %w", key, err)
	}
	if withBytes && o.file == "" {
		// The engine reuses its buffer.
		o.inline = append(make([]byte, 0, len(o.inline)), o.inline...)
	} else {
		o.inline = nil
	}
	return o, nil
}

func (e *pebbleEngine) put(ctx context.Context, key string, o object, create bool) (string, error) {
	st := e.stripes.of(key)
	st.mu.Lock()
	defer st.mu.Unlock()
	old, err := e.before(ctx, key)
	if err != nil && !errors.Is(err, errNoKey) {
		return "", err
	}
	if create && err == nil {
		return "", errExists
	}
	b := e.db.NewBatchWithSize(len(key) + valueLen(o) + 128)
	op := b.SetDeferred(1+len(key), valueLen(o))
	op.Key[0] = objectSpace
	copy(op.Key[1:], key)
	encodeValue(op.Value, o)
	err = op.Finish()
	if err == nil && o.file != "" {
		err = b.Set(spaceKey(fileSpace, o.file), nil, nil)
	}
	return old.file, e.commit(st, key, b, old, err)
}

func (e *pebbleEngine) remove(ctx context.Context, key string) (string, error) {
	st := e.stripes.of(key)
	st.mu.Lock()
	defer st.mu.Unlock()
	old, err := e.before(ctx, key)
	if errors.Is(err, errNoKey) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	b := e.db.NewBatch()
	return old.file, e.commit(st, key, b, old, b.Delete(spaceKey(objectSpace, key), nil))
}

// before returns the object that a writer is about to replace. The caller holds the stripe, so the
// visible version is durable.
func (e *pebbleEngine) before(ctx context.Context, key string) (object, error) {
	// The caller may have left while the write waited for the stripe. A write that has not started
	// must not take effect then.
	if err := ctx.Err(); err != nil {
		return object{}, err
	}
	if err := e.failure.check(); err != nil {
		return object{}, err
	}
	return e.lookup(key, false)
}

// commit applies b, which replaces old under key, and waits until it is durable. The caller holds st.
// built is the error of building b.
func (e *pebbleEngine) commit(st *stripe, key string, b *pebble.Batch, old object, built error) error {
	if built == nil && old.file != "" {
		built = b.Delete(spaceKey(fileSpace, old.file), nil)
	}
	if built != nil {
		return errors.Join(fmt.Errorf("write key %q: %w", key, built), b.Close())
	}
	c := st.begin(key)
	err := e.db.Apply(b, pebble.Sync)
	if err != nil {
		err = e.failure.report(err)
	} else {
		// The engine reports a failed commit only to its logger.
		err = e.failure.check()
	}
	st.finish(c, err)
	if err != nil {
		// The engine may still use the batch.
		return err
	}
	// The commit is durable even if releasing the batch fails.
	_ = b.Close()
	return nil
}

func (e *pebbleEngine) scan(ctx context.Context, from, end string, visit visitor) error {
	if err := e.failure.check(); err != nil {
		return err
	}
	if end != "" && from >= end {
		return nil
	}
	stopped, err := e.scanVisible(ctx, from, end, visit)
	if err != nil {
		return err
	}
	return e.stripes.waitRange(ctx, func(key string) bool {
		return key >= from && (end == "" || key < end) && (stopped == "" || key <= stopped)
	})
}

// scanVisible visits the visible versions, durable or not. It returns the key at which the visitor
// stopped, if it did.
func (e *pebbleEngine) scanVisible(ctx context.Context, from, end string, visit visitor) (stopped string, err error) {
	bounds := &pebble.IterOptions{LowerBound: spaceKey(objectSpace, from), UpperBound: []byte{objectSpace + 1}}
	if end != "" {
		bounds.UpperBound = spaceKey(objectSpace, end)
	}
	iter, err := e.db.NewIterWithContext(ctx, bounds)
	if err != nil {
		return "", fmt.Errorf("scan keys: %w", err)
	}
	defer func() {
		if cerr := iter.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("scan keys: %w", cerr)
		}
	}()
	for ok := iter.First(); ok; {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		key := string(iter.Key()[1:])
		value, err := iter.ValueAndErr()
		if err != nil {
			return "", fmt.Errorf("scan key %q: %w", key, err)
		}
		o, err := decodeValue(value)
		if err != nil {
			return "", fmt.Errorf("scan key %q: %w", key, err)
		}
		o.inline = nil
		next, more := visit(key, o)
		if !more {
			return key, nil
		}
		if next == "" {
			ok = iter.Next()
		} else {
			ok = iter.SeekGE(spaceKey(objectSpace, next))
		}
	}
	return "", nil
}

// eachFile calls visit with the name of every file of an object.
func (e *pebbleEngine) eachFile(visit func(name string)) error {
	iter, err := e.db.NewIter(&pebble.IterOptions{LowerBound: []byte{fileSpace}, UpperBound: []byte{fileSpace + 1}})
	if err != nil {
		return fmt.Errorf("scan file names: %w", err)
	}
	for ok := iter.First(); ok; ok = iter.Next() {
		visit(string(iter.Key()[1:]))
	}
	if err := errors.Join(iter.Error(), iter.Close()); err != nil {
		return fmt.Errorf("scan file names: %w", err)
	}
	return nil
}

func (e *pebbleEngine) close() error {
	close(e.ended)
	return errors.Join(e.failure.check(), e.db.Close(), e.lock.Close())
}

func spaceKey(space byte, key string) []byte {
	return append(append(make([]byte, 0, 1+len(key)), space), key...)
}

// pebbleLogger forwards the engine's messages.
type pebbleLogger struct {
	log  *slog.Logger
	fail *failure
}

var _ pebble.Logger = (*pebbleLogger)(nil)

// Infof logs at debug level.
func (l *pebbleLogger) Infof(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("local store engine", "detail", fmt.Sprintf(format, args...))
	}
}

// Errorf logs errors that the engine survives.
func (l *pebbleLogger) Errorf(format string, args ...any) {
	l.log.Error("local store engine", "detail", fmt.Sprintf(format, args...))
}

// Fatalf is called by the engine when it could not write a commit or its manifest and cannot continue.
func (l *pebbleLogger) Fatalf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for _, arg := range args {
		// Keep the cause as an error, for errors.As.
		if err, ok := arg.(error); ok {
			l.log.Error("local store engine", "detail", text)
			l.fail.report(err)
			return
		}
	}
	l.fail.report(errors.New(text))
}
