package channels

import (
	"context"
	"net/http"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/contain"
)

// Call is what a channel makes of a verified delivery: the application's callback, with what
// it is given. Of its result nil is an empty 200, an [*http.Response] is the answer as it is,
// a [Later] is called for another, and anything else is answered as JSON; a value that has no
// JSON is an error.
type Call func(ctx context.Context) (any, error)

// Later is a result that comes later: it is waited for.
type Later func(ctx context.Context) (any, error)

// Endpoint is what [Endpoint.Route] makes a route of. The order of its checks: media type
// (415); the declared length, its form (400) and size (413); Early; the body, its size (413)
// and whether it came whole (400); Accept; the callback.
type Endpoint struct {
	Method, Path string
	// MediaTypes are those of a body, in lower case; none for an endpoint without a body.
	MediaTypes []string
	// BodyLimit is the largest body in bytes. 0 is [DefaultBodyLimit].
	BodyLimit int64
	// Early checks headers before the body is read. Nil checks nothing.
	Early func(http.Header) error
	// SizeLast has Early checked before the declared size.
	SizeLast bool
	// MalformedLength is the status of a length that is no number. 0 is 400.
	MalformedLength int
	// Lasting returns the part of a body that is the same whenever the platform sends it, for deliveries without an id.
	// Nil is all of it.
	Lasting func(body []byte) []byte
	// Accept verifies the exact bytes of a body, then parses them. Its error is a [*Refusal].
	Accept func(r *http.Request, body []byte) (Call, error)
	// Deadline is how long the platform waits for an answer; 0 is not known. [Deliver] is over
	// half a second before.
	Deadline time.Duration
	// Silent answers an error or a panic of the callback, and a result that has no JSON, by a
	// status alone.
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

// Only is what a channel of one route embeds.
type Only struct{ route Route }

// Only returns the endpoint as a channel's only one.
func (e Endpoint) Only() Only { return Only{e.Route()} }

// Route is the channel's one route.
func (o Only) Route() Route { return o.route }

// Routes implements [Channel].
func (o Only) Routes() []Route { return []Route{o.route} }

func (e *Endpoint) serve(w http.ResponseWriter, r *http.Request) error {
	a := e.arrived(r)
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

// arrived notes what [Deliver] has to know of the request.
func (e *Endpoint) arrived(r *http.Request) *arrival {
	a := &arrival{trace: conversation.TraceOf(r.Header.Values("Traceparent"), r.Header.Values("Tracestate"))}
	if e.Deadline > 0 {
		a.until = time.Now().Add(e.Deadline - answerBefore)
	}
	return a
}

// accept runs the checks.
func (e *Endpoint) accept(w http.ResponseWriter, r *http.Request, a *arrival) (Call, error) {
	var body []byte
	err := e.checkHeaders(r)
	if err == nil {
		body, err = readBody(w, r, e.BodyLimit)
	} else {
		leaveBody(w, r)
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

// resultOf calls a callback, and what it puts off, and encodes the result.
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
