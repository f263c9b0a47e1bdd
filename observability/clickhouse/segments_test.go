package clickhouse_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/clickhousetest"
	"github.com/parleyrun/parley/internal/s3server"
	"github.com/parleyrun/parley/observability/clickhouse"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/s3"
)

// history writes a conversation like the runtime, and records its content.
type history struct {
	t      *testing.T
	logs   *storage.Logs
	key    conversation.Key
	writer *storage.Writer

	types  map[string]int64
	tokens map[string][]int64 // by day and model: steps, input, output
	text   [][3]string        // message, role, text
}

func newHistory(t *testing.T, bucket storage.Bucket, id string) *history {
	logs := storage.NewLogs(bucket, nil)
	key := conversation.Address{Agent: "triage", ID: id}.Key()
	return &history{
		t: t, logs: logs, key: key, writer: logs.Writer(key, storage.Nonce("n1-"+key[:8]), storage.Start(), 1),
		types: map[string]int64{}, tokens: map[string][]int64{},
	}
}

func (h *history) append(records ...conversation.Record) storage.Batch {
	h.t.Helper()
	lines, err := conversation.EncodeRecords(nil, records)
	if err == nil {
		_, err = h.writer.Append(h.t.Context(), lines, dayStart)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	for _, r := range records {
		h.types[string(r.Type())]++
	}
	return h.writer.Stored()
}

// exchange appends a message and an answer of three deltas, one batch each.
func (h *history) exchange(i int) {
	asked, answer := conversation.MessageID(fmt.Sprint("msg_u", i)), conversation.MessageID(fmt.Sprint("msg_a", i))
	question := fmt.Sprintf("Question %d\nwith \"two\" lines {and} äöü", i)
	at := dayStart + conversation.Time(i%3)*86_400_000
	h.append(&conversation.SubmissionAdmitted{
		Submission: "sub", Message: asked, Key: fmt.Sprint(i), At: at,
		Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: question},
	})
	h.text = append(h.text, [3]string{string(asked), "user", question})
	answered := ""
	for n := range 3 {
		text := fmt.Sprintf("%d.%d ", i, n)
		answered += text
		h.append(
			&conversation.Delta{Message: answer, Kind: conversation.PartReasoning, Text: "hm"},
			&conversation.Delta{Message: answer, Kind: conversation.PartText, Text: text},
			&conversation.Delta{Message: "msg_child", Child: "conv_child", Kind: conversation.PartText, Text: "not shown"},
		)
	}
	h.text = append(h.text, [3]string{string(answer), "assistant", answered})
	usage := conversation.Usage{Input: int64(i), Output: 7, Total: int64(i) + 7}
	h.append(&conversation.StepCompleted{Message: answer, Turn: "turn", StopReason: "stop", Model: "anthropic/opus", Usage: usage, At: at})
	day := at.String()[:10]
	if h.tokens[day] == nil {
		h.tokens[day] = make([]int64, 3)
	}
	for i, v := range []int64{1, usage.Input, usage.Output} {
		h.tokens[day][i] += v
	}
}

// compact stores all batches but the last in segments, and deletes the replaced ones if remove is set.
func (h *history) compact(remove bool) {
	h.t.Helper()
	last := h.writer.Stored()
	garbage, err := h.logs.Compactor(h.key).Compact(h.t.Context(), last.Seq-1, nil, 1)
	if err == nil && remove {
		err = h.logs.Remove(h.t.Context(), h.key, garbage)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// TestSegmentQueries queries a bucket of a real S3 server with batches of two writers, merged segments
// and overlapping ones.
func TestSegmentQueries(t *testing.T) {
	server := s3server.Versitygw(t)
	name := server.Bucket(t)
	bucket, err := s3.New(&s3.Options{
		Endpoint: server.Endpoint, Bucket: name, Prefix: "p/", Region: server.Region, PathStyle: true,
		AccessKey: server.AccessKey, SecretKey: server.SecretKey,
	})
	if err != nil {
		t.Fatal(err)
	}
	first, second := newHistory(t, bucket, "issue 1"), newHistory(t, bucket, "issue 2")
	for _, h := range []*history{first, second} {
		h.append(&conversation.ConversationCreated{Agent: "triage", ID: "x", UID: "u", ConversationID: "conv_1", At: dayStart})
		for i := range 12 {
			h.exchange(i)
			if i%3 == 2 {
				// One conversation keeps the replaced batches, so that its data exists twice.
				h.compact(h == first)
			}
		}
		h.writer = h.logs.Writer(h.key, storage.Nonce("n2-"+h.key[:8]), h.writer.Stored().Position(), 2)
		h.exchange(12)
	}
	objects := map[string]int{}
	for _, k := range keys(t, bucket) {
		parts := strings.Split(k.Key, "/")
		objects[parts[1][:4]+" "+parts[2]]++
	}
	small, large := string(first.key[:4]), string(second.key[:4])
	if objects[small+" seg"] == 0 || objects[small+" log"] > 10 || objects[large+" seg"] == 0 || objects[large+" log"] < 60 {
		t.Fatalf("got objects %v, want batches covered by segments, and some that are not", objects)
	}
	q := segmentQuery{
		t: t, conn: direct(t, clickhousetest.Start(t), "default"),
		parameters: ch.Parameters{
			"bucket": "http://" + server.Endpoint + "/" + name + "/p", "key": server.AccessKey, "secret": server.SecretKey,
		},
	}
	for _, h := range []*history{first, second} {
		q.parameters["conversation"] = string(h.key)
		var got [][3]string
		q.run("text", func(r driver.Rows) error {
			var message, role, text string
			var place []any
			err := r.Scan(&message, &role, &place, &text)
			got = append(got, [3]string{message, role, text})
			return err
		})
		if diff := cmp.Diff(h.text, got); diff != "" {
			t.Errorf("text (-want +got):\n%s", diff)
		}
	}
	for kind, n := range second.types {
		first.types[kind] += n
	}
	for day, values := range second.tokens {
		for i, v := range values {
			first.tokens[day][i] += v
		}
	}
	types, tokens := q.totals()
	if diff := cmp.Diff(first.types, types); diff != "" {
		t.Errorf("records by type (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(first.tokens, tokens); diff != "" {
		t.Errorf("tokens by day (-want +got):\n%s", diff)
	}
}

type segmentQuery struct {
	t          *testing.T
	conn       driver.Conn
	parameters ch.Parameters
}

// totals runs the queries for both conversations.
func (q *segmentQuery) totals() (types map[string]int64, tokens map[string][]int64) {
	q.t.Helper()
	types, tokens = map[string]int64{}, map[string][]int64{}
	q.run("records_by_type", func(r driver.Rows) error {
		var kind string
		var n, conversations, bytes uint64
		err := r.Scan(&kind, &n, &conversations, &bytes)
		types[kind] = int64(n)
		if conversations != 2 || bytes < n {
			q.t.Errorf("got %d conversations and %d bytes of %s, want at least 2", conversations, bytes, kind)
		}
		return err
	})
	q.run("tokens_by_day", func(r driver.Rows) error {
		var day time.Time
		var model string
		var steps, input, output, cacheRead, cacheWrite uint64
		err := r.Scan(&day, &model, &steps, &input, &output, &cacheRead, &cacheWrite)
		tokens[day.Format(time.DateOnly)] = []int64{int64(steps), int64(input), int64(output)}
		return err
	})
	return types, tokens
}

func (q *segmentQuery) run(name string, visit func(driver.Rows) error) {
	q.t.Helper()
	query, ok := clickhouse.SegmentQueries()[name]
	if !ok {
		q.t.Fatalf("missing query %s", name)
	}
	rows, err := q.conn.Query(ch.Context(q.t.Context(), ch.WithParameters(q.parameters)), query)
	if err != nil {
		q.t.Fatalf("query %s: %v", name, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := visit(rows); err != nil {
			q.t.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		q.t.Fatalf("query %s: %v", name, err)
	}
}
