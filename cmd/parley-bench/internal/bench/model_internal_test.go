package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestStamps(t *testing.T) {
	at := time.Unix(1_700_000_000, 123)
	s := string(stamp(at))
	for _, tt := range []struct {
		name, in string
		want     int
	}{
		{"none", "", 0},
		{"one", s, 1},
		{"between words", "a " + s + " b " + s + ` c","x":1}`, 2},
		{"too short", s[:len(s)-1], 0},
		{"a mark alone", "@ @now " + s, 1},
		{"no digits", "@" + strings.Repeat("x", stampDigits), 0},
		{"marks in a row", "@" + s, 1},
		{"erased", string(erased([]byte(s))), 0},
	} {
		n := 0
		stamps([]byte(tt.in), func(got time.Time) {
			n++
			if !got.Equal(at) {
				t.Errorf("%s: %v, want %v", tt.name, got, at)
			}
		})
		if n != tt.want {
			t.Errorf("%s: %d stamps, want %d", tt.name, n, tt.want)
		}
	}
}

func FuzzStamps(f *testing.F) {
	f.Add(stamp(time.Unix(1_700_000_000, 0)))
	f.Add([]byte("@now @@-000000000000000001"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		stamps(b, func(time.Time) { n++ })
		if marks := bytes.Count(b, []byte{stampMark}); n > marks {
			t.Errorf("%d stamps after %d marks", n, marks)
		}
	})
}

func TestModelStamps(t *testing.T) {
	server := httptest.NewServer(NewModel())
	defer server.Close()
	start := time.Now()
	body, err := json.Marshal(map[string]any{
		"model": "m", "stream": true, "stream_options": map[string]bool{"include_usage": true},
		"messages": []map[string]string{{"role": "user", "content": `say="@now and @now"`}},
	})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(server.URL+"/v1/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(err, resp.Status, string(b))
	}
	var times []time.Time
	stamps(b, func(at time.Time) { times = append(times, at) })
	end := time.Now()
	if len(times) != 2 || times[0].Before(start.Round(0)) || times[1].Before(times[0]) || times[1].After(end) || bytes.Contains(b, []byte(nowWord)) {
		t.Errorf("stamp %v, want between %v and %v: %s", times, start, end, b)
	}
	r := &runner{o: Options{Against: "http://127.0.0.1:1", Model: server.URL}, control: newClient()}
	if s, err := r.spent(t.Context(), 1); err != nil || s.Calls != 1 || s.Nanos <= 0 {
		t.Errorf("spent %+v, %v", s, err)
	}
	if _, err := r.spent(t.Context(), 2); err == nil || !strings.Contains(err.Error(), "called 1 times, want 2") {
		t.Errorf("spent without the call: %v", err)
	}
}

// Three readers get all three frames unchanged, and then the end.
func TestBroadcast(t *testing.T) {
	server := httptest.NewServer(NewModel())
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // Only failing tests reach this timeout.
	defer cancel()
	at, err := newTarget(server.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fetch(ctx, at.client, http.MethodPost, server.URL+"/bench/broadcast", []byte("{"), http.StatusBadRequest); err != nil {
		t.Error(err)
	}
	o := order{Readers: 3}
	want := 0
	for i := range 3 {
		o.Frames = append(o.Frames, frame{After: time.Duration(i) * time.Millisecond, Data: []byte("event: data\ndata: [\"#\"]\n\n")})
		want += len(o.Frames[i].Data) + len("id: @\n") + stampDigits
	}
	j := &job{runner: &runner{}, Scenario: &Scenario{}}
	if err := j.broadcast(ctx, at, o); err != nil || j.Samples != 9 || j.Latency.P50 < 0 {
		t.Errorf("%+v, %v", j.Scenario, err)
	}
	var readers sync.WaitGroup
	for range o.Readers {
		s, err := at.open(ctx, "/bench/broadcast")
		if err != nil {
			t.Fatal(err)
		}
		readers.Go(func() {
			if b, err := io.ReadAll(s.body); err != nil || len(b) != want || bytes.Count(b, []byte("[\"#\"]")) != 3 {
				t.Errorf("%d bytes, %v, want %d: %s", len(b), err, want, b)
			}
		})
	}
	body, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fetch(ctx, at.client, http.MethodPost, server.URL+"/bench/broadcast", body, http.StatusNoContent); err != nil {
		t.Error(err)
	}
	readers.Wait()
}
