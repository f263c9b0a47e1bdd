package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/ClickHouse/ch-go/proto"
	chproto "github.com/ClickHouse/clickhouse-go/v2/lib/proto"
)

// readerSize is such that the protocol's reader takes a buffer as its own.
const readerSize = 128 << 10

// nativeConn is one connection of the native protocol.
type nativeConn struct {
	engine   *engine
	conn     net.Conn
	in       *bufio.Reader // The one under reader.
	reader   *proto.Reader
	out      proto.Buffer
	revision int // Of the older of both sides.
	client   *client
	frames   *compress.Writer // Of the statement's results, nil for none.
}

// serveNative serves a connection until it ends, and closes it. An error is of what
// the other side sent.
func (e *engine) serveNative(conn net.Conn) error {
	defer conn.Close()
	in := bufio.NewReaderSize(conn, readerSize)
	c := &nativeConn{engine: e, conn: conn, in: in, reader: proto.NewReader(in)}
	if err := c.hello(); err != nil || c.client == nil {
		return err
	}
	defer c.client.close()
	for {
		code, err := c.reader.UVarInt()
		if err != nil {
			return nil // The end of a connection is no fault.
		}
		switch proto.ClientCode(code) {
		case proto.ClientCodePing:
			proto.ServerCodePong.Encode(&c.out)
			err = c.flush()
		case proto.ClientCodeQuery:
			err = c.statement()
		case proto.ClientCodeCancel: // Of a statement that has ended.
		default:
			err = fmt.Errorf("read packet: kind %d", code)
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
	if code, err := c.reader.UVarInt(); err != nil || proto.ClientCode(code) != proto.ClientCodeHello {
		return err
	}
	var hello proto.ClientHello
	if err := hello.Decode(c.reader); err != nil {
		return fmt.Errorf("read hello: %w", err)
	}
	client, err := c.engine.client(hello.User, hello.Database)
	if err != nil {
		return c.exception(err)
	}
	c.client = client
	c.revision = min(hello.ProtocolVersion, revision)
	answer := proto.ServerHello{
		Name: "ClickHouse", DisplayName: "clickhousetest", Timezone: c.engine.timezone, Revision: revision,
		Major: c.engine.version[0], Minor: c.engine.version[1], Patch: c.engine.version[2],
	}
	answer.EncodeAware(&c.out, c.revision)
	if err = c.flush(); err == nil && proto.FeatureAddendum.In(c.revision) {
		_, err = c.reader.Str() // A quota key.
	}
	if err != nil {
		client.close()
		c.client = nil
	}
	return err
}

func (c *nativeConn) exception(err error) error {
	e := asException(err)
	proto.ServerCodeException.Encode(&c.out)
	c.out.PutInt32(e.code)
	c.out.PutString(exceptionName)
	c.out.PutString(e.message())
	c.out.PutString("")  // The trace of the stack.
	c.out.PutBool(false) // No other follows.
	return c.flush()
}

func (c *nativeConn) statement() error {
	var q proto.Query
	if err := q.DecodeAware(c.reader, c.revision); err != nil {
		return fmt.Errorf("read statement: %w", err)
	}
	c.frames = nil
	settings, params := map[string]string{}, map[string]string{}
	for _, s := range q.Settings {
		settings[s.Key] = unquoteField(s.Value)
	}
	for _, p := range q.Parameters {
		params[p.Key] = unquoteField(p.Value)
	}
	if q.Compression == proto.CompressionEnabled {
		c.frames = compressor(settings["network_compression_method"])
	}
	tables := 0
	for {
		b, err := c.readBlock()
		if err != nil {
			return fmt.Errorf("read external table: %w", err)
		}
		if len(b.Columns) == 0 {
			break
		}
		tables++
	}
	if tables > 0 {
		return c.exception(&exception{code: codeNotImplemented, text: "External tables are not served. (NOT_IMPLEMENTED)"})
	}
	var broken error // Of the connection.
	err := c.client.with(settings, func() (err error) {
		if i, ok := parseInsert(q.Body); ok && i.format == "Native" {
			err, broken = c.insert(i)
		} else {
			err, broken = c.run(withoutComments(q.Body), params)
		}
		return err
	})
	switch {
	case broken != nil:
		return broken
	case err != nil:
		return c.exception(err)
	}
	proto.ServerCodeEndOfStream.Encode(&c.out)
	return c.flush()
}

// run runs a statement that comes without data. It returns the engine's error, and
// that of the connection.
func (c *nativeConn) run(statement string, params map[string]string) (err, broken error) {
	statement, _ = splitFormat(statement)
	var a *answer
	var blocks []*chproto.Block
	c.watched(func() {
		if a, err = c.client.query(statement, "Native", params); err != nil {
			return
		}
		if blocks, err = blocksOf(a.data); err == nil && len(blocks) == 0 && reads(statement) {
			blocks, err = c.empty(statement, params)
		}
	})
	if err != nil {
		return err, nil
	}
	rows := uint64(0)
	for _, b := range blocks {
		rows += uint64(b.Rows())
		if err := c.writeBlock(b); err != nil {
			return nil, err
		}
	}
	if len(blocks) > 0 {
		proto.Profile{Rows: rows, Blocks: uint64(len(blocks)), Bytes: uint64(len(a.data))}.EncodeAware(&c.out, c.revision)
	}
	c.progress(a)
	return nil, nil
}

// empty returns the columns of a result without rows as a block, which tells the
// driver what they are.
func (c *nativeConn) empty(statement string, params map[string]string) ([]*chproto.Block, error) {
	names, types, err := c.client.header(statement, params)
	if err != nil {
		return nil, err
	}
	b, err := headerOf(names, types)
	return []*chproto.Block{b}, err
}

func (c *nativeConn) progress(a *answer) {
	proto.ServerCodeProgress.Encode(&c.out)
	proto.Progress{Rows: a.rowsRead, Bytes: a.bytesRead, WroteRows: a.rowsWritten}.EncodeAware(&c.out, c.revision)
}

// insert tells the other side the columns and feeds the engine what it sends.
func (c *nativeConn) insert(i *insertStatement) (err, broken error) {
	names, types, err := c.client.target(i)
	if err != nil {
		return err, nil
	}
	feed, err := c.client.insert(i.text, i.format)
	if err != nil {
		return err, nil
	}
	header, err := headerOf(names, types)
	if err == nil {
		broken = c.writeBlock(header)
	}
	if err == nil && broken == nil {
		err, broken = c.feed(feed)
	}
	if err != nil || broken != nil {
		feed.cancel()
		return err, broken
	}
	a, err := feed.done()
	if err != nil {
		return err, nil
	}
	c.progress(a)
	return nil, nil
}

// feed reads blocks to the last one, also those behind one that the engine refused.
func (c *nativeConn) feed(feed *insertion) (err, broken error) {
	for {
		b, broken := c.readBlock()
		switch {
		case broken != nil:
			return nil, fmt.Errorf("read data: %w", broken)
		case len(b.Columns) == 0:
			return err, nil
		case err == nil:
			var data proto.Buffer
			if err = encodeBlock(&data, b, engineRevision); err == nil {
				err = feed.append(data.Buf)
			}
		}
	}
}

func (c *nativeConn) readBlock() (*chproto.Block, error) {
	code, err := c.reader.UVarInt()
	if err != nil {
		return nil, err
	}
	if proto.ClientCode(code) != proto.ClientCodeData {
		return nil, fmt.Errorf("packet of kind %d", code)
	}
	if _, err := c.reader.Str(); err != nil { // The name of an external table.
		return nil, err
	}
	if c.frames != nil {
		c.reader.EnableCompression()
		defer c.reader.DisableCompression()
	}
	b := newBlock()
	return b, b.Decode(c.reader, uint64(c.revision))
}

func (c *nativeConn) writeBlock(b *chproto.Block) error {
	var block proto.Buffer
	if err := encodeBlock(&block, b, c.revision); err != nil {
		return err
	}
	proto.ServerCodeData.Encode(&c.out)
	c.out.PutString("")
	if c.frames != nil {
		if err := c.frames.Compress(block.Buf); err != nil {
			return err
		}
		block.Buf = c.frames.Data
	}
	c.out.PutRaw(block.Buf)
	return c.flush()
}

// watched runs a function and kills the statement in it if the other side cancels
// it or goes away.
func (c *nativeConn) watched(run func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		next, err := c.in.Peek(1)
		var timeout net.Error
		switch {
		case errors.As(err, &timeout) && timeout.Timeout(): // The statement has ended.
		case err != nil, proto.ClientCode(next[0]) == proto.ClientCodeCancel:
			c.client.kill()
		}
	}()
	run()
	_ = c.conn.SetReadDeadline(time.Unix(1, 0)) // A connection that is closed ends the peek too.
	<-ended
	_ = c.conn.SetReadDeadline(time.Time{})
}
