package clickhouse

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/ClickHouse/ch-go/proto"
	drivercolumn "github.com/ClickHouse/clickhouse-go/v2/lib/column"
)

// dictionary builds a LowCardinality(String) column in the native format: the distinct values, then
// the index of each row. The driver's own append takes two lookups and an interface per value.
type dictionary struct {
	keys   []uint32
	values []string          // by key; key 0 is the empty one
	known  map[string]uint32 // all other keys by value
	last   string            // previous value, which often repeats
	key    uint32            // key of last
}

// wire passes bytes to a column of the driver.
type wire struct {
	bytes  bytes.Buffer
	reader *proto.Reader // reads from bytes
}

func newWire() *wire {
	w := &wire{}
	w.reader = proto.NewReader(&w.bytes)
	return w
}

// add appends a row.
func (d *dictionary) add(value string) {
	if value != d.last {
		d.last, d.key = value, d.keyOf(value)
	}
	d.keys = append(d.keys, d.key)
}

func (d *dictionary) keyOf(value string) uint32 {
	if value == "" {
		return 0
	}
	key, ok := d.known[value]
	if !ok {
		if d.known == nil {
			d.known, d.values = map[string]uint32{}, []string{""}
		}
		key = uint32(len(d.values))
		d.known[value], d.values = key, append(d.values, value)
	}
	return key
}

// The first number of a column: flags for its own dictionary and the width of its keys.
const (
	ownDictionary = 1<<9 | 1<<10
	keysOf1Byte   = 0
	keysOf2Bytes  = 1
	keysOf4Bytes  = 2
)

// writeTo moves the rows to an empty column. After an error neither d nor w is usable.
func (d *dictionary) writeTo(to drivercolumn.Interface, w *wire) error {
	defer d.reset()
	if to.Type() != "LowCardinality(String)" { // The table may have been altered.
		_, err := to.Append(d.texts())
		return err
	}
	b := w.bytes.AvailableBuffer()
	width, values := uint64(keysOf1Byte), d.values
	switch n := len(values); {
	case n == 0:
		values = []string{""}
	case n > math.MaxUint16+1:
		width = keysOf4Bytes
	case n > math.MaxUint8+1:
		width = keysOf2Bytes
	}
	b = binary.LittleEndian.AppendUint64(b, ownDictionary|width)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(values)))
	for _, v := range values {
		b = append(binary.AppendUvarint(b, uint64(len(v))), v...)
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(len(d.keys)))
	for _, k := range d.keys {
		switch width {
		case keysOf1Byte:
			b = append(b, byte(k))
		case keysOf2Bytes:
			b = binary.LittleEndian.AppendUint16(b, uint16(k))
		default:
			b = binary.LittleEndian.AppendUint32(b, k)
		}
	}
	w.bytes.Write(b)
	return to.Decode(w.reader, len(d.keys))
}

func (d *dictionary) texts() []string {
	list := make([]string, len(d.keys))
	for i, k := range d.keys {
		if k > 0 {
			list[i] = d.values[k]
		}
	}
	return list
}

// reset removes the rows and releases their texts.
func (d *dictionary) reset() {
	if len(d.values) > chunkRows || cap(d.keys) > maxSpare/4 {
		*d = dictionary{} // It has grown unusually large.
		return
	}
	clear(d.known)
	if len(d.values) > 0 {
		clear(d.values[1:])
		d.values = d.values[:1]
	}
	d.keys, d.last, d.key = d.keys[:0], "", 0
}
