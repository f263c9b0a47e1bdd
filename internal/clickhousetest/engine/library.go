package main

import (
	"bytes"
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"
)

// library is the C interface of libchdb. Handles of the engine are addresses of its
// memory: they are never looked into here, but for the one of a connection.
type library struct {
	connect       func(argc int32, argv []*byte) unsafe.Pointer
	closeConn     func(conn unsafe.Pointer)
	signals       func(enabled int32)
	query         func(conn uintptr, statement string, n uint64, format string, fn uint64) uintptr
	resultBuffer  func(r uintptr) unsafe.Pointer
	resultLength  func(r uintptr) uint64
	resultError   func(r uintptr) string
	destroyResult func(r uintptr)
	insert        func(conn uintptr, statement string, n uint64, format string, fn uint64) uintptr
	insertError   func(s uintptr) string
	insertAppend  func(s uintptr, data []byte, n uint64) int32
	insertDone    func(s uintptr) uintptr
	insertCancel  func(s uintptr)
	insertDestroy func(s uintptr)
}

func loadLibrary(file string) (*library, error) {
	handle, err := purego.Dlopen(file, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("load library %s: %w", file, err)
	}
	l := &library{}
	for name, function := range map[string]any{
		"chdb_connect":                     &l.connect,
		"chdb_close_conn":                  &l.closeConn,
		"chdb_set_signal_handlers_enabled": &l.signals,
		"chdb_query_n":                     &l.query,
		"chdb_result_buffer":               &l.resultBuffer,
		"chdb_result_length":               &l.resultLength,
		"chdb_result_error":                &l.resultError,
		"chdb_destroy_query_result":        &l.destroyResult,
		"chdb_stream_insert_n":             &l.insert,
		"chdb_stream_insert_error":         &l.insertError,
		"chdb_stream_append":               &l.insertAppend,
		"chdb_stream_done":                 &l.insertDone,
		"chdb_stream_cancel_insert":        &l.insertCancel,
		"chdb_destroy_insert_stream":       &l.insertDestroy,
	} {
		symbol, err := purego.Dlsym(handle, name)
		if err != nil {
			return nil, fmt.Errorf("load library %s: %w", file, err)
		}
		purego.RegisterFunc(function, symbol)
	}
	l.signals(0) // They are the Go runtime's.
	return l, nil
}

// session is one connection to the engine, with its own current database and
// settings. It runs one statement at a time.
type session struct {
	lib    *library
	handle unsafe.Pointer
	tag    string // Marks its statements.
}

// open opens a session on the data in a folder, which every session of the process
// names alike: they share one engine.
func (l *library) open(dir string) (*session, error) {
	program, path := []byte("clickhouse\x00"), []byte("--path="+dir+"\x00")
	handle := l.connect(2, []*byte{&program[0], &path[0]})
	if handle == nil {
		return nil, fmt.Errorf("open engine on %s: it refuses", dir)
	}
	return &session{lib: l, handle: handle}, nil
}

func (s *session) close() { s.lib.closeConn(s.handle) }

func (s *session) conn() uintptr { return *(*uintptr)(s.handle) }

// query runs a statement and returns the whole result in the format, unless the
// statement names another.
func (s *session) query(statement, format string) ([]byte, error) {
	return s.lib.take(s.lib.query(s.conn(), statement, uint64(len(statement)), format, uint64(len(format))))
}

// take copies a result out of the engine's memory and frees it.
func (l *library) take(r uintptr) (data []byte, err error) {
	if r == 0 {
		return nil, parseException("The engine returns nothing.")
	}
	defer l.destroyResult(r)
	if text := l.resultError(r); text != "" {
		return nil, parseException(text)
	}
	if n := l.resultLength(r); n > 0 {
		data = bytes.Clone(unsafe.Slice((*byte)(l.resultBuffer(r)), n))
	}
	return data, nil
}

// insert runs an INSERT of what next returns, in a format, up to nothing. When it returns no
// error the rows are in the table. An error of next leaves none there.
func (s *session) insert(statement, format string, next func() ([]byte, error)) error {
	stream := s.lib.insert(s.conn(), statement, uint64(len(statement)), format, uint64(len(format)))
	if stream == 0 {
		return parseException("The engine begins no insert.")
	}
	defer s.lib.insertDestroy(stream)
	if text := s.lib.insertError(stream); text != "" {
		return parseException(text)
	}
	for {
		data, err := next()
		if err == nil && len(data) == 0 {
			break
		}
		if err == nil && s.lib.insertAppend(stream, data, uint64(len(data))) != 0 {
			err = parseException(s.lib.insertError(stream))
		}
		if err != nil {
			s.lib.insertCancel(stream)
			return err
		}
	}
	_, err := s.lib.take(s.lib.insertDone(stream))
	return err
}
