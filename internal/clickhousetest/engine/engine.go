package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// readonlyUser is the name of the user who may only read.
const readonlyUser = "readonly"

// engine is the database of this process.
type engine struct {
	lib      *library
	dir      string
	base     *session // Keeps the engine up while nobody is connected.
	tags     atomic.Uint64
	version  [3]int
	timezone string
}

func openEngine(file, dir string) (*engine, error) {
	lib, err := loadLibrary(file)
	if err != nil {
		return nil, err
	}
	base, err := lib.open(dir)
	if err != nil {
		return nil, err
	}
	e := &engine{lib: lib, dir: dir, base: base}
	a, err := base.query("SELECT version(), timezone()", "TSV", nil)
	if err != nil {
		base.close()
		return nil, fmt.Errorf("ask for the version: %w", err)
	}
	version, timezone, _ := strings.Cut(strings.TrimSpace(string(a.data)), "\t")
	for i, part := range strings.SplitN(version, ".", 4)[:3] {
		if e.version[i], err = strconv.Atoi(part); err != nil {
			base.close()
			return nil, fmt.Errorf("read version %s: %w", version, err)
		}
	}
	e.timezone = timezone
	return e, nil
}

func (e *engine) close() { e.base.close() }

// client is a session as somebody outside uses it.
type client struct {
	*session
	engine *engine
	tag    string // Marks its statements.
}

// client opens a session for a user with a current database.
func (e *engine) client(user, database string) (*client, error) {
	s, err := e.lib.open(e.dir)
	if err != nil {
		return nil, err
	}
	c := &client{session: s, engine: e, tag: fmt.Sprintf("client-%d", e.tags.Add(1))}
	setup := []string{"SET log_comment = " + quote(c.tag)}
	if database != "" {
		setup = append(setup, "USE `"+strings.NewReplacer(`\`, `\\`, "`", "\\`").Replace(database)+"`")
	}
	if user == readonlyUser {
		setup = append(setup, "SET readonly = 2")
	}
	for _, statement := range setup {
		if _, err := s.query(statement, "Null", nil); err != nil {
			s.close()
			return nil, err
		}
	}
	return c, nil
}

// kill ends the statement that runs. It may be called while one does.
func (c *client) kill() {
	s, err := c.engine.lib.open(c.engine.dir)
	if err != nil {
		return // Then it runs to its end.
	}
	defer s.close()
	_, _ = s.query("KILL QUERY WHERE Settings['log_comment'] = "+quote(c.tag)+" ASYNC", "Null", nil)
}

// with runs a function under settings, which are the defaults again afterwards.
func (c *client) with(settings map[string]string, run func() error) error {
	if len(settings) == 0 {
		return run()
	}
	set, undo, err := setStatements(settings)
	if err != nil {
		return err
	}
	_, err = c.query(set, "Null", nil)
	if err == nil {
		err = run()
	}
	if _, undone := c.query(undo, "Null", nil); err == nil {
		err = undone
	}
	return err
}

// header returns the names and types of the columns of a result.
func (c *client) header(statement string, params map[string]string) (names, types []string, err error) {
	a, err := c.query(statement, headerFormat, params)
	if err != nil {
		return nil, nil, err
	}
	return parseHeader(a.data)
}

// target returns the names and types of the columns an INSERT fills.
func (c *client) target(i *insertStatement) (names, types []string, err error) {
	a, err := c.query("DESCRIBE TABLE "+i.table, "Native", nil)
	if err != nil {
		return nil, nil, err
	}
	blocks, err := blocksOf(a.data)
	if err != nil {
		return nil, nil, err
	}
	known := map[string]string{}
	for _, b := range blocks {
		for row := range b.Rows() {
			name, _ := b.Columns[0].Row(row, false).(string)
			known[name], _ = b.Columns[1].Row(row, false).(string)
			kind, _ := b.Columns[2].Row(row, false).(string)
			if len(i.columns) == 0 && !slices.Contains([]string{"MATERIALIZED", "ALIAS", "EPHEMERAL"}, kind) {
				names = append(names, name)
			}
		}
	}
	if len(i.columns) > 0 {
		names = i.columns
	}
	for _, name := range names {
		types = append(types, known[name])
	}
	return names, types, nil
}

// asException gives an error of this process the form of the engine's.
func asException(err error) *exception {
	var e *exception
	if errors.As(err, &e) {
		return e
	}
	return &exception{code: codeUnknownException, text: err.Error()}
}
