package http_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	parleyhttp "github.com/parleyrun/parley/http"
)

// frames records the frames of an event stream and their times.
type frames struct {
	header http.Header
	start  time.Time
	beats  []time.Duration // heartbeats
	marks  []time.Duration // control frames
	data   int             // data frames
}

func (f *frames) Header() http.Header { return f.header }
func (f *frames) WriteHeader(int)     {}
func (f *frames) Flush()              {}
func (f *frames) Write(b []byte) (int, error) {
	at, text := time.Since(f.start), string(b)
	switch {
	case text == ": heartbeat\n\n":
		f.beats = append(f.beats, at)
	case strings.Contains(text, "event: control\n"):
		f.marks = append(f.marks, at)
		f.data += strings.Count(text, "event: data\n")
	default:
		f.data = -1000 // a frame that is neither
	}
	return len(b), nil
}

// watch follows c1 for a time, with a batch after each of the pauses.
func (h *harness) watch(t *testing.T, last time.Duration, pauses ...time.Duration) *frames {
	t.Helper()
	return h.watchAt(t, "/agents/assistant/c1?view=updates&live=sse&offset="+offset(0), last, pauses...)
}

func (h *harness) watchAt(t *testing.T, stream string, last time.Duration, pauses ...time.Duration) *frames {
	t.Helper()
	r, cancel := withCancel(httptest.NewRequest("GET", stream, nil))
	f := &frames{header: http.Header{}, start: time.Now()}
	ended := make(chan struct{})
	go func() { defer close(ended); h.h.ServeHTTP(f, r) }()
	for _, pause := range pauses {
		time.Sleep(pause)
		h.claims(c1, 1)
		synctest.Wait()
	}
	time.Sleep(last - time.Since(f.start))
	synctest.Wait()
	cancel()
	<-ended
	return f
}

// TestEventStreamBeats checks for a heartbeat every 15 seconds, independent of other frames.
// covers: protocol/122, protocol/126
func TestEventStreamBeats(t *testing.T) {
	for name, pauses := range map[string][]time.Duration{
		"idle": nil,
		"busy": {time.Second, 14 * time.Second, 1, 14_999 * time.Millisecond, 31 * time.Second, 29 * time.Second, 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t, nil)
				h.create()
				f := h.watch(t, 10*time.Minute+time.Second, pauses...)
				var want []time.Duration
				for i := range 40 {
					want = append(want, time.Duration(i+1)*15*time.Second)
				}
				if d := cmp.Diff(want, f.beats); d != "" {
					t.Errorf("heartbeats (-want +got):\n%s", d)
				}
				if f.data != 0 {
					t.Errorf("%d data frames without a chunk", f.data)
				}
			})
		})
	}
}

// TestEventStreamControls checks for a control frame at the beginning, with every batch at once, and
// at least every 30 seconds, even if a store needs a second for a read.
// covers: protocol/121, protocol/123, protocol/125
func TestEventStreamControls(t *testing.T) {
	for name, slow := range map[string]time.Duration{"fast_store": 0, "slow_store": time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t, nil)
				h.create()
				h.rt.fail = func(method string) error {
					if method == "Updates" {
						time.Sleep(slow)
					}
					return nil
				}
				pauses := []time.Duration{4 * time.Second, 29 * time.Second, 31 * time.Second, time.Minute, 10 * time.Second}
				f := h.watch(t, 20*time.Minute, pauses...)
				last := slow
				for _, at := range append(slices.Clone(f.marks), 20*time.Minute) {
					if at-last > 30*time.Second {
						t.Errorf("no control frame between %v and %v", last, at)
					}
					last = at
				}
				if f.marks[0] != slow {
					t.Errorf("got first control frame after %v", f.marks[0])
				}
				batch := time.Duration(0)
				for _, pause := range pauses {
					batch += pause
					// A read in progress when the batch arrives is finished first.
					if !slices.ContainsFunc(f.marks, func(at time.Duration) bool { return at >= batch && at <= batch+2*slow }) {
						t.Errorf("no control frame for the batch at %v: %v", batch, f.marks)
					}
				}
				if n := len(f.marks); n > 50 {
					t.Errorf("%d control frames in 20 minutes", n)
				}
			})
		})
	}
}

// TestIdleControls checks that an idle stream of either protocol sends a control frame after each wait
// of 30 seconds, however long the following read takes.
// covers: protocol/125, beta/63
func TestIdleControls(t *testing.T) {
	for _, stream := range []string{"/agents/assistant/c1?view=updates&live=sse&offset=" + offset(0), betaC1 + "?live=sse&offset=now"} {
		for _, slow := range []time.Duration{0, time.Second} {
			t.Run(stream+"/"+slow.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := newBeta(t, nil)
					h.create()
					h.rt.fail = func(method string) error {
						if method == "Updates" || method == "Events" {
							time.Sleep(slow)
						}
						return nil
					}
					f := h.watchAt(t, stream, 2*time.Minute+5*time.Second)
					want := []time.Duration{0, 30 * time.Second, time.Minute, 90 * time.Second, 2 * time.Minute}
					for i := range want {
						want[i] += slow // of the first read
					}
					if d := cmp.Diff(want, f.marks); d != "" {
						t.Errorf("%s: control frames with reads of %v (-want +got):\n%s", stream, slow, d)
					}
				})
			})
		}
	}
}

// TestLongPollWindow checks the default of 30 seconds, and that a batch ends it at once.
// covers: protocol/117, protocol/118
func TestLongPollWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		h.create()
		start := time.Now()
		res := h.do("GET", "/c1?view=updates&live=long-poll&offset="+offset(0))
		wantHeaders(t, res, jsonHeaders(offset(0), true))
		if got := readAll(t, res); got != "[]" || time.Since(start) != 30*time.Second {
			t.Errorf("%s after %v", got, time.Since(start))
		}
		for _, pause := range []time.Duration{1, 15 * time.Second, 30*time.Second - 1} {
			head := h.rt.convs[c1].state.Head()
			answered := make(chan *http.Response, 1)
			start = time.Now()
			go func() {
				answered <- h.do("GET", "/c1?view=updates&live=long-poll&offset="+head.String())
			}()
			time.Sleep(pause)
			h.claims(c1, 1)
			res := <-answered
			wantHeaders(t, res, jsonHeaders((head+1).String(), true))
			if took := time.Since(start); took != pause {
				t.Errorf("batch after %v: got response after %v", pause, took)
			}
		}
	})
}

// TestLiveDefaults checks the default times of the protocol.
// covers: protocol/126
func TestLiveDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime()
		handler, err := parleyhttp.New(rt, rt, []parleyhttp.Mount{{Path: "/agents/assistant", Agent: "assistant"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		h := &harness{t: t, rt: rt, h: handler}
		h.create()
		f := h.watch(t, 31*time.Second)
		if len(f.beats) != 2 || f.beats[0] != 15*time.Second || len(f.marks) != 2 {
			t.Errorf("got heartbeats %v, control frames %v", f.beats, f.marks)
		}
	})
}
