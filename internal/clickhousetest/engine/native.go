package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	chproto "github.com/ClickHouse/clickhouse-go/v2/lib/proto"
)

// readerSize is large enough that the protocol's reader uses the buffer directly.
const readerSize = 128 << 10

// nativeConn is one connection of the native protocol.
type nativeConn struct {
	engine     *engine
	conn       net.Conn
	in         *bufio.Reader // Below reader.
	reader     *proto.Reader
	out        proto.Buffer
	client     proto.ClientHello
	session    *session
	compressed bool // Whether data of the statement is compressed.
}

// serveNative serves a connection until it ends, and closes it. An error is caused by the client's
// data.
func (e *engine) serveNative(conn net.Conn) error {
	defer conn.Close()
	in := bufio.NewReaderSize(conn, readerSize)
	c := &nativeConn{engine: e, conn: conn, in: in, reader: proto.NewReader(in)}
	if err := c.hello(); err != nil {
		return c.except(err)
	}
	defer c.session.close()
	for {
		code, err := c.reader.UVarInt()
		if err != nil {
			return nil // The end of a connection is not an error.
		}
		switch proto.ClientCode(code) {
		case proto.ClientCodePing:
			proto.ServerCodePong.Encode(&c.out)
		case proto.ClientCodeQuery:
			if err = c.statement(); err == nil {
				proto.ServerCodeEndOfStream.Encode(&c.out)
			}
			err = c.except(err)
		case proto.ClientCodeCancel: // For a statement that has ended.
		default:
			err = fmt.Errorf("read packet: kind %d", code)
		}
		if err == nil {
			err = c.flush()
		}
		if err != nil {
			return err
		}
	}
}

func (c *nativeConn) flush() error {
	_, err := c.conn.Write(c.out.Buf)
	c.out.Reset()
	return err
}

func (c *nativeConn) hello() error {
	code, err := c.reader.UVarInt()
	if err == nil && proto.ClientCode(code) == proto.ClientCodeHello {
		err = c.client.Decode(c.reader)
	}
	if err != nil || c.client.ProtocolVersion != revision {
		return fmt.Errorf("read hello of revision %d: %v", c.client.ProtocolVersion, err)
	}
	if c.session, err = c.engine.session(c.client.User, c.client.Database, nil); err != nil {
		return err
	}
	c.engine.hello.EncodeAware(&c.out, revision)
	if err = c.flush(); err == nil {
		_, err = c.reader.Str() // A quota key.
	}
	if err != nil {
		c.session.close()
	}
	return err
}

// except sends an exception. Any other error is one of the connection, and returned.
func (c *nativeConn) except(err error) error {
	e, ok := errors.AsType[*exception](err)
	if !ok {
		return err
	}
	proto.ServerCodeException.Encode(&c.out)
	(&proto.Exception{Code: proto.Error(e.code), Name: exceptionName, Message: e.message()}).EncodeAware(&c.out, revision)
	return c.flush()
}

func (c *nativeConn) statement() error {
	var q proto.Query
	if err := q.DecodeAware(c.reader, revision); err != nil {
		return fmt.Errorf("read statement: %w", err)
	}
	c.compressed = q.Compression == proto.CompressionEnabled
	if b, err := c.readBlock(); err != nil {
		return err
	} else if len(b.Columns) > 0 {
		return errors.New("external tables are not served")
	}
	var set []string
	for _, s := range q.Settings {
		set = append(set, s.Key+" = "+quote(s.Value))
	}
	for _, p := range q.Parameters {
		set = append(set, "param_"+p.Key+" = "+p.Value) // The value is a literal.
	}
	s := c.session
	if len(set) > 0 {
		var err error
		if s, err = c.engine.session(c.client.User, c.client.Database, set); err != nil {
			return err
		}
		defer s.close()
	}
	if i, ok := parseInsert(q.Body); ok && i.format == "Native" {
		return c.insert(s, i)
	}
	return c.run(s, q.Body)
}

// run runs a statement without data.
func (c *nativeConn) run(s *session, statement string) (err error) {
	var blocks [][]byte
	c.watched(s, func() {
		var data []byte
		if data, err = s.query(statement, "Native"); err == nil {
			blocks, err = blocksOf(data, c.compressed)
		}
	})
	for _, b := range blocks {
		c.put(b)
	}
	if err == nil && len(blocks) == 0 && reading.MatchString(statement) {
		err = c.header(s, statement)
	}
	return err
}

// header sends the columns of a result, from which the driver gets their types.
func (c *nativeConn) header(s *session, statement string) error {
	header, err := s.header(statement)
	if err == nil {
		header, err = frame(header, c.compressed)
	}
	if err == nil {
		c.put(header)
	}
	return err
}

// put appends an encoded block to the output buffer.
func (c *nativeConn) put(block []byte) {
	proto.ServerCodeData.Encode(&c.out)
	c.out.PutString("")
	c.out.PutRaw(block)
}

// insert sends the columns to the client and passes its data to the engine, up to the last block, even
// after a block that the engine rejected.
func (c *nativeConn) insert(s *session, i insertStatement) error {
	unknown := c.header(s, i.target)
	var asked, ended bool
	next := func() ([]byte, error) {
		if !asked && unknown != nil {
			return nil, unknown
		}
		if asked = true; len(c.out.Buf) > 0 {
			if err := c.flush(); err != nil {
				return nil, err
			}
		}
		b, err := c.readBlock()
		if ended = err != nil || len(b.Columns) == 0; ended {
			return nil, err
		}
		var data proto.Buffer
		err = b.Encode(&data, engineRevision)
		return data.Buf, err
	}
	err := s.insert(i.text, i.format, next)
	if !asked {
		c.out.Reset()
	}
	for asked && !ended {
		_, _ = next()
	}
	return err
}

func (c *nativeConn) readBlock() (*chproto.Block, error) {
	code, err := c.reader.UVarInt()
	if err == nil && proto.ClientCode(code) != proto.ClientCodeData {
		err = fmt.Errorf("packet of kind %d", code)
	}
	if err == nil {
		err = (&proto.ClientData{}).DecodeAware(c.reader, revision)
	}
	if err != nil {
		return nil, fmt.Errorf("read data: %w", err)
	}
	if c.compressed {
		c.reader.EnableCompression()
		defer c.reader.DisableCompression()
	}
	return decodeBlock(c.reader, revision)
}

// watched runs a function and kills its statement if the client cancels it or disconnects.
func (c *nativeConn) watched(s *session, run func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		next, err := c.in.Peek(1)
		var timeout net.Error
		switch {
		case errors.As(err, &timeout) && timeout.Timeout(): // The statement has ended.
		case err != nil, proto.ClientCode(next[0]) == proto.ClientCodeCancel:
			c.engine.kill(s.tag)
		}
	}()
	run()
	_ = c.conn.SetReadDeadline(time.Unix(1, 0)) // Closing the connection ends the peek too.
	<-ended
	_ = c.conn.SetReadDeadline(time.Time{})
}
