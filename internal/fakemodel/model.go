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

// ErrorText is the default error message of the model. It must never reach the client of a runtime.
const ErrorText = "fakemodel: these are the vendor's own words"

// maxBody exceeds the largest images of a conversation.
const maxBody = 512 << 20

// Options configure the model. Nil and zero fields select the defaults.
type Options struct {
	// Key is the required credential. If empty, any credential or none is accepted.
	Key string
	// MaxRequests is the number of calls that Requests returns. If 0, it is 1000.
	MaxRequests int
}

// Request is a received call.
type Request struct {
	// API is the path of the call.
	API string `json:"api"`
	// Model is the model named in the call.
	Model string `json:"model"`
	// Prompt is the last text of a user, Step the number of responses since.
	Prompt string `json:"prompt"`
	Step   int    `json:"step"`
	// System is the system prompt, Tools the names of the tools.
	System string   `json:"system"`
	Tools  []string `json:"tools"`
	// Messages is the number of messages, Images the number of images in them.
	Messages int `json:"messages"`
	Images   int `json:"images"`
	// Effort is the level or token budget for reasoning; empty if the call has none.
	Effort string `json:"effort"`
	// Refused is the reason of a rejection. Members that could not be decoded are empty.
	Refused string `json:"refused"`
}

// Model is the handler. Create it with [New].
type Model struct {
	options Options
	mux     *http.ServeMux

	mu       sync.Mutex
	requests []Request
	// calls counts calls by the hash of their text, for times.
	calls map[string]int
	gates sync.Map // gates by name
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

// gate is closed once it is released.
type gate struct {
	done <-chan struct{}
	open func()
}

// Release opens a gate for current and later waiters.
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

// answer responds to a call in a format. p has the values of the URL.
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
		m.respond(w, r, f, p, s, faulty)
		return
	}
	if s.retryAfter >= 0 {
		w.Header().Set("Retry-After", strconv.Itoa(s.retryAfter))
	}
	refuse(s.status, s.message)
}

// respond executes a step. It panics with http.ErrAbortHandler to close the connection.
func (m *Model) respond(w http.ResponseWriter, r *http.Request, f *vendor, p *prompt, s *step, faulty bool) {
	out := &sender{w: w}
	a := &answer{of: f, p: p, id: "fake_" + p.hash()[:16], out: out, usage: usage{input: p.words(), output: 1}}
	sp := &emitter{answer: a, pass: m.pass, pace: s.pace}
	switch err := sp.perform(r.Context(), s, faulty); {
	case errors.Is(err, errBreak):
		panic(http.ErrAbortHandler)
	case errors.Is(err, errFail) && p.stream:
		a.fail(s.message)
	case errors.Is(err, errFail):
		writeJSON(w, http.StatusInternalServerError, f.failure(http.StatusInternalServerError, s.message))
	case err != nil:
		// The client has left.
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

// count returns how often this call was made, including this time.
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
	// The client may have left.
	_, _ = w.Write(encode(body))
}
