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
	// nowWord in the model's text becomes a stamp: stampMark and the send time in stampDigits digits,
	// nanoseconds since 1970.
	nowWord     = "@now"
	stampMark   = '@'
	stampDigits = 19
)

// Model is the model of a run, an internal/fakemodel. It can stamp its text with the time, counts the
// duration of its calls, and can broadcast to as many readers as a server has. It is safe for
// concurrent use and starts no goroutines.
type Model struct {
	*http.ServeMux
	fake    *fakemodel.Model
	calls   atomic.Int64
	nanos   atomic.Int64
	readers chan chan []byte // readers of the next broadcast
}

func NewModel() *Model {
	m := &Model{ServeMux: http.NewServeMux(), fake: fakemodel.New(nil), readers: make(chan chan []byte)}
	m.HandleFunc("/", m.fake.ServeHTTP)
	m.HandleFunc("POST /v1/", m.call)
	m.HandleFunc("GET /bench/spent", func(w http.ResponseWriter, _ *http.Request) {
		// A failed write affects the reader only.
		_ = json.NewEncoder(w).Encode(spent{m.calls.Load(), m.nanos.Load()}) // Calls first, then nanos.
	})
	m.HandleFunc("GET /bench/broadcast", m.join)
	m.HandleFunc("POST /bench/broadcast", m.broadcast)
	return m
}

// spent is the number and the total time of all calls so far, each from its header until its answer is
// complete. The last bytes leave just after that.
type spent struct {
	Calls int64 `json:"calls"`
	Nanos int64 `json:"nanos"`
}

func (m *Model) call(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	m.fake.ServeHTTP(stamping{w}, r)
	// Nanos first, so that a reader that sees the call counted also sees its time.
	m.nanos.Add(int64(time.Since(start)))
	m.calls.Add(1)
}

// stamping replaces nowWord with the time. With a pace, the model writes words one by one; without, it
// writes them in one piece with one time.
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

// Unwrap gives the model access to Flush.
func (s stamping) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func stamp(t time.Time) []byte {
	return strconv.AppendInt([]byte{stampMark}, t.UnixNano(), 10)
}

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

func erased(b []byte) []byte { return bytes.ReplaceAll(b, []byte{stampMark}, []byte{'#'}) }

type frame struct {
	// After is the time since the first frame.
	After time.Duration `json:"after"`
	Data  []byte        `json:"data"`
}

// order describes a broadcast, and the number of readers it waits for.
type order struct {
	Readers int     `json:"readers"`
	Frames  []frame `json:"frames"`
}

// backlog is the number of frames by which a reader may lag before the broadcast waits for it.
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

// broadcast waits for the readers of an order, sends them its frames at their times, and ends their
// streams. Each frame has its stamp as its id. It executes as little code as possible.
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
