package channels

import (
	"context"
	"net/http"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/contain"
)

// Call runs the application's callback for a verified delivery. A nil result is an empty 200. An
// [*http.Response] is sent unchanged. A [Later] is called for the result. Any other result is sent as
// JSON; it is an error if it does not encode.
type Call func(ctx context.Context) (any, error)

// Later is a deferred result: the endpoint calls it and waits for its result.
type Later func(ctx context.Context) (any, error)

// Endpoint describes a route. Its checks run in this order: media type (415); the declared length, its
// form (400) and size (413); Early; the body, its size (413) and completeness (400); Accept; the
// callback.
type Endpoint struct {
	Method, Path string
	// MediaTypes are the accepted media types in lower case; none for an endpoint without a body.
	MediaTypes []string
	// BodyLimit is the largest body in bytes. If 0, it is [DefaultBodyLimit].
	BodyLimit int64
	// Early checks headers before the body is read. It may be nil.
	Early func(http.Header) error
	// SizeLast runs Early before the check of the declared size.
	SizeLast bool
	// MalformedLength is the status for a malformed Content-Length. If 0, it is 400.
	MalformedLength int
	// Lasting returns the part of a body that does not change when the platform sends again. It
	// identifies deliveries without an id. If nil, it is the whole body.
	Lasting func(body []byte) []byte
	// Accept verifies the exact bytes of a body, then parses them. Its error is a [*Refusal].
	Accept func(r *http.Request, body []byte) (Call, error)
	// Deadline is the platform's response timeout; 0 if unknown. [Deliver] times out half a second
	// earlier.
	Deadline time.Duration
	// Silent responds with a status only if the callback fails or panics, or if its result does not
	// encode as JSON.
	Silent bool
}

// Route returns the route of the endpoint.
func (e Endpoint) Route() Route {
	if e.BodyLimit == 0 {
		e.BodyLimit = DefaultBodyLimit
	}
	if e.MalformedLength == 0 {
		e.MalformedLength = http.StatusBadRequest
	}
	return Route{Method: e.Method, Path: e.Path, Handler: e.serve}
}

// Only implements [Channel] for embedding in channels of one route.
type Only struct{ route Route }

// Only returns a channel whose only route is the endpoint's.
func (e Endpoint) Only() Only { return Only{e.Route()} }

// Route returns the channel's only route.
func (o Only) Route() Route { return o.route }

// Routes implements [Channel].
func (o Only) Routes() []Route { return []Route{o.route} }

func (e *Endpoint) serve(w http.ResponseWriter, r *http.Request) error {
	a := e.newArrival(r)
	r = r.WithContext(context.WithValue(r.Context(), arrivalKey{}, a))
	call, err := e.accept(w, r, a)
	if err != nil {
		return err
	}
	result, err := contain.Do("callback", func() (any, error) { return resultOf(r.Context(), call) })
	err = contain.Logged(err)
	switch {
	case err == nil:
		answer(w, result)
		return nil
	case e.Silent:
		return &Refusal{Status: StatusOf(err), Reason: "callback failed", Err: err}
	}
	return err
}

// newArrival records the parts of a request that [Deliver] needs.
func (e *Endpoint) newArrival(r *http.Request) *arrival {
	a := &arrival{trace: conversation.TraceOf(r.Header.Values("Traceparent"), r.Header.Values("Tracestate"))}
	if e.Deadline > 0 {
		a.until = time.Now().Add(e.Deadline - deadlineMargin)
	}
	return a
}

func (e *Endpoint) accept(w http.ResponseWriter, r *http.Request, a *arrival) (Call, error) {
	var body []byte
	err := e.checkHeaders(r)
	if err == nil {
		body, err = readBody(w, r, e.BodyLimit)
	} else {
		dropBody(w, r)
	}
	if err != nil {
		return nil, err
	}
	call, err := e.Accept(r, body)
	if a.body = body; err == nil && e.Lasting != nil {
		a.body = e.Lasting(body)
	}
	return call, err
}

func (e *Endpoint) checkHeaders(r *http.Request) error {
	if len(e.MediaTypes) > 0 && !mediaType(r.Header, e.MediaTypes) {
		return Refuse(http.StatusUnsupportedMediaType, "media type")
	}
	if isCompressed(r.Header) {
		return Refuse(http.StatusUnsupportedMediaType, "content encoding")
	}
	length, err := declaredLength(r)
	if err != nil {
		return Refuse(e.MalformedLength, "malformed length")
	}
	tooLarge := error(nil)
	if length > e.BodyLimit {
		tooLarge = tooLong()
	}
	if tooLarge != nil && !e.SizeLast {
		return tooLarge
	}
	if e.Early != nil {
		if err := e.Early(r.Header); err != nil {
			return err
		}
	}
	return tooLarge
}

// resultOf calls a callback, and any [Later] it returns, and encodes the result.
func resultOf(ctx context.Context, call Call) (any, error) {
	result, err := call(ctx)
	for err == nil {
		later, ok := result.(Later)
		if !ok {
			return encoded(result)
		}
		result, err = later(ctx)
	}
	return nil, err
}
