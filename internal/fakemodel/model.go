package fakemodel

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
)

// ErrorText is what the model says about its own errors. It must never reach the
// client of a runtime.
const ErrorText = "fakemodel: these are the vendor's own words"

// maxBody is more than the largest images of one conversation take.
const maxBody = 512 << 20

// Options changes the model. Nil and every zero field work.
type Options struct {
	// Key is the credential every call must bring; empty means any or none.
	Key string
	// MaxRequests is how many calls Requests remembers; 0 means 1000.
	MaxRequests int
}

// Request is one call the model has seen, in the order of arrival.
type Request struct {
	// API is the path it came to.
	API string `json:"api"`
	// Model is the model it named.
	Model string `json:"model"`
	// Prompt is the last text of a user, Step the number of responses since.
	Prompt string `json:"prompt"`
	Step   int    `json:"step"`
	// System is the system prompt, Tools the names offered.
	System string   `json:"system"`
	Tools  []string `json:"tools"`
	// Messages counts the messages, Images the images in all of them.
	Messages int `json:"messages"`
	Images   int `json:"images"`
	// Effort is what the call says about thinking: a level or a number of
	// tokens; empty if it says nothing.
	Effort string `json:"effort"`
	// Refused says what was wrong with the call; what could not be read of it is empty.
	Refused string `json:"refused"`
}

// Model is the model. Create it with New.
type Model struct {
	options Options
	mux     *http.ServeMux

	mu       sync.Mutex
	requests []Request
	// calls counts the calls by the hash of their text, for times.
	calls map[string]int
	gates sync.Map // Each gate by its name.
}

// New returns a model.
func New(o *Options) *Model {
	if o == nil {
		o = &Options{}
	}
	m := &Model{options: *o, mux: http.NewServeMux(), calls: map[string]int{}}
	m.options.MaxRequests = cmp.Or(o.MaxRequests, 1000)
	for path, f := range map[string]*vendor{
		"/v1/chat/completions": completions, "/mistral/v1/chat/completions": mistral, "/v1/messages": messages,
		"/v1/responses": openAI, "/openai/v1/responses": azure, "/backend-api/codex/responses": codex,
	} {
		m.mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) { m.answer(w, r, f, &prompt{}) })
	}
	for call, stream := range map[string]bool{"converse": false, "converse-stream": true} {
		m.mux.HandleFunc("POST /bedrock/model/{model}/"+call, func(w http.ResponseWriter, r *http.Request) {
			m.answer(w, r, converse, &prompt{model: r.PathValue("model"), stream: stream})
		})
	}
	for _, path := range []string{
		"/v1beta/models/{call}", "/v1/publishers/google/models/{call}", "/v1/projects/{project}/locations/{location}/publishers/google/models/{call}",
	} {
		m.mux.HandleFunc("POST "+path, m.answerGoogle)
	}
	m.mux.HandleFunc("GET /computeMetadata/v1/instance/service-accounts/default/token", m.grant)
	m.mux.HandleFunc("POST /release/{gate}", func(w http.ResponseWriter, r *http.Request) {
		m.Release(r.PathValue("gate"))
		w.WriteHeader(http.StatusNoContent)
	})
	m.mux.HandleFunc("GET /gate/{gate}", func(w http.ResponseWriter, r *http.Request) {
		if m.pass(r.Context(), r.PathValue("gate")) == nil {
			w.WriteHeader(http.StatusNoContent)
		}
	})
	m.mux.HandleFunc("GET /requests", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, m.Requests())
	})
	return m
}

// ServeHTTP implements http.Handler.
func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.mux.ServeHTTP(w, r) }

// Requests returns the latest calls, oldest first. The caller owns the slice.
func (m *Model) Requests() []Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Request{}, m.requests...)
}

// gate is done once it is open.
type gate struct {
	done <-chan struct{}
	open func()
}

// Release opens a gate, for those who wait at it and for all who come later.
func (m *Model) Release(gate string) { m.gate(gate).open() }

func (m *Model) gate(name string) gate {
	ctx, open := context.WithCancel(context.Background())
	g, _ := m.gates.LoadOrStore(name, gate{ctx.Done(), open})
	return g.(gate)
}

func (m *Model) pass(ctx context.Context, gate string) error {
	select {
	case <-m.gate(gate).done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// answer answers a call in a format, of which p has what the URL says.
func (m *Model) answer(w http.ResponseWriter, r *http.Request, f *vendor, p *prompt) {
	refuse := func(status int, why string) { writeJSON(w, status, f.failure(status, why)) }
	if m.options.Key != "" && f.key(r.Header) != m.options.Key {
		refuse(http.StatusUnauthorized, "wrong key")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		refuse(http.StatusRequestEntityTooLarge, err.Error())
		return
	}
	var s *step
	if err = f.decode(p, body); err == nil {
		s, err = p.step()
	}
	m.record(r.URL.Path, p, err)
	if err != nil {
		refuse(http.StatusBadRequest, err.Error())
		return
	}
	faulty := (s.only == "" || s.only == p.model) && (s.times == 0 || m.count(p) <= s.times)
	if s.status == 0 || !faulty {
		m.speak(w, r, f, p, s, faulty)
		return
	}
	if s.retryAfter >= 0 {
		w.Header().Set("Retry-After", strconv.Itoa(s.retryAfter))
	}
	refuse(s.status, s.message)
}

// speak answers with what s says. It panics with http.ErrAbortHandler, which
// breaks the connection, where s says so.
func (m *Model) speak(w http.ResponseWriter, r *http.Request, f *vendor, p *prompt, s *step, faulty bool) {
	out := &sender{w: w}
	a := &answer{of: f, p: p, id: "fake_" + p.hash()[:16], out: out, usage: usage{input: p.words(), output: 1}}
	sp := &speaker{answer: a, pass: m.pass, pace: s.pace}
	switch err := sp.perform(r.Context(), s, faulty); {
	case errors.Is(err, errBreak):
		panic(http.ErrAbortHandler)
	case errors.Is(err, errFail) && p.stream:
		a.fail(s.message)
	case errors.Is(err, errFail):
		writeJSON(w, http.StatusInternalServerError, f.failure(http.StatusInternalServerError, s.message))
	case err != nil:
		// The caller has gone away.
	default:
		a.end(sp.reason(s), usage{input: a.usage.input, output: sp.spent(), reasoning: sp.thought})
		if !p.stream {
			writeJSON(w, http.StatusOK, json.RawMessage(a.form("whole", nil)))
		}
	}
	out.write()
}

func (m *Model) record(path string, p *prompt, refused error) {
	r := p.request(path)
	if refused != nil {
		r.Refused = refused.Error()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.requests) == m.options.MaxRequests {
		m.requests = m.requests[1:]
	}
	m.requests = append(m.requests, r)
}

// count returns how often this call was made, this time included.
func (m *Model) count(p *prompt) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := p.hash()
	m.calls[key]++
	return m.calls[key]
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// A caller that went away does not read the answer.
	_, _ = w.Write(encode(body))
}
