package main

import (
	"bytes"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/ebitengine/purego"
)

// library is the C interface of libchdb. Handles are addresses in the engine's memory; only the one of
// a connection is dereferenced here.
type library struct {
	Connect       func(argc int32, argv []*byte) unsafe.Pointer                                    `c:"chdb_connect"`
	CloseConn     func(conn unsafe.Pointer)                                                        `c:"chdb_close_conn"`
	Signals       func(enabled int32)                                                              `c:"chdb_set_signal_handlers_enabled"`
	Query         func(conn uintptr, statement string, n uint64, format string, fn uint64) uintptr `c:"chdb_query_n"`
	ResultBuffer  func(r uintptr) unsafe.Pointer                                                   `c:"chdb_result_buffer"`
	ResultLength  func(r uintptr) uint64                                                           `c:"chdb_result_length"`
	ResultError   func(r uintptr) string                                                           `c:"chdb_result_error"`
	DestroyResult func(r uintptr)                                                                  `c:"chdb_destroy_query_result"`
	Insert        func(conn uintptr, statement string, n uint64, format string, fn uint64) uintptr `c:"chdb_stream_insert_n"`
	InsertError   func(s uintptr) string                                                           `c:"chdb_stream_insert_error"`
	InsertAppend  func(s uintptr, data []byte, n uint64) int32                                     `c:"chdb_stream_append"`
	InsertDone    func(s uintptr) uintptr                                                          `c:"chdb_stream_done"`
	InsertCancel  func(s uintptr)                                                                  `c:"chdb_stream_cancel_insert"`
	InsertDestroy func(s uintptr)                                                                  `c:"chdb_destroy_insert_stream"`
}

func loadLibrary(file string) (*library, error) {
	handle, err := purego.Dlopen(file, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("load library %s: %w", file, err)
	}
	l := &library{}
	for f, v := range reflect.ValueOf(l).Elem().Fields() {
		symbol, err := purego.Dlsym(handle, f.Tag.Get("c"))
		if err != nil {
			return nil, fmt.Errorf("load library %s: %w", file, err)
		}
		purego.RegisterFunc(v.Addr().Interface(), symbol)
	}
	l.Signals(0) // Signals belong to the Go runtime.
	return l, nil
}

// session is one connection to the engine, with its own current database and settings. It runs one
// statement at a time.
type session struct {
	lib    *library
	handle unsafe.Pointer
	tag    string // Tag of its statements.
}

// open opens a session on the data in a folder. Every session of the process must use the same name,
// because they share one engine.
func (l *library) open(dir string) (*session, error) {
	program, path := []byte("clickhouse\x00"), []byte("--path="+dir+"\x00")
	handle := l.Connect(2, []*byte{&program[0], &path[0]})
	if handle == nil {
		return nil, fmt.Errorf("open engine on %s: refused", dir)
	}
	return &session{lib: l, handle: handle}, nil
}

func (s *session) close() { s.lib.CloseConn(s.handle) }

func (s *session) conn() uintptr { return *(*uintptr)(s.handle) }

// query runs a statement and returns the whole result in the format, unless the statement names
// another.
func (s *session) query(statement, format string) ([]byte, error) {
	return s.lib.take(s.lib.Query(s.conn(), statement, uint64(len(statement)), format, uint64(len(format))))
}

// take copies a result from the engine's memory and frees it.
func (l *library) take(r uintptr) (data []byte, err error) {
	if r == 0 {
		return nil, parseException("The engine returns nothing.")
	}
	defer l.DestroyResult(r)
	if text := l.ResultError(r); text != "" {
		return nil, parseException(text)
	}
	if n := l.ResultLength(r); n > 0 {
		data = bytes.Clone(unsafe.Slice((*byte)(l.ResultBuffer(r)), n))
	}
	return data, nil
}

// insert runs an INSERT of the data from next, in a format, until next returns none. If it returns nil
// the rows are in the table; an error of next inserts none.
func (s *session) insert(statement, format string, next func() ([]byte, error)) error {
	stream := s.lib.Insert(s.conn(), statement, uint64(len(statement)), format, uint64(len(format)))
	if stream == 0 {
		return parseException("The engine begins no insert.")
	}
	defer s.lib.InsertDestroy(stream)
	if text := s.lib.InsertError(stream); text != "" {
		return parseException(text)
	}
	for {
		data, err := next()
		if err == nil && len(data) == 0 {
			break
		}
		if err == nil && s.lib.InsertAppend(stream, data, uint64(len(data))) != 0 {
			err = parseException(s.lib.InsertError(stream))
		}
		if err != nil {
			s.lib.InsertCancel(stream)
			return err
		}
	}
	_, err := s.lib.take(s.lib.InsertDone(stream))
	return err
}
