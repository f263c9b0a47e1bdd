package conversation_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/sample"
)

// TestLongOutputsAreCopiedOnce bounds the allocations of records, states and closed history for a long
// output. It compares the result with encoding/json and decodes it.
func TestLongOutputsAreCopiedOnce(t *testing.T) {
	long := strings.Repeat("x", 2<<20)
	for name, output := range map[string]json.RawMessage{
		"text":      json.RawMessage(`"` + long + `"`),
		"mark":      json.RawMessage(`"long text 0` + long + `"`),
		"escapes":   json.RawMessage(`{"a":["` + long + `","\u2028 <&>"]}`),
		"no object": json.RawMessage(`["` + long + `",1]`),
	} {
		most := 1.2
		if name == "mark" || sample.Raced() {
			most = 100 // It is encoded whole; and under the race detector slices.Grow allocates twice.
		}
		done := &conversation.ToolSettled{Call: "call_1", Output: output, At: at}
		step := &conversation.StepRecorded{Call: "call_1", Name: "s", Output: output}
		for _, r := range []conversation.Record{done, step} {
			lines := within(t, fmt.Sprint(name, " ", r.Type()), most*float64(len(output)), func() ([]byte, error) {
				return conversation.EncodeRecords(nil, []conversation.Record{r})
			})
			if want := fmt.Sprintf(`{"type":%q,%s`, r.Type(), jsonOf(t, r)[1:]); string(lines) != want {
				t.Errorf("%s %s: got %d bytes that differ from the %d of package encoding/json", name, r.Type(), len(lines), len(want))
			}
		}
		s := running(t)
		apply(t, s, called("call_1"), completed("res_1", "turn_1"), done, settled("sub_1"),
			attempt("sub_2", 1), settled("sub_2"))
		state := within(t, name+" state", most*float64(len(output)), func() ([]byte, error) { return conversation.EncodeState(s) })
		restored, err := conversation.DecodeState(state)
		if err != nil {
			t.Fatal(err)
		}
		var page *conversation.HistoryPage
		within(t, name+" history", 2*most*float64(len(output)), func() (_ []byte, err error) { // as a message, and as model input
			page, err = restored.Cut()
			return nil, err
		})
		x, err := page.Exchanges()
		if err != nil {
			t.Fatal(err)
		}
		if got := x[0].Turns[0].Parts[0].Tool.Output; string(got) != string(output) {
			t.Errorf("%s: got an output of %d bytes from history, want the %d that were settled", name, len(got), len(output))
		}
		if !strings.Contains(string(page.Messages), string(output)) {
			t.Errorf("%s: the message in history has another output", name)
		}
	}
}

// within runs encode and fails if it allocates more than the given bytes.
func within(t *testing.T, name string, most float64, encode func() ([]byte, error)) []byte {
	t.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC() // Twice, so that encoding/json keeps no old buffers.
	runtime.ReadMemStats(&before)
	out, err := encode()
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if got := float64(after.TotalAlloc - before.TotalAlloc); got > most {
		t.Errorf("%s: got %.0f bytes allocated, want at most %.0f", name, got, most)
	}
	return out
}
