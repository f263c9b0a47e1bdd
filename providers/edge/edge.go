package edge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/anthropicmessages"
	"github.com/parleyrun/parley/providers/openaicompletions"
)

// API is the slug of the protocol.
const API = providers.APIEdgeAIBinding

// Causes of failed calls.
var (
	// ErrNoBinding: the registration has no binding.
	ErrNoBinding = errors.New("registration has no binding")
	errNoBody    = errors.New("binding returned a response without a body")
)

// Options configures the protocol. Nil and every zero field are valid.
type Options struct {
	// MaxEventBytes limits one event of the stream, in bytes; 0 means sse.DefaultMaxEventBytes.
	MaxEventBytes int
}

// New returns the protocol.
func New(o *Options) *providers.HTTP {
	if o == nil {
		o = &Options{}
	}
	return providers.NewHTTP(codec{
		messages: anthropicmessages.NewCodec(&anthropicmessages.Options{MaxEventBytes: o.MaxEventBytes, Binding: true}),
		chat:     openaicompletions.NewCodec(&openaicompletions.Options{MaxEventBytes: o.MaxEventBytes, Binding: true}),
	}, &providers.HTTPOptions{Do: run})
}

// codec selects the format by the model id.
type codec struct{ messages, chat providers.Codec }

func (c codec) of(m providers.Model) providers.Codec {
	if strings.HasPrefix(m.ID, "anthropic/") {
		return c.messages
	}
	return c.chat
}

// Encode implements providers.Codec. It drops the headers of the formats, which are for HTTP
// endpoints.
func (c codec) Encode(m providers.Model, req providers.Request, o providers.Options) (*providers.Call, error) {
	call, err := c.of(m).Encode(m, req, o)
	if err != nil {
		return nil, err
	}
	call.Header = nil
	if key := providers.SessionKey(o); key != "" {
		call.Header = http.Header{"X-Session-Affinity": {key}}
	}
	return call, nil
}

// Decode implements providers.Codec.
func (c codec) Decode(body io.Reader, a *providers.Assembler) error {
	return c.of(a.Model()).Decode(body, a)
}

// run passes a call to the binding of its model.
func run(ctx context.Context, m providers.Model, call *providers.Call) (*http.Response, error) {
	if m.Edge == nil || m.Edge.Binding == nil {
		return nil, &providers.Error{Kind: providers.KindInvalidRequest, Err: ErrNoBinding}
	}
	resp, err := m.Edge.Binding.Run(ctx, m.ID, call.Body, providers.EdgeRunOptions{
		ReturnRawResponse: true, ExtraHeaders: call.Header, Gateway: m.Edge.Gateway,
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("run model by the binding: %w", err)
	case resp == nil:
		return nil, &providers.Error{Kind: providers.KindProtocol, Err: errNoBody}
	case resp.StatusCode/100 != 2:
		return nil, refusal(resp)
	case resp.Body == nil:
		return nil, &providers.Error{Kind: providers.KindProtocol, Status: resp.StatusCode, Err: errNoBody}
	}
	return resp, nil
}

// refusal returns the error of an unsuccessful response.
func refusal(resp *http.Response) error {
	var body []byte
	if resp.Body != nil {
		defer resp.Body.Close()
		// The readable part of the body is more useful than the read error.
		body, _ = io.ReadAll(io.LimitReader(resp.Body, providers.MaxErrorBody))
	}
	e := providers.ResponseError(resp.StatusCode, resp.Header, body)
	_, text, _ := strings.Cut(resp.Status, " ")
	e.Err = &providers.EdgeError{Status: resp.StatusCode, StatusText: text, Err: e.Err}
	return e
}
