package main

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// library is the C interface of libchdb. Handles of the engine are addresses of its
// memory: they are never looked into here, but for the one of a connection.
type library struct {
	connect       func(argc int32, argv unsafe.Pointer) unsafe.Pointer
	closeConn     func(conn unsafe.Pointer)
	signals       func(enabled int32)
	query         func(conn uintptr, q unsafe.Pointer, n uint64, f unsafe.Pointer, fn uint64, names, nameLens, values, valueLens unsafe.Pointer, count uint64) uintptr
	resultBuffer  func(r uintptr) unsafe.Pointer
	resultLength  func(r uintptr) uint64
	resultError   func(r uintptr) string
	rowsRead      func(r uintptr) uint64
	bytesRead     func(r uintptr) uint64
	rowsWritten   func(r uintptr) uint64
	destroyResult func(r uintptr)
	insert        func(conn uintptr, q unsafe.Pointer, n uint64, f unsafe.Pointer, fn uint64) uintptr
	insertError   func(s uintptr) string
	insertAppend  func(s uintptr, data unsafe.Pointer, n uint64) int32
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
		"chdb_query_with_params_n":         &l.query,
		"chdb_result_buffer":               &l.resultBuffer,
		"chdb_result_length":               &l.resultLength,
		"chdb_result_error":                &l.resultError,
		"chdb_result_storage_rows_read":    &l.rowsRead,
		"chdb_result_storage_bytes_read":   &l.bytesRead,
		"chdb_result_rows_written":         &l.rowsWritten,
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
}

// open opens a session on the data in a folder, which every session of the process
// names alike: they share one engine.
func (l *library) open(dir string) (*session, error) {
	args := [][]byte{[]byte("clickhouse\x00"), []byte("--path=" + dir + "\x00")}
	argv := make([]unsafe.Pointer, len(args))
	var pin runtime.Pinner
	defer pin.Unpin()
	for i, a := range args {
		pin.Pin(&a[0])
		argv[i] = unsafe.Pointer(&a[0])
	}
	handle := l.connect(int32(len(args)), unsafe.Pointer(&argv[0]))
	if handle == nil {
		return nil, fmt.Errorf("open engine on %s: it refuses", dir)
	}
	return &session{lib: l, handle: handle}, nil
}

func (s *session) close() { s.lib.closeConn(s.handle) }

func (s *session) conn() uintptr { return *(*uintptr)(s.handle) }

// answer is what a statement came to.
type answer struct {
	data                             []byte
	rowsRead, bytesRead, rowsWritten uint64
}

// texts are strings as the library takes a list of them.
type texts struct {
	addresses []unsafe.Pointer
	lengths   []uint64
}

func (t *texts) add(pin *runtime.Pinner, s string) {
	b := append([]byte(s), 0)
	pin.Pin(&b[0])
	t.addresses, t.lengths = append(t.addresses, unsafe.Pointer(&b[0])), append(t.lengths, uint64(len(s)))
}

func (t *texts) pointers() (addresses, lengths unsafe.Pointer) {
	return unsafe.Pointer(unsafe.SliceData(t.addresses)), unsafe.Pointer(unsafe.SliceData(t.lengths))
}

// query runs a statement and returns the whole result in the format, unless the
// statement names another.
func (s *session) query(statement, format string, params map[string]string) (*answer, error) {
	if strings.TrimSpace(statement) == "" {
		return nil, &exception{code: codeSyntaxError, text: "Syntax error: Empty query. (SYNTAX_ERROR)"}
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	var names, values texts
	for name, value := range params {
		names.add(&pin, name)
		values.add(&pin, value)
	}
	name, nameLen := names.pointers()
	value, valueLen := values.pointers()
	q, f := []byte(statement), []byte(format)
	r := s.lib.query(s.conn(), unsafe.Pointer(&q[0]), uint64(len(q)), unsafe.Pointer(&f[0]), uint64(len(f)), name, nameLen, value, valueLen, uint64(len(params)))
	runtime.KeepAlive(q)
	runtime.KeepAlive(f)
	return s.lib.take(r)
}

// take copies a result out of the engine's memory and frees it.
func (l *library) take(r uintptr) (*answer, error) {
	if r == 0 {
		return nil, errors.New("the engine returns nothing")
	}
	defer l.destroyResult(r)
	if text := l.resultError(r); text != "" {
		return nil, parseException(text)
	}
	a := &answer{rowsRead: l.rowsRead(r), bytesRead: l.bytesRead(r), rowsWritten: l.rowsWritten(r)}
	if n := l.resultLength(r); n > 0 {
		a.data = bytes.Clone(unsafe.Slice((*byte)(l.resultBuffer(r)), n))
	}
	return a, nil
}

// insertion is an INSERT that is being fed. It has to be ended by done or cancel.
type insertion struct {
	lib    *library
	stream uintptr
}

// insert begins an INSERT of data in a format.
func (s *session) insert(statement, format string) (*insertion, error) {
	q, f := []byte(statement), []byte(format)
	i := &insertion{lib: s.lib, stream: s.lib.insert(s.conn(), unsafe.Pointer(&q[0]), uint64(len(q)), unsafe.Pointer(&f[0]), uint64(len(f)))}
	runtime.KeepAlive(q)
	runtime.KeepAlive(f)
	if i.stream == 0 {
		return nil, errors.New("the engine begins no insert")
	}
	if text := s.lib.insertError(i.stream); text != "" {
		s.lib.insertDestroy(i.stream)
		return nil, parseException(text)
	}
	return i, nil
}

func (i *insertion) append(data []byte) error {
	if len(data) == 0 || i.lib.insertAppend(i.stream, unsafe.Pointer(&data[0]), uint64(len(data))) == 0 {
		return nil
	}
	return parseException(i.lib.insertError(i.stream))
}

// done ends the insert: when it returns no error the rows are in the table.
func (i *insertion) done() (*answer, error) {
	defer i.lib.insertDestroy(i.stream)
	return i.lib.take(i.lib.insertDone(i.stream))
}

func (i *insertion) cancel() {
	i.lib.insertCancel(i.stream)
	i.lib.insertDestroy(i.stream)
}
