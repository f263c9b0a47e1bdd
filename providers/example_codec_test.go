package providers_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/providertest"
)

// linesCodec implements a format with a list of turns as request and lines of JSON as reply.
type linesCodec struct{}

type lineTurn struct {
	Who  string `json:"who"`
	Text string `json:"text"`
}

type lineRequest struct {
	Model  string     `json:"model"`
	System string     `json:"system,omitempty"`
	Turns  []lineTurn `json:"turns"`
}

type line struct {
	Say  string `json:"say"`
	Call *struct {
		ID, Name string
		Input    json.RawMessage
	} `json:"call"`
	Error string `json:"error"`
	Done  bool   `json:"done"`
}

// Encode implements providers.Codec.
func (linesCodec) Encode(m providers.Model, req providers.Request, o providers.Options) (*providers.Call, error) {
	if len(o.Stop) > 0 {
		return nil, errors.New("the format has no stop sequences")
	}
	var messages []providers.Message
	for _, b := range req.History {
		messages = append(messages, providers.TransformBlock(m, b)...)
	}
	messages = append(messages, req.Messages...)
	body := lineRequest{Model: m.ID, System: req.System}
	for _, message := range messages {
		for _, part := range message.Parts {
			if text, ok := part.(providers.Text); ok { // ToolCall and ToolResult are omitted here
				body.Turns = append(body.Turns, lineTurn{string(message.Role), text.Text})
			}
		}
	}
	encoded, err := new(providers.BodyEncoder).Encode(body)
	if err != nil {
		return nil, err
	}
	header := http.Header{"Content-Type": {"application/json"}}
	providers.SetBearer(header, m, o.APIKey)
	return &providers.Call{Path: "/answer", Header: header, Body: encoded}, nil
}

// Decode implements providers.Codec.
func (linesCodec) Decode(body io.Reader, a *providers.Assembler) error {
	lines := bufio.NewReaderSize(body, 1<<20) // maximum line length
	for !a.Stopped() {
		text, err := lines.ReadSlice('\n')
		if err == io.EOF {
			return nil // early end of body; a reports it
		} else if err != nil {
			return err
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return providers.EventError(providers.KindProtocol, text, err)
		}
		switch {
		case l.Error != "":
			return providers.EventError(providers.Classify(0, l.Error, ""), text, errors.New(l.Error))
		case l.Call != nil:
			call := a.StartCall(l.Call.ID, l.Call.Name)
			a.CallArguments(call, string(l.Call.Input))
			a.EndCall(call, "")
		case l.Done:
			a.Finish(providers.Done{StopReason: providers.StopStop})
		default:
			a.Text(l.Say)
		}
	}
	return nil
}

// byLine frames the format for the suites.
type byLine struct{}

func (byLine) Frame(data string) []byte          { return []byte(data + "\n") }
func (byLine) Variants([]byte) map[string][]byte { return nil }

// TestExampleCodec runs the suites on the codec of the example.
func TestExampleCodec(t *testing.T) {
	const reply = `{"say": "one "}
{"say": "moment"}
{"call": {"id": "1", "name": "look", "input": {"up": true}}}
{"done": true}
`
	providertest.RunCodec(t, providertest.Recording{Codec: linesCodec{}, Body: []byte(reply), Framing: byLine{}, Complete: len(reply)})
	providertest.RunHistory(t, linesCodec{}, nil)
	endless := func(int) string { return `{"say": "` + strings.Repeat("on and ", 100) + `"}` }
	providertest.RunEndless(t, linesCodec{}, byLine{}, map[providers.Limited]map[string]func(int) string{
		providers.LimitedReply: {"text": endless},
	})
}

// A Codec implements a wire format: the body of requests and the content of responses. NewHTTP does
// the rest. A program adds it to parley.Program's Protocols.
func ExampleCodec() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked lineRequest
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || r.Header.Get("Authorization") != "Bearer sesame" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprintln(w, `{"say": "`+asked.Model+` has "}`)
		fmt.Fprintf(w, "{\"say\": \"read %d turns\"}\n", len(asked.Turns))
		fmt.Fprintln(w, `{"call": {"id": "1", "name": "look", "input": {"up": true}}}`)
		fmt.Fprintln(w, `{"done": true}`)
	}))
	defer server.Close()
	registry := providers.NewRegistry(nil)
	registry.RegisterProtocol("lines", providers.NewHTTP(linesCodec{}, nil))
	err := registry.RegisterProvider("house", providers.Registration{API: "lines", BaseURL: server.URL, APIKey: "sesame"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ask := providers.Request{Messages: []providers.Message{
		{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: "Look up."}}},
	}}
	for event, err := range registry.Stream(context.Background(), "house/large", ask, providers.Options{}) {
		switch e := event.(type) {
		case providers.TextDelta:
			fmt.Printf("%q\n", e.Text)
		case providers.ToolCallEnd:
			fmt.Println(e.Name, string(e.Arguments))
		case providers.Done:
			fmt.Println(e.StopReason)
		case nil:
			fmt.Println(err)
		}
	}
	// Output:
	// "large has "
	// "read 1 turns"
	// look {"up": true}
	// tool_use
}

// reverser is a protocol without a server.
type reverser struct{}

// Stream implements providers.Protocol.
func (reverser) Stream(ctx context.Context, m providers.Model, req providers.Request, o providers.Options) iter.Seq2[providers.Event, error] {
	req, _ = providers.Transform(m, req, o)
	return providers.NewStream(ctx, m, func(a *providers.Assembler) error {
		for _, part := range req.Messages[len(req.Messages)-1].Parts {
			if text, ok := part.(providers.Text); ok {
				letters := []byte(text.Text)
				slices.Reverse(letters)
				a.Text(string(letters))
			}
		}
		a.Finish(providers.Done{StopReason: providers.StopStop})
		return nil
	})
}

// A protocol without HTTP uses NewStream, which keeps the rules of streams. A stream that ends without
// Finish is truncated.
func ExampleNewStream() {
	ask := providers.Request{Messages: []providers.Message{
		{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: "abc"}}},
	}}
	cut := func(*providers.Assembler) error { return nil }
	for _, stream := range []iter.Seq2[providers.Event, error]{
		reverser{}.Stream(context.Background(), providers.Model{Provider: "house", ID: "mirror"}, ask, providers.Options{}),
		providers.NewStream(context.Background(), providers.Model{Provider: "house", ID: "cut"}, cut),
	} {
		for event, err := range stream {
			fmt.Printf("%T %v\n", event, err)
		}
	}
	// Output:
	// providers.TextDelta <nil>
	// providers.Done <nil>
	// <nil> call model of house: truncated: response ended without its terminal marker
}

// Errors of models report whether a retry helps, and the delay.
func ExampleError_Retryable() {
	header := http.Header{"Retry-After": {"20"}}
	for _, err := range []*providers.Error{
		providers.ResponseError(http.StatusTooManyRequests, header, []byte(`{"error":{"message":"slow down"}}`)),
		providers.ResponseError(http.StatusUnauthorized, nil, []byte(`{"error":{"message":"who are you?"}}`)),
		providers.ResponseError(http.StatusBadRequest, nil, []byte(`{"error":{"code":"context_length_exceeded"}}`)),
	} {
		fmt.Println(err.Kind, err.Retryable(), err.RetryAfter)
	}
	// Output:
	// rate_limit true 20s
	// auth false 0s
	// context_overflow false 0s
}
