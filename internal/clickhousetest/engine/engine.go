package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/ClickHouse/ch-go/proto"
)

// readonlyUser is the name of the user who may only read.
const readonlyUser = "readonly"

// engine is the database of this process.
type engine struct {
	lib   *library
	dir   string
	tags  atomic.Uint64
	hello proto.ServerHello
}

func openEngine(file, dir string) (*engine, error) {
	lib, err := loadLibrary(file)
	if err != nil {
		return nil, err
	}
	base, err := lib.open(dir) // It keeps the engine up while nobody is connected.
	if err != nil {
		return nil, err
	}
	e := &engine{lib: lib, dir: dir, hello: proto.ServerHello{Name: "ClickHouse", DisplayName: "clickhousetest", Revision: revision}}
	data, err := base.query("SELECT replaceAll(version(), '.', ' '), timezone()", "TSV")
	if err == nil {
		var build int
		_, err = fmt.Sscan(string(data), &e.hello.Major, &e.hello.Minor, &e.hello.Patch, &build, &e.hello.Timezone)
	}
	if err != nil {
		return nil, fmt.Errorf("ask for the version: %q: %w", data, err)
	}
	return e, nil
}

// session opens a session for a user with a current database and what SET takes.
func (e *engine) session(user, database string, set []string) (*session, error) {
	s, err := e.lib.open(e.dir)
	if err != nil {
		return nil, err
	}
	s.tag = fmt.Sprintf("session-%d", e.tags.Add(1))
	setup := "SET log_comment = " + quote(s.tag)
	for _, assignment := range set {
		setup += ", " + assignment
	}
	if user == readonlyUser {
		setup += ", readonly = 2"
	}
	if database != "" {
		setup += "; USE `" + strings.NewReplacer(`\`, `\\`, "`", "\\`").Replace(database) + "`"
	}
	if _, err := s.query(setup, "Null"); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// kill ends the statement that a session runs. It may be called while one does.
func (e *engine) kill(tag string) {
	s, err := e.lib.open(e.dir)
	if err != nil {
		return // Then it runs to its end.
	}
	defer s.close()
	_, _ = s.query("KILL QUERY WHERE Settings['log_comment'] = "+quote(tag)+" ASYNC", "Null")
}

// header returns the columns of a result as a block without rows: Native has none of a result
// that has none. The driver wants nothing behind the type of a column.
func (s *session) header(statement string) ([]byte, error) {
	data, err := s.query(statement, "JSONCompactEachRowWithNamesAndTypes")
	if err != nil {
		return nil, err
	}
	var names, types []string
	lists := json.NewDecoder(bytes.NewReader(data))
	for _, list := range []*[]string{&names, &types} {
		if err := lists.Decode(list); err != nil {
			return nil, fmt.Errorf("decode columns %.100q: %w", data, err)
		}
	}
	return headerOf(names, types), nil
}

func headerOf(names, types []string) []byte {
	var buf proto.Buffer
	proto.Block{Info: proto.BlockInfo{BucketNum: -1}, Columns: len(names)}.EncodeAware(&buf, revision)
	for i, name := range names {
		buf.PutString(name)
		buf.PutString(types[i])
		buf.PutBool(false) // Its serialization is no other.
	}
	return buf.Buf
}
