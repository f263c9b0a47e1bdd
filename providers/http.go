package providers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"sync"
	"time"
)

// HTTPOptions configures an HTTP protocol. Nil and every zero field are valid.
type HTTPOptions struct {
	// Client makes the requests. It must not retry, and must not follow redirects to other hosts with
	// headers that contain keys. Nil means a client without redirects whose only timeout is the
	// context.
	Client *http.Client
	// Authorize completes each request before it is sent. It may sign it or set a token header,
	// instead of or in addition to the headers of the codec. GetBody of the request reads the body
	// from its beginning. ctx is that of the call. An error that is not an *Error is reported as
	// KindAuth.
	Authorize func(ctx context.Context, r *http.Request, m Model, o Options) error
	// Do sends calls instead of Client, for vendors that are not reached by URL. The model then needs
	// no BaseURL, and Authorize is not called. An error that is not an *Error is reported as
	// KindNetwork.
	Do func(ctx context.Context, m Model, c *Call) (*http.Response, error)
	// Refused is called when the vendor rejects an authorized request with KindAuth. It reports
	// whether the next request would use other credentials; the error is then Retryable.
	Refused func(r *http.Request, e *Error) bool
	// FindCredentials returns the source of the credentials that Authorize would use, see
	// CredentialFinder.
	FindCredentials func(m Model) string
	// Locate returns the base URL to which Authorize sends a call, see Locator; nil means that of the
	// model.
	Locate func(m Model, o Options) (string, error)
}

// HTTP is the Protocol of a Codec over net/http. It reuses a connection once the vendor has ended the
// response. After the last event a stream waits at most 50 ms for that end. HTTP is safe for
// concurrent use.
type HTTP struct {
	codec     Codec
	client    *http.Client
	owned     bool
	authorize func(context.Context, *http.Request, Model, Options) error
	refused   func(*http.Request, *Error) bool
	do        func(context.Context, Model, *Call) (*http.Response, error)
	find      func(Model) string
	locate    func(Model, Options) (string, error)
	known     knownLimits
}

var (
	_ historyProtocol  = (*HTTP)(nil)
	_ CredentialFinder = (*HTTP)(nil)
	_ Locator          = (*HTTP)(nil)
)

func NewHTTP(codec Codec, o *HTTPOptions) *HTTP {
	if o == nil {
		o = &HTTPOptions{}
	}
	h := &HTTP{codec: codec, client: o.Client, authorize: o.Authorize, refused: o.Refused, do: o.Do, find: o.FindCredentials, locate: o.Locate}
	if h.client != nil || h.do != nil {
		return h
	}
	h.owned = true
	h.client = &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			ForceAttemptHTTP2:   true,
			MaxIdleConnsPerHost: 256,
			IdleConnTimeout:     90 * time.Second,
			// A request that does not fit allocates a buffer of 32 KiB.
			WriteBufferSize: 16 << 10,
			// Compression would delay a stream until a block is full.
			DisableCompression: true,
		},
		// A redirect could send the key to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return h
}

// Close closes idle connections, unless the client was provided by the caller. Active calls continue.
func (h *HTTP) Close() error {
	if h.owned {
		h.client.CloseIdleConnections()
	}
	return nil
}

// FindCredentials implements CredentialFinder. Without HTTPOptions.FindCredentials it returns "".
func (h *HTTP) FindCredentials(m Model) string {
	if h.find == nil {
		return ""
	}
	return h.find(m)
}

// Locate implements Locator.
func (h *HTTP) Locate(m Model, o Options) (string, error) {
	if h.locate == nil {
		return m.BaseURL, nil
	}
	return h.locate(m, o)
}

// takesHistory implements historyProtocol: codecs encode history block by block.
func (h *HTTP) takesHistory() {}

// Stream implements Protocol.
func (h *HTTP) Stream(ctx context.Context, m Model, req Request, o Options) iter.Seq2[Event, error] {
	return NewStream(ctx, m, func(a *Assembler) error {
		a.Bound(o.Limits)
		m := m
		m.Room = h.known.over(m, roomFor(m, req))
		a.Watch(req.Tools, o.Odd)
		err := h.call(ctx, m, req, o, a)
		if refusesReplay(err) && !m.NoReplay {
			m.NoReplay = true
			err = h.call(ctx, m, req, o, a)
		}
		if limit, once := limitInError(err, limitOf(m, o)); limit > 0 {
			m.Room = limit
			if err = h.call(ctx, m, req, o, a); err == nil && !once {
				h.known.learn(m, limit)
			}
		}
		return err
	})
}

// refusesReplay reports whether a vendor rejects replayed reasoning. Vendors report this before the
// response begins.
func refusesReplay(err error) bool {
	var e *Error
	var vendor *VendorError
	if !errors.As(err, &e) || e.Status != http.StatusBadRequest || !errors.As(err, &vendor) {
		return false
	}
	return containsAny(strings.ToLower(vendor.Code+"\n"+vendor.Message), replayWords)
}

// call makes one request and feeds a from its response.
func (h *HTTP) call(ctx context.Context, m Model, req Request, o Options, a *Assembler) error {
	treq, topts := Transform(m, req, o)
	call, err := h.codec.Encode(m, treq, topts)
	if err != nil {
		return errorOf(KindInvalidRequest, err)
	}
	up := &upload{ctx: ctx, body: call.Body}
	defer up.end()
	if h.do != nil {
		err = h.doVia(ctx, m, call, up, a)
	} else {
		err = h.post(ctx, m, call, topts, up, a)
	}
	if failure := up.end(); failure != nil && !a.finished {
		return failure // the error of the image outranks the vendor's reply to an incomplete request
	}
	return err
}

// post sends a call to the model's URL.
func (h *HTTP) post(ctx context.Context, m Model, call *Call, o Options, up *upload, a *Assembler) error {
	hreq, err := newRequest(ctx, m, call)
	if err != nil {
		return &Error{Kind: KindInvalidRequest, Err: err}
	}
	up.attach(hreq)
	if err := h.finishRequest(ctx, hreq, m, o); err != nil {
		return err
	}
	// Set the body after Authorize, which may have read it: the last reader counts.
	hreq.Body = up.open()
	err = h.exchange(hreq, m, a)
	var e *Error
	if h.refused != nil && errors.As(err, &e) && e.Kind == KindAuth && h.refused(hreq, e) {
		e.RetryHint = new(true)
	}
	return HideInError(err, headerSecrets(hreq.Header))
}

// doVia sends a call through HTTPOptions.Do.
func (h *HTTP) doVia(ctx context.Context, m Model, call *Call, up *upload, a *Assembler) error {
	attempt := *call
	attempt.Body = up.watched()
	resp, err := h.do(ctx, m, &attempt)
	if err != nil {
		return errorOf(KindNetwork, err)
	}
	return h.read(resp, m, a)
}

// finishRequest authorizes a request that is otherwise complete.
func (h *HTTP) finishRequest(ctx context.Context, r *http.Request, m Model, o Options) error {
	if h.authorize != nil {
		if err := h.authorize(ctx, r, m, o); err != nil {
			return errorOf(KindAuth, fmt.Errorf("authorize request: %w", err))
		}
	}
	for k, values := range r.Header {
		// The transport would report this as a network error.
		if strings.ContainsAny(strings.Join(values, ""), "\r\n\x00") {
			return &Error{Kind: KindInvalidRequest, Err: fmt.Errorf("build request: header %q holds a control character", k)}
		}
	}
	return nil
}

// errorOf returns err as an error of the kind, unless it is an *Error already.
func errorOf(kind ErrorKind, err error) error {
	var e *Error
	if errors.As(err, &e) {
		return err
	}
	return &Error{Kind: kind, Err: err}
}

// exchange sends the request and feeds a from its response.
func (h *HTTP) exchange(hreq *http.Request, m Model, a *Assembler) error {
	resp, err := h.client.Do(hreq)
	if err != nil {
		return &Error{Kind: KindNetwork, Err: err}
	}
	return h.read(resp, m, a)
}

// read feeds a from a response and closes it. The first bytes decide the type of the body, because
// some servers label event streams as JSON and JSON as event streams.
func (h *HTTP) read(resp *http.Response, m Model, a *Assembler) error {
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return refusal(m, responseError(resp))
	}
	body := bufio.NewReaderSize(resp.Body, peekSize)
	if mediaType, page := isPage(resp.Header, body); page {
		head, _ := io.ReadAll(io.LimitReader(body, MaxErrorBody))
		e := ResponseError(resp.StatusCode, resp.Header, head)
		e.Kind, e.Err = KindProtocol, &StreamTypeError{mediaType}
		return e
	}
	var src io.Reader = body
	var document head
	if IsDocument(body) {
		src = io.TeeReader(body, &document)
	}
	err := h.codec.Decode(src, a)
	var e *Error
	if len(document) > 0 && errors.As(err, &e) && !a.shown {
		_, _ = io.Copy(&document, body)
		return refusal(m, ResponseError(resp.StatusCode, resp.Header, document))
	}
	if err == nil && a.finished {
		drain(resp)
	}
	return err
}

// head captures the beginning of the bytes written to it.
type head []byte

// Write implements io.Writer.
func (h *head) Write(p []byte) (int, error) {
	*h = append(*h, p[:min(len(p), MaxErrorBody-len(*h))]...)
	return len(p), nil
}

// refusal corrects the kind for a vendor that has no error code for a prompt that is too long.
func refusal(m Model, e *Error) *Error {
	if e.Status == http.StatusBadRequest && len(e.Body) == 0 && m.Provider == "cerebras" {
		e.Kind = KindContextOverflow
	}
	return e
}

// Limits of reading after the last event, for the end of the response that vendors send at once.
const (
	maxDrain     = 16 << 10 // bytes
	maxDrainTime = 50 * time.Millisecond
)

// drain reads an HTTP/1 response to its end, because its connection cannot be reused otherwise. HTTP/2
// has a stream for each response.
func drain(resp *http.Response) {
	if resp.ProtoMajor > 1 {
		return
	}
	late := time.AfterFunc(maxDrainTime, func() { _ = resp.Body.Close() })
	defer late.Stop()
	// The response was complete before, so errors do not matter.
	_, _ = io.CopyN(io.Discard, resp.Body, maxDrain)
}

func newRequest(ctx context.Context, m Model, call *Call) (*http.Request, error) {
	url := addressOf(m, call.Path)
	hreq, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
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
	return hreq, nil
}

// upload tracks the body of a request. The transport may reopen it for another connection, and may
// read after the response has ended.
type upload struct {
	ctx  context.Context
	body *Body

	mu     sync.Mutex
	opened []*bodyReader
}

// attach sets u as the body of r without opening it.
func (u *upload) attach(r *http.Request) {
	r.ContentLength = u.body.Size()
	r.GetBody = func() (io.ReadCloser, error) { return u.open(), nil }
}

func (u *upload) open() io.ReadCloser {
	r := u.body.open(u.ctx)
	u.add(r)
	return r
}

func (u *upload) add(r *bodyReader) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.opened = append(u.opened, r)
}

// watched returns the body for a caller that opens it itself.
func (u *upload) watched() *Body {
	b := *u.body
	b.watch = u.add
	return &b
}

// end closes all readers that the transport has open. It returns the error of an image that failed the
// request, or nil. It may be called again.
func (u *upload) end() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	var failure error
	for _, r := range u.opened {
		_ = r.Close() // the content is no longer needed
		failure = r.failure()
	}
	return failure
}
