package providers

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"mime"
	"net/http"
	"strings"
)

// HTTPOptions changes an HTTP protocol. Nil and every zero field work.
type HTTPOptions struct {
	// Client makes the requests. It must neither retry nor follow redirects
	// to other hosts with headers that hold keys. Nil means a client of its
	// own, whose only time limit is the context and which follows none.
	Client *http.Client
}

// HTTP is the Protocol of a Codec over net/http. It is safe for concurrent use.
type HTTP struct {
	codec  Codec
	client *http.Client
	owned  bool
}

// NewHTTP returns the Protocol of codec.
func NewHTTP(codec Codec, o *HTTPOptions) *HTTP {
	if o != nil && o.Client != nil {
		return &HTTP{codec: codec, client: o.Client}
	}
	client := &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			ForceAttemptHTTP2:   true,
			MaxIdleConnsPerHost: 64,
			// A compressed stream is held back until a block is full.
			DisableCompression: true,
		},
		// A redirect could carry the key to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &HTTP{codec: codec, client: client, owned: true}
}

// Close closes idle connections, unless the client was given. Calls under way
// are not disturbed.
func (h *HTTP) Close() error {
	if h.owned {
		h.client.CloseIdleConnections()
	}
	return nil
}

// Stream implements Protocol.
func (h *HTTP) Stream(ctx context.Context, m Model, req Request, o Options) iter.Seq2[Event, error] {
	return NewStream(ctx, m, func(a *Assembler) error {
		treq, topts := Transform(m, req, o)
		hreq, err := h.request(ctx, m, treq, topts)
		if err != nil {
			return &Error{Kind: KindInvalidRequest, Err: err}
		}
		resp, err := h.client.Do(hreq)
		if err != nil {
			return &Error{Kind: KindNetwork, Err: err}
		}
		defer resp.Body.Close()
		if resp.StatusCode/100 != 2 || isJSON(resp.Header) {
			return responseError(resp)
		}
		return h.codec.Decode(resp.Body, a)
	})
}

func (h *HTTP) request(ctx context.Context, m Model, req Request, o Options) (*http.Request, error) {
	call, err := h.codec.Encode(m, req, o)
	if err != nil {
		return nil, err
	}
	url := strings.TrimRight(m.BaseURL, "/") + call.Path
	hreq, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(call.Body))
	if err != nil {
		return nil, fmt.Errorf("build request: %w", err)
	}
	if hreq.URL.Host == "" {
		return nil, fmt.Errorf("build request: base url %q has no host", m.BaseURL)
	}
	hreq.Header.Set("Content-Type", "application/json")
	hreq.Header.Set("Accept", "text/event-stream")
	for k, v := range call.Header {
		hreq.Header[k] = v
	}
	for k, v := range m.Headers {
		hreq.Header.Set(k, v)
	}
	for k, values := range hreq.Header {
		// The transport would refuse it, too, but as a failure of the network.
		if strings.ContainsAny(strings.Join(values, ""), "\r\n\x00") {
			return nil, fmt.Errorf("build request: header %q holds a control character", k)
		}
	}
	return hreq, nil
}

// isJSON finds the answer of a gateway that reports an error as a success, or
// does not know about streams.
func isJSON(h http.Header) bool {
	mediaType, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && mediaType == "application/json"
}
