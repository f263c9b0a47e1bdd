package fakemodel_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/internal/fakemodel"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/anthropicmessages"
	"github.com/parleyrun/parley/providers/bedrockconverse"
	"github.com/parleyrun/parley/providers/googlegenerativeai"
	"github.com/parleyrun/parley/providers/mistralconversations"
	"github.com/parleyrun/parley/providers/openaicompletions"
	"github.com/parleyrun/parley/providers/openairesponses"
	"github.com/parleyrun/parley/providers/providertest"
)

// client is one wire format on one server.
type client struct {
	model    *fakemodel.Model
	server   *httptest.Server
	protocol providers.Protocol
	of       providers.Model
}

// formats returns the real codecs. Each test of behavior runs through all of them.
func formats() map[string]format {
	return map[string]format{
		openaicompletions.API: {"/v1", func(string) providers.Protocol { return openaicompletions.New(nil) }},
		anthropicmessages.API: {"", func(string) providers.Protocol { return anthropicmessages.New(nil) }},

		bedrockconverse.API: {"/bedrock", func(string) providers.Protocol {
			return bedrockconverse.New(&bedrockconverse.Options{Getenv: signing})
		}},
		mistralconversations.API: {"/mistral", func(string) providers.Protocol { return mistralconversations.New(nil) }},

		googlegenerativeai.API: {"/v1beta", func(string) providers.Protocol { return googlegenerativeai.New(nil) }},
		googlegenerativeai.APIVertex: {"", func(url string) providers.Protocol {
			values := map[string]string{
				"GOOGLE_CLOUD_PROJECT": "proj", "GOOGLE_CLOUD_LOCATION": "global", "GCE_METADATA_HOST": strings.TrimPrefix(url, "http://"), "CLOUDSDK_CONFIG": "none",
			}
			return googlegenerativeai.NewVertex(&googlegenerativeai.Options{Getenv: func(name string) string { return values[name] }})
		}},

		openairesponses.API:      {"/v1", func(string) providers.Protocol { return openairesponses.New(nil) }},
		openairesponses.APIAzure: {"/openai/v1", func(string) providers.Protocol { return openairesponses.NewAzure(nil) }},
		openairesponses.APICodex: {"/backend-api", func(string) providers.Protocol { return subscription{openairesponses.NewCodex(nil)} }},
	}
}

// subscription authenticates with tokens in the form of that format.
type subscription struct{ providers.Protocol }

func (s subscription) Stream(ctx context.Context, m providers.Model, req providers.Request, o providers.Options) iter.Seq2[providers.Event, error] {
	if o.APIKey == "" {
		o.APIKey = "any"
	}
	claims := fmt.Sprintf(`{"https://api.openai.com/auth":{"chatgpt_account_id":%q}}`, o.APIKey)
	o.APIKey = "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".e30"
	return s.Protocol.Stream(ctx, m, req, o)
}

func (s subscription) Close() error { return s.Protocol.(io.Closer).Close() }

// signing is an environment in which requests without a key are signed.
func signing(name string) string {
	return map[string]string{"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "a secret of the test"}[name]
}

// format is a codec and its path on the server.
type format struct {
	path string
	new  func(url string) providers.Protocol
}

func start(t *testing.T, api string, o *fakemodel.Options) *client {
	t.Helper()
	f := formats()[api]
	c := &client{model: fakemodel.New(o)}
	c.server = httptest.NewServer(c.model)
	c.protocol = f.new(c.server.URL)
	c.of = providers.Model{
		Provider: "fake", ID: "m1", API: api, BaseURL: c.server.URL + f.path, Reasoning: true,
		Input: []string{providers.InputText, providers.InputImage},
	}
	if api == bedrockconverse.API { // the codec needs the model's capabilities
		c.of.Compat.ForceAdaptiveThinking = providers.FlagOn
	}
	t.Cleanup(func() {
		c.server.CloseClientConnections()
		c.server.Close()
		if err := c.protocol.(io.Closer).Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// all runs a test through all formats.
func all(t *testing.T, o *fakemodel.Options, test func(t *testing.T, c *client)) {
	t.Helper()
	for api := range formats() {
		t.Run(api, func(t *testing.T) { test(t, start(t, api, o)) })
	}
}

type result struct {
	Text, Reasoning string
	Calls           []string
	Stop            providers.StopReason
	Output          int64
	Kind            providers.ErrorKind
}

func (c *client) ask(t *testing.T, o providers.Options, messages ...providers.Message) (result, *providers.Error) {
	t.Helper()
	return c.send(t.Context(), t, providers.Request{Messages: messages}, o)
}

func (c *client) send(ctx context.Context, t *testing.T, req providers.Request, o providers.Options) (result, *providers.Error) {
	t.Helper()
	events, failure, broken := providertest.Collect(c.protocol.Stream(ctx, c.of, req, o))
	if broken != nil {
		t.Fatal(broken)
	}
	var s result
	for _, e := range events {
		switch e := e.(type) {
		case providers.TextDelta:
			s.Text += e.Text
		case providers.ReasoningDelta:
			s.Reasoning += e.Text
		case providers.ToolCallEnd:
			s.Calls = append(s.Calls, fmt.Sprintf("%s %s %s", e.ID, e.Name, e.Arguments))
		case providers.Done:
			s.Stop, s.Output = e.StopReason, e.Usage.Output
			named := e.ResponseID != "" && e.ResponseModel == c.of.ID || c.of.API == bedrockconverse.API // the format has no response names
			if e.Usage.Input == 0 || !named {
				t.Errorf("Done lacks usage or names: %+v", e)
			}
		}
	}
	if failure != nil {
		s.Kind = failure.Kind
	}
	return s, failure
}

func user(text string) providers.Message {
	return providers.Message{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: text}}}
}

// covers: providers/153
func TestProtocolSuite(t *testing.T) {
	for api := range formats() {
		t.Run(api, func(t *testing.T) {
			t.Parallel() // waits for connections to close
			providertest.Run(t, func(t *testing.T) providertest.Subject {
				c := start(t, api, &fakemodel.Options{Key: "key"})
				request := func(text string) providers.Request {
					return providers.Request{Messages: []providers.Message{user(text)}}
				}
				return providertest.Subject{
					Protocol: c.protocol, Model: c.of,
					Text:      request("tokens=5"),
					Reasoning: request("reasoning=3 tokens=5"),
					Call:      request(`tool=time {"zone":"UTC"}`),
					Long:      request("hang=2"),
				}
			})
		})
	}
}

func TestScripts(t *testing.T) {
	tests := map[string]struct {
		prompt string
		want   result
	}{
		"plain text": {"Hello there,  friend", result{Text: "You said: Hello there,  friend", Stop: providers.StopStop, Output: 6}},
		"equation":   {"x=1 is plain", result{Text: "You said: x=1 is plain", Stop: providers.StopStop, Output: 5}},
		"tokens":     {"tokens=3", result{Text: "w1 w2 w3", Stop: providers.StopStop, Output: 3}},
		"say":        {`say="Grüße,  Welt" tokens=1`, result{Text: "Grüße,  Welt w1", Stop: providers.StopStop, Output: 4}},
		"reasoning":  {"reasoning=2 tokens=1", result{Reasoning: "t1 t2", Text: "w1", Stop: providers.StopStop, Output: 3}},
		"two tools": {`say="One moment." tool=a {"città":"Nîmes"} tool=b`, result{
			Text: "One moment.", Calls: []string{`c00001000 a {"città":"Nîmes"}`, "c00001001 b {}"}, Stop: providers.StopToolUse, Output: 4,
		}},
		"no output":    {"note=x", result{Text: "Done.", Stop: providers.StopStop, Output: 1}},
		"finish":       {"tokens=1 finish=length", result{Text: "w1", Stop: providers.StopLength, Output: 1}},
		"paced":        {"tokens=2 pace=1ms", result{Text: "w1 w2", Stop: providers.StopStop, Output: 2}},
		"refused":      {"status=400", result{Kind: providers.KindInvalidRequest}},
		"overflow":     {`status=400 message="prompt is too long"`, result{Kind: providers.KindContextOverflow}},
		"no key":       {"status=401", result{Kind: providers.KindAuth}},
		"rate limit":   {"status=429", result{Kind: providers.KindRateLimit}},
		"overloaded":   {"status=529", result{Kind: providers.KindOverloaded}},
		"fails early":  {"fail=0", result{Kind: providers.KindOverloaded}},
		"fails":        {"fail=2", result{Text: "w1 w2", Kind: providers.KindOverloaded}},
		"truncated":    {"truncate=10", result{Text: "w1 w2 w3 w4 w5 w6 w7 w8 w9 w10", Kind: providers.KindTruncated}},
		"unknown verb": {"tokens=1 sing=2", result{Kind: providers.KindInvalidRequest}},
		"wrong number": {"tokens=many", result{Kind: providers.KindInvalidRequest}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			all(t, nil, func(t *testing.T, c *client) {
				got, _ := c.ask(t, providers.Options{}, user(test.prompt))
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("answer to %q (-want +got):\n%s", test.prompt, diff)
				}
			})
		})
	}
}

func TestErrorMessages(t *testing.T) {
	all(t, nil, func(t *testing.T, c *client) {
		_, failure := c.ask(t, providers.Options{}, user("status=429 retry-after=7"))
		if failure == nil || failure.RetryAfter != 7*time.Second || !strings.Contains(string(failure.Body), fakemodel.ErrorText) {
			t.Errorf("got error %v with retry after %v, want the script's message after 7s", failure, failure.RetryAfter)
		}
		_, failure = c.ask(t, providers.Options{}, user(`fail=1 message="my own words"`))
		if failure == nil || !strings.Contains(string(failure.Body), "my own words") {
			t.Errorf("got error %v, want the script's message", failure)
		}
	})
}

func TestTimesCountsByText(t *testing.T) {
	all(t, nil, func(t *testing.T, c *client) {
		for _, note := range []string{"a", "b"} {
			prompt := user("truncate=1 times=2 tokens=2 note=" + note)
			for i, want := range []providers.ErrorKind{providers.KindTruncated, providers.KindTruncated, "", ""} {
				if got, _ := c.ask(t, providers.Options{}, prompt); got.Kind != want || want == "" && got.Text != "w1 w2" {
					t.Errorf("call %d of %s: got %+v, want kind %q", i, note, got, want)
				}
			}
		}
	})
}

func TestOnlySelectsModel(t *testing.T) {
	all(t, nil, func(t *testing.T, c *client) {
		prompt := user("status=401 times=1 only=m2 tokens=1")
		if got, _ := c.ask(t, providers.Options{}, prompt); got.Text != "w1" {
			t.Errorf("m1: got %+v, want a word", got)
		}
		// Calls of another model do not count.
		c.of.ID = "m2"
		for i, want := range []providers.ErrorKind{providers.KindAuth, ""} {
			if got, _ := c.ask(t, providers.Options{}, prompt); got.Kind != want {
				t.Errorf("call %d of m2: got %+v, want kind %q", i, got, want)
			}
		}
		if got, _ := c.ask(t, providers.Options{}, user("only= tokens=1")); got.Kind != providers.KindInvalidRequest {
			t.Errorf("without a name: got %+v, want a rejection", got)
		}
	})
}

// TestStepsAnswerTools runs a script of three steps, and sends everything back as a runtime does.
func TestStepsAnswerTools(t *testing.T) {
	all(t, nil, func(t *testing.T, c *client) {
		history := []providers.Message{user(`reasoning=1 tool=a {"n":1} tool=b then say="Once more." tool=a`)}
		for step, want := range []result{
			{Reasoning: "t1", Calls: []string{`c00001000 a {"n":1}`, "c00001001 b {}"}, Stop: providers.StopToolUse, Output: 3},
			{Text: "Once more.", Calls: []string{"c00004000 a {}"}, Stop: providers.StopToolUse, Output: 3},
			{Text: "The tool said: result 0", Stop: providers.StopStop, Output: 5},
		} {
			var reply providers.Message
			got, _ := c.ask(t, providers.Options{}, history...)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("step %d (-want +got):\n%s", step, diff)
			}
			reply, results := c.replay(t, history)
			history = append(history, reply, results)
		}
	})
}

// replay makes a call, and returns the response and the results of its tool calls.
func (c *client) replay(t *testing.T, history []providers.Message) (reply, results providers.Message) {
	t.Helper()
	reply = providers.Message{Role: providers.RoleAssistant, Model: c.of.Spec()}
	results = providers.Message{Role: providers.RoleTool}
	var text, thought string
	for e, err := range c.protocol.Stream(t.Context(), c.of, providers.Request{Messages: history}, providers.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		switch e := e.(type) {
		case providers.TextDelta:
			text += e.Text
		case providers.ReasoningDelta:
			thought += e.Text
		case providers.ReasoningEnd:
			reply.Parts = append(reply.Parts, providers.Reasoning{Text: thought, Signature: e.Signature})
		case providers.ToolCallEnd:
			reply.Parts = append(reply.Parts, providers.ToolCall{ID: e.ID, Name: e.Name, Arguments: e.Arguments})
			results.Parts = append(results.Parts, providers.ToolResult{
				CallID: e.ID, Name: e.Name, Content: []providers.Part{providers.Text{Text: fmt.Sprintf("result %d", e.Index)}},
			})
		}
	}
	if text != "" {
		reply.Parts = append(reply.Parts, providers.Text{Text: text})
	}
	return reply, results
}

// TestGoogleChecksSignatures runs steps with reasoning, two calls and an image in a result, with a
// signing model. Then other models continue.
func TestGoogleChecksSignatures(t *testing.T) {
	for _, api := range []string{googlegenerativeai.API, googlegenerativeai.APIVertex} {
		t.Run(api, func(t *testing.T) {
			c := start(t, api, nil)
			c.of.ID = "gemini-3-pro"
			picture := providers.Image{MimeType: "image/png", Content: providers.Bytes("bytes")}
			history := []providers.Message{user(`reasoning=2 say="Once." tool=a {"n":"<1>"} tool=b then tool=a then say="Well."`)}
			for step, calls := range []int{2, 1, 0} {
				events, failure, broken := providertest.Collect(c.protocol.Stream(t.Context(), c.of, providers.Request{Messages: history}, providers.Options{}))
				if failure != nil || broken != nil {
					t.Fatalf("step %d: %v, %s, %v", step, failure, failureBody(failure), broken)
				}
				reply, results := providertest.MessageOf(c.of.Spec(), events), providers.Message{Role: providers.RoleTool}
				for _, p := range reply.Parts {
					if call, ok := p.(providers.ToolCall); ok {
						results.Parts = append(results.Parts, providers.ToolResult{CallID: call.ID, Name: call.Name, Content: []providers.Part{picture}})
					}
				}
				if len(results.Parts) != calls {
					t.Fatalf("step %d: got %+v", step, reply)
				}
				history = append(history, reply, results)
			}
			for _, id := range []string{"gemini-3-flash", "gemini-2.5-pro"} { // other models, one without call ids
				c.of.ID = id
				if got, failure := c.ask(t, providers.Options{}, append(history, user("tokens=1"))...); got.Text != "w1" {
					t.Errorf("%s: got %+v, %s", id, got, failureBody(failure))
				}
			}
		})
	}
}

func failureBody(e *providers.Error) string {
	if e == nil {
		return ""
	}
	return string(e.Body)
}

func TestImagesAreDescribed(t *testing.T) {
	all(t, nil, func(t *testing.T, c *client) {
		message := user("Look")
		message.Parts = append(message.Parts, providers.Image{MimeType: "image/png", Content: providers.Bytes("bytes")})
		got, _ := c.ask(t, providers.Options{}, message)
		want := "You said: Look [image/png 5 277089d91c0bdf4f2e6862ba7e4a07605119431f5d13f726dd352b06f1b206a9]"
		if got.Text != want {
			t.Errorf("got %q, want %q", got.Text, want)
		}
	})
}

// covers: providers/186
func TestOutputLimit(t *testing.T) {
	all(t, nil, func(t *testing.T, c *client) {
		const limit = 16 // the minimum of some formats
		got, _ := c.ask(t, providers.Options{MaxTokens: limit}, user("tokens=20"))
		want := result{Stop: providers.StopLength, Output: limit}
		if c.of.API == openairesponses.APICodex { // the format has no limit
			want = result{Stop: providers.StopStop, Output: 20}
		}
		if got.Text = ""; !cmp.Equal(want, got) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

func TestContentFilter(t *testing.T) {
	all(t, nil, func(t *testing.T, c *client) {
		got, _ := c.ask(t, providers.Options{}, user("tokens=1 finish=filter"))
		want := result{Text: "w1", Stop: providers.StopContentFilter, Output: 1}
		if c.of.API == mistralconversations.API { // the format has no such reason
			want = result{Text: "w1", Kind: providers.KindOverloaded}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestKeyIsChecked(t *testing.T) {
	all(t, &fakemodel.Options{Key: "right"}, func(t *testing.T, c *client) {
		if got, _ := c.ask(t, providers.Options{APIKey: "wrong"}, user("tokens=1")); got.Kind != providers.KindAuth {
			t.Errorf("wrong key: got %+v, want kind %s", got, providers.KindAuth)
		}
		if got, _ := c.ask(t, providers.Options{APIKey: "right"}, user("tokens=1")); got.Text != "w1" {
			t.Errorf("right key: got %+v, want an answer", got)
		}
	})
}

func TestHoldWaitsForItsGate(t *testing.T) {
	all(t, nil, func(t *testing.T, c *client) {
		next := c.protocol.Stream(t.Context(), c.of, providers.Request{
			Messages: []providers.Message{user("tokens=1 hold=gate tokens=1")},
		}, providers.Options{})
		var text string
		for e, err := range next {
			if err != nil {
				t.Fatal(err)
			}
			if d, ok := e.(providers.TextDelta); ok {
				text += d.Text
				// Only the release lets the second word through.
				resp, err := c.server.Client().Post(c.server.URL+"/release/gate", "", nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := resp.Body.Close(); err != nil || resp.StatusCode != 204 {
					t.Fatalf("release: got %d, %v", resp.StatusCode, err)
				}
			}
		}
		if text != "w1 w2" {
			t.Errorf("got %q, want both words", text)
		}
	})
}

func TestGateAnswersOnceReleased(t *testing.T) {
	c := start(t, openaicompletions.API, nil)
	answered := make(chan int, 1)
	go func() {
		resp, err := c.server.Client().Get(c.server.URL + "/gate/a")
		if err != nil {
			answered <- 0
			return
		}
		answered <- resp.StatusCode
		resp.Body.Close()
	}()
	// Another gate has no effect.
	c.model.Release("b")
	select {
	case got := <-answered:
		t.Fatalf("got status %d before the release", got)
	default:
	}
	c.model.Release("a")
	if got := <-answered; got != http.StatusNoContent {
		t.Errorf("got status %d, want 204", got)
	}
}

func TestHangEndsWithItsCaller(t *testing.T) {
	all(t, nil, func(t *testing.T, c *client) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for e, err := range c.protocol.Stream(ctx, c.of, providers.Request{Messages: []providers.Message{user("hang=1")}}, providers.Options{}) {
			if d, ok := e.(providers.TextDelta); err == nil && (!ok || d.Text != "w1") {
				t.Fatalf("got %#v, want one word", e)
			}
			cancel()
		}
		// Close waits for the handler.
		c.server.Close()
	})
}

func TestRequestsAreRemembered(t *testing.T) {
	all(t, &fakemodel.Options{MaxRequests: 2}, func(t *testing.T, c *client) {
		for i := range 3 {
			c.send(t.Context(), t, providers.Request{
				System: "Be brief.", Messages: []providers.Message{user(fmt.Sprint("number ", i))},
				Tools: []providers.Tool{{Name: "time"}},
			}, providers.Options{ThinkingLevel: providers.ThinkingLow})
		}
		resp, err := c.server.Client().Get(c.server.URL + "/requests")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var got []fakemodel.Request
		if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.model.Requests(), got); diff != "" {
			t.Errorf("over the wire (-want +got):\n%s", diff)
		}
		if len(got) != 2 || got[0].Prompt != "number 1" || got[1].Prompt != "number 2" {
			t.Fatalf("got requests %+v, want the latest two", got)
		}
		if r := got[1]; r.Model != "m1" || r.System != "Be brief." || r.Effort == "" || r.Messages != 1 || !cmp.Equal(r.Tools, []string{"time"}) {
			t.Errorf("got request %+v", r)
		}
	})
}
