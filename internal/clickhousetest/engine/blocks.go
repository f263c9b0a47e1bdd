package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/column"
	chproto "github.com/ClickHouse/clickhouse-go/v2/lib/proto"
)

// revision is that of the native protocol as it is spoken here: what the driver
// speaks.
const revision = chproto.DBMS_TCP_PROTOCOL_VERSION

// engineRevision is that of blocks the engine takes and gives.
const engineRevision = 0

func newBlock() *chproto.Block {
	b := chproto.NewBlock()
	b.ServerContext = &column.ServerContext{Timezone: time.UTC}
	return b
}

// blocksOf decodes what the engine gave.
func blocksOf(data []byte) ([]*chproto.Block, error) {
	r := proto.NewReader(bytes.NewReader(data))
	var blocks []*chproto.Block
	for {
		b := newBlock()
		if err := b.Decode(r, engineRevision); errors.Is(err, io.EOF) {
			return blocks, nil
		} else if err != nil {
			return nil, fmt.Errorf("decode block %d of a result: %w", len(blocks), err)
		}
		blocks = append(blocks, b)
	}
}

// headerOf returns a block without rows.
func headerOf(names, types []string) (*chproto.Block, error) {
	b := newBlock()
	for i, name := range names {
		if err := b.AddColumn(name, column.Type(types[i])); err != nil {
			return nil, fmt.Errorf("make column %s %s: %w", name, types[i], err)
		}
	}
	return b, nil
}

// encodeBlock appends a block. One without rows has nothing behind the type of a
// column, which the driver expects and does not do itself.
func encodeBlock(buf *proto.Buffer, b *chproto.Block, revision int) error {
	if b.Rows() > 0 {
		return b.Encode(buf, uint64(revision))
	}
	if err := b.EncodeHeader(buf, uint64(revision)); err != nil {
		return err
	}
	for _, c := range b.Columns {
		buf.PutString(c.Name())
		buf.PutString(string(c.Type()))
		if proto.FeatureCustomSerialization.In(revision) {
			buf.PutBool(false)
		}
	}
	return nil
}

// headerFormat shows the columns of a result that has no rows, which Native does
// not.
const headerFormat = "JSONCompactEachRowWithNamesAndTypes"

func parseHeader(data []byte) (names, types []string, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	for _, list := range []*[]string{&names, &types} {
		if err := d.Decode(list); err != nil {
			return nil, nil, fmt.Errorf("decode columns %.100q: %w", data, err)
		}
	}
	if len(names) != len(types) {
		return nil, nil, fmt.Errorf("decode columns: %d names and %d types", len(names), len(types))
	}
	return names, types, nil
}

// compressor returns one for the method's name, in which nothing is LZ4.
func compressor(method string) *compress.Writer {
	if method == "ZSTD" {
		return compress.NewWriter(compress.LevelZero, compress.ZSTD)
	}
	return compress.NewWriter(compress.LevelZero, compress.LZ4)
}

// decompress reads all frames there are.
func decompress(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(compress.NewReader(r))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("decompress frame after %d bytes: %w", len(b), err)
	}
	return b, nil
}
