package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	drivercolumn "github.com/ClickHouse/clickhouse-go/v2/lib/column"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/sinktest"
)

// TestDictionary reads columns back from the driver: of one value, of none, and at and above the limit
// of each key width.
func TestDictionary(t *testing.T) {
	var d dictionary // Reused for all cases.
	w := newWire()
	for _, n := range []int{1, 0, 255, 256, 65_535, 65_536, 3} {
		to, err := drivercolumn.Type("LowCardinality(String)").Column("tool", &drivercolumn.ServerContext{})
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for i := range 2*n + 2 {
			value := ""
			if i%2 == 1 && n > 0 {
				value = fmt.Sprint("tool ", i/2%n)
			}
			want = append(want, value)
			d.add(value)
		}
		if err := d.writeTo(to, w); err != nil {
			t.Fatal(err)
		}
		if to.Rows() != len(want) {
			t.Fatalf("%d values: got %d rows, want %d", n, to.Rows(), len(want))
		}
		for i := range want {
			if got := to.Row(i, false); got != want[i] {
				t.Fatalf("%d values: row %d is %q, want %q", n, i, got, want[i])
			}
		}
	}
}

// flushes is a batch that counts its parts.
type flushes struct {
	driver.Batch
	columns []drivercolumn.Interface
	n       int
	each    func()
}

func (f *flushes) Columns() []drivercolumn.Interface { return f.columns }

func (f *flushes) Flush() error {
	f.n++
	f.each()
	for _, c := range f.columns {
		c.Reset()
	}
	return nil
}

// TestFillEndsWithItsContext checks the context before each part, because the driver does not.
func TestFillEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cs := briefColumns()[:1]
	to, err := drivercolumn.Type("String").Column(cs[0].name, &drivercolumn.ServerContext{})
	if err != nil {
		t.Fatal(err)
	}
	batch := &flushes{columns: []drivercolumn.Interface{to}, each: cancel}
	f := &filling{encoder: observability.NewEncoder(), wire: newWire()}
	var events []observability.Event
	for len(events) < 3*chunkRows {
		events = append(events, sinktest.Sample()...)
	}
	if err := f.fill(ctx, batch, cs, events, false); !errors.Is(err, context.Canceled) || batch.n != 1 {
		t.Errorf("got %d parts, error %v", batch.n, err)
	}
}

// TestBrief checks that events of brief types are empty in the omitted columns. Every field of the
// samples is set.
func TestBrief(t *testing.T) {
	inBrief := map[string]bool{}
	for _, c := range briefColumns() {
		inBrief[c.name] = true
	}
	for _, e := range sinktest.Sample() {
		rows := []row{{}}
		rows[0].Envelope = &e.Envelope
		rows[0].submission(e.Payload)
		rows[0].work(e.Payload)
		rows[0].message(e.Payload)
		var left []string
		for _, c := range columns() {
			if !inBrief[c.name] && isFilled(t, c, rows) {
				left = append(left, c.name)
			}
		}
		if brief(e.Type) && len(left) > 0 {
			t.Errorf("inserts of %s: missing columns %v", e.Type, left)
		}
	}
}

// isFilled reports whether a column has a value other than its default.
func isFilled(t *testing.T, c column, rows []row) bool {
	t.Helper()
	if c.word != nil {
		return c.word(&rows[0]) != ""
	}
	to := &kept{}
	if err := c.append(to, rows); err != nil {
		t.Fatal(err)
	}
	return !to.value.IsZero()
}

// kept is a column of the driver that records its value.
type kept struct {
	drivercolumn.Interface
	value reflect.Value
}

func (k *kept) Append(v any) ([]uint8, error) {
	k.value = reflect.New(reflect.TypeOf(v).Elem()).Elem()
	k.value.Set(reflect.ValueOf(v).Index(0))
	return nil, nil
}
