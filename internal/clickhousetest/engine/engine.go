package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/ClickHouse/ch-go/proto"
)

// readonlyUser is the name of the read-only user.
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
	base, err := lib.open(dir) // It keeps the engine running without other connections.
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

// session opens a session for a user with a current database and settings.
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

// kill ends the running statement of a session. It may be called concurrently.
func (e *engine) kill(tag string) {
	s, err := e.lib.open(e.dir)
	if err != nil {
		return // Otherwise it runs to its end.
	}
	defer s.close()
	_, _ = s.query("KILL QUERY WHERE Settings['log_comment'] = "+quote(tag)+" ASYNC", "Null")
}

// header returns the columns of a result as a block without rows, because Native omits them for an
// empty result. The driver expects nothing after the type of a column.
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
		buf.PutBool(false) // No custom serialization.
	}
	return buf.Buf
}
