package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/column"
	chproto "github.com/ClickHouse/clickhouse-go/v2/lib/proto"
)

// revision is the revision of the native protocol: the driver's.
const revision = chproto.DBMS_TCP_PROTOCOL_VERSION

// engineRevision is the revision of the engine's blocks.
const engineRevision = 0

func decodeBlock(r *proto.Reader, revision uint64) (*chproto.Block, error) {
	b := chproto.NewBlock()
	b.ServerContext = &column.ServerContext{Timezone: time.UTC}
	return b, b.Decode(r, revision)
}

// blocksOf encodes the engine's output for the driver, each block in its own frame if compressed.
func blocksOf(data []byte, compressed bool) (blocks [][]byte, err error) {
	r := proto.NewReader(bytes.NewReader(data))
	for {
		b, err := decodeBlock(r, engineRevision)
		if errors.Is(err, io.EOF) {
			return blocks, nil
		}
		var buf proto.Buffer
		if err == nil {
			err = b.Encode(&buf, revision)
		}
		if err != nil {
			return nil, fmt.Errorf("decode block %d of a result: %w", len(blocks), err)
		}
		framed, err := frame(buf.Buf, compressed)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, framed)
	}
}

// frame compresses a block if requested. The driver accepts LZ4 whatever it requests.
func frame(data []byte, compressed bool) ([]byte, error) {
	if !compressed {
		return data, nil
	}
	w := compress.NewWriter(compress.LevelZero, compress.LZ4)
	err := w.Compress(data)
	return w.Data, err
}

// decompress reads all frames.
func decompress(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(compress.NewReader(r))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("decompress frame after %d bytes: %w", len(b), err)
	}
	return b, nil
}
