package bench

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/parleyrun/parley/internal/fakemodel"
)

const (
	// nowWord in what the model says becomes a stamp: stampMark and the time at
	// which it is sent, in stampDigits digits, nanoseconds since 1970.
	nowWord     = "@now"
	stampMark   = '@'
	stampDigits = 19
)

// Model is the model of a run: an internal/fakemodel that can say when it speaks,
// counts the time it takes, and can broadcast to as many readers as a server has.
// It is safe for concurrent use and starts no goroutines.
type Model struct {
	*http.ServeMux
	fake    *fakemodel.Model
	calls   atomic.Int64
	nanos   atomic.Int64
	readers chan chan []byte // Of the next broadcast.
}

func NewModel() *Model {
	m := &Model{ServeMux: http.NewServeMux(), fake: fakemodel.New(nil), readers: make(chan chan []byte)}
	m.HandleFunc("/", m.fake.ServeHTTP)
	m.HandleFunc("POST /v1/", m.call)
	m.HandleFunc("GET /bench/spent", func(w http.ResponseWriter, _ *http.Request) {
		// A failed write is the reader's loss.
		_ = json.NewEncoder(w).Encode(spent{m.calls.Load(), m.nanos.Load()}) // In this order.
	})
	m.HandleFunc("GET /bench/broadcast", m.join)
	m.HandleFunc("POST /bench/broadcast", m.broadcast)
	return m
}

// spent is the time of all calls so far, each from its header until its answer is
// made. Its last bytes leave just after that.
type spent struct {
	Calls int64 `json:"calls"`
	Nanos int64 `json:"nanos"`
}

func (m *Model) call(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	m.fake.ServeHTTP(stamping{w}, r)
	// In this order: who sees the call counted sees its time, too.
	m.nanos.Add(int64(time.Since(start)))
	m.calls.Add(1)
}

// stamping writes the time in place of nowWord. The model writes a word with a pace
// alone, and words without one in one piece: these are said at the same time.
type stamping struct{ http.ResponseWriter }

func (s stamping) Write(p []byte) (int, error) {
	if !bytes.Contains(p, []byte(nowWord)) {
		return s.ResponseWriter.Write(p)
	}
	if _, err := s.ResponseWriter.Write(bytes.ReplaceAll(p, []byte(nowWord), stamp(time.Now()))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Unwrap lets the model flush.
func (s stamping) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func stamp(t time.Time) []byte {
	return strconv.AppendInt([]byte{stampMark}, t.UnixNano(), 10)
}

// stamps calls visit with the time of every stamp in b.
func stamps(b []byte, visit func(time.Time)) {
	for {
		i := bytes.IndexByte(b, stampMark)
		if i < 0 {
			return
		}
		b = b[i+1:]
		if len(b) < stampDigits {
			return
		}
		if n, err := strconv.ParseInt(string(b[:stampDigits]), 10, 64); err == nil {
			visit(time.Unix(0, n))
			b = b[stampDigits:]
		}
	}
}

// erased makes the stamps of a frame text like any other.
func erased(b []byte) []byte { return bytes.ReplaceAll(b, []byte{stampMark}, []byte{'#'}) }

type frame struct {
	// After is the time since the first frame.
	After time.Duration `json:"after"`
	Data  []byte        `json:"data"`
}

// order is what to broadcast, once so many readers are there.
type order struct {
	Readers int     `json:"readers"`
	Frames  []frame `json:"frames"`
}

// backlog is how many frames a reader may be behind before all wait for it.
const backlog = 4096

func (m *Model) join(w http.ResponseWriter, r *http.Request) {
	frames := make(chan []byte, backlog)
	flush := http.NewResponseController(w).Flush
	w.Header().Set("Content-Type", "text/event-stream")
	if flush() != nil {
		return
	}
	select {
	case m.readers <- frames:
	case <-r.Context().Done():
		return
	}
	for b := range frames {
		if _, err := w.Write(b); err != nil || flush() != nil {
			return
		}
	}
}

// broadcast waits for as many readers as an order wants, sends them its frames at their times,
// as simply as Go can, each with its stamp as its id, and ends their streams.
func (m *Model) broadcast(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var readers []chan []byte
	defer func() {
		for _, frames := range readers {
			close(frames)
		}
	}()
	for range o.Readers {
		select {
		case frames := <-m.readers:
			readers = append(readers, frames)
		case <-r.Context().Done():
			return
		}
	}
	start := time.Now()
	for _, f := range o.Frames {
		if pause(r.Context(), f.After-time.Since(start)) != nil {
			return
		}
		b := slices.Concat([]byte("id: "), stamp(time.Now()), []byte("\n"), f.Data)
		for _, frames := range readers {
			select {
			case frames <- b:
			case <-r.Context().Done():
				return
			}
		}
	}
	w.WriteHeader(http.StatusNoContent)
}
