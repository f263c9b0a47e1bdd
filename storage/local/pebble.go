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

// The engine's keys are 'o' + object key for objects and 'f' + file name, with
// an empty value, for each file that an object names.
const (
	objectSpace = 'o'
	fileSpace   = 'f'
)

// pebbleFormat is a fixed version: a newer library must not change the folder's format
// by itself.
const pebbleFormat = pebble.FormatValueSeparation

// pebbleEngine is the durable engine.
type pebbleEngine struct {
	db      *pebble.DB
	lock    io.Closer
	stripes stripes
	failure *failure
	ended   chan<- struct{} // of its setbacks
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
	back := newSetbacks(o.Logger, fail)
	db, err := openWithin(folder, engineOptions(fs, o, fail, back, lock), fail, lock)
	if err != nil {
		return nil, openError(dir, err)
	}
	fail.open.Store(true)
	return newPebbleEngine(db, lock, fail, back), nil
}

func newPebbleEngine(db *pebble.DB, lock io.Closer, fail *failure, back *setbacks) *pebbleEngine {
	return &pebbleEngine{db: db, lock: lock, stripes: stripes{seed: maphash.MakeSeed()}, failure: fail, ended: back.ended}
}

// lockFolder locks dir by the engine's folder in it.
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

// engineOptions are those for one opening. The caller unrefs the file cache once the engine
// is open.
func engineOptions(fs vfs.FS, o *Options, fail *failure, back *setbacks, lock *pebble.Lock) *pebble.Options {
	opts := pebbleOptions(fs, o.Logger, fail, back)
	opts.Lock = lock
	// The engine's own has room for no less than 64.
	opts.FileCache = pebble.NewFileCache(1, o.OpenTables)
	return opts
}

// openError is why the engine could not be opened. What is not the system's refusal, or a
// file that is not there, is damage: files that do not fit each other, or do not parse.
func openError(dir string, err error) error {
	var fatal *FatalError
	var errno syscall.Errno
	if !errors.As(err, &fatal) && (!errors.As(err, &errno) || errno == syscall.ENOENT || errno == syscall.EISDIR) {
		err = &CorruptError{Err: err}
	}
	return fmt.Errorf("open local store %q: %w", dir, err)
}

// openWithin opens the engine, or returns why that cannot come to an end: the engine
// itself tries for ever to flush what it found in the log. It goes on with that then,
// seldom, and keeps the lock; if it succeeds after all it is closed. On an error the
// lock is closed, or will be.
func openWithin(folder string, opts *pebble.Options, fail *failure, lock io.Closer) (*pebble.DB, error) {
	type opened struct {
		db  *pebble.DB
		err error
	}
	// Whoever does not take the result leaves it to the goroutine.
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
			_ = db.Close() // Nobody is left to be told.
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

// pebbleOptions fit a small store inside another program: little memory, few
// open files. The bloom filters are for conditional creates, which look up keys
// that are not there; the cache is to hold them and the indexes beside memtables,
// which count as part of it.
func pebbleOptions(fs vfs.FS, log *slog.Logger, fail *failure, back *setbacks) *pebble.Options {
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
			// The read that met the damage fails; the rest of the store does not.
			DataCorruption: func(info pebble.DataCorruptionInfo) {
				log.Error("local store is damaged", "detail", info.String())
			},
			WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
				log.Warn("local store stalls writes", "detail", info.Reason)
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
	// Absence is awaited as well: it may be the work of a deletion in flight.
	if werr := e.stripes.waitKey(ctx, key); werr != nil {
		return object{}, werr
	}
	return o, err
}

// lookup reads what is visible now, durable or not. It is an iterator and not the
// engine's Get because Get passes over the filters of the lowest level, where most
// keys are: a key that is not there, which is the case of every conditional create,
// would then cost a block of every table that might have it.
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
	// The prefix of a key is the whole key, so no other one is found.
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
		// The engine's buffer is only lent.
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

// before returns the object that a writer is about to replace. The caller holds
// the stripe, so what is visible is durable.
func (e *pebbleEngine) before(ctx context.Context, key string) (object, error) {
	// Who waited for the stripe may have been given up by its caller. A write
	// that has not started should not land then.
	if err := ctx.Err(); err != nil {
		return object{}, err
	}
	if err := e.failure.check(); err != nil {
		return object{}, err
	}
	return e.lookup(key, false)
}

// commit applies b, which replaces old under key, and waits until it is durable.
// The caller holds st. A built that is not nil is an error of building b.
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
		// The engine reports a failed commit to its logger only.
		err = e.failure.check()
	}
	st.finish(c, err)
	if err != nil {
		// The engine may still use the batch.
		return err
	}
	// The commit is durable, whatever becomes of the batch's memory.
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

// scanVisible visits what is visible now, durable or not. It returns the key at
// which the visitor stopped, if it did.
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

// eachFile calls visit with the name of every file that an object names.
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

// pebbleLogger passes the engine's messages on.
type pebbleLogger struct {
	log  *slog.Logger
	fail *failure
}

var _ pebble.Logger = (*pebbleLogger)(nil)

// Infof is for people who debug the engine.
func (l *pebbleLogger) Infof(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("local store engine", "detail", fmt.Sprintf(format, args...))
	}
}

// Errorf logs what the engine survives.
func (l *pebbleLogger) Errorf(format string, args ...any) {
	l.log.Error("local store engine", "detail", fmt.Sprintf(format, args...))
}

// Fatalf is called by the engine when a commit or its manifest could not be
// written and it cannot go on.
func (l *pebbleLogger) Fatalf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for _, arg := range args {
		// The cause is kept as an error, so that it can be told apart.
		if err, ok := arg.(error); ok {
			l.log.Error("local store engine", "detail", text)
			l.fail.report(err)
			return
		}
	}
	l.fail.report(errors.New(text))
}
