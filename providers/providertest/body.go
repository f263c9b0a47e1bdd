package providertest

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
)

// Payloads encodes event data as a stream of server-sent events.
func Payloads(payloads ...string) string {
	var b strings.Builder
	for _, p := range payloads {
		b.WriteString("data: " + p + "\n\n")
	}
	return b.String()
}

// Decode decodes the body of a response through the whole path, and returns its events and error. A
// stream that violates a rule fails the test.
func Decode(t *testing.T, c providers.Codec, body string) ([]providers.Event, *providers.Error) {
	t.Helper()
	events, failure, broken := Collect(providers.NewStream(t.Context(), providers.Model{Provider: "p"},
		func(a *providers.Assembler) error { return c.Decode(strings.NewReader(body), a) }))
	if broken != nil {
		t.Fatal(broken)
	}
	return events, failure
}

// Reads verifies that a codec decodes exactly these events from the body of a response.
func Reads(t *testing.T, c providers.Codec, body string, want ...providers.Event) {
	t.Helper()
	events, failure := Decode(t, c, body)
	if failure != nil {
		t.Fatal(failure)
	}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// ReadsCalls verifies that a codec decodes these calls from the body of a response, and that they are
// its stop reason.
func ReadsCalls(t *testing.T, c providers.Codec, body string, want ...providers.ToolCallEnd) {
	t.Helper()
	events, failure := Decode(t, c, body)
	if failure != nil {
		t.Fatal(failure)
	}
	var got []providers.ToolCallEnd
	for _, e := range events {
		if e, ok := e.(providers.ToolCallEnd); ok {
			got = append(got, e)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if done := events[len(events)-1].(providers.Done); done.StopReason != providers.StopToolUse {
		t.Errorf("got stop reason %q with calls, want tool use", done.StopReason)
	}
}

// Sent returns the body of a call as sent. It verifies the declared size.
func Sent(t *testing.T, call *providers.Call) string {
	t.Helper()
	body := call.Body.Open(t.Context())
	defer body.Close()
	b, err := io.ReadAll(body)
	if err != nil || int64(len(b)) != call.Body.Size() {
		t.Fatalf("read %d bytes of %d, %v", len(b), call.Body.Size(), err)
	}
	return string(b)
}

// Encoded returns the body of a request as Canonical JSON.
func Encoded(t *testing.T, c providers.Codec, m providers.Model, req providers.Request, o providers.Options) string {
	t.Helper()
	req, o = providers.Transform(m, req, o)
	call, err := c.Encode(m, req, o)
	if err != nil {
		t.Fatal(err)
	}
	return Canonical(t, Sent(t, call))
}

// Canonical returns JSON with sorted keys and one value per line. It keeps the digits of numbers.
func Canonical(t *testing.T, s string) string {
	t.Helper()
	var v any
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("invalid JSON: %v in %s", err, s)
	}
	if _, err := d.Token(); err != io.EOF {
		t.Fatalf("got more than one JSON value in %s", s)
	}
	out, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// Choices verifies the effect of options on a request with the tools look and find. The expected JSON
// has the members of the body that differ from a request without options.
func Choices(t *testing.T, c providers.Codec, m providers.Model, options map[string]providers.Options) {
	t.Helper()
	req := providers.Request{
		Messages: []providers.Message{{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: "Hi"}}}},
		Tools:    []providers.Tool{{Name: "look"}, {Name: "find"}},
	}
	members := func(o providers.Options) (out map[string]json.RawMessage) {
		if err := json.Unmarshal([]byte(Encoded(t, c, m, req, o)), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	without := members(providers.Options{})
	for want, o := range options {
		got := members(o)
		for k, v := range without {
			if bytes.Equal(v, got[k]) {
				delete(got, k)
			} else if got[k] == nil {
				got[k] = json.RawMessage("null")
			}
		}
		b, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(Canonical(t, want), Canonical(t, string(b))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
