package channels

import (
	"context"
	"net/http"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/contain"
)

// Call runs the application's callback for a verified delivery. Its result becomes the response: nil
// an empty 200, an [*http.Response] is sent unchanged, and a [Later] is called for the result. Any
// other value is sent as JSON; a value that does not encode is an error.
type Call func(ctx context.Context) (any, error)

// Later is a deferred result of a [Call]. The endpoint calls it after the Call has returned and treats
// its result like that of a Call.
type Later func(ctx context.Context) (any, error)

// Endpoint describes a webhook route of a platform. Its checks run in this order, with the status of a
// failure:
//
//  1. media type and content encoding (415)
//  2. form (400) and size (413) of the declared length
//  3. Early
//  4. size (413) and completeness (400) of the body
//  5. Accept
//
// Then the callback runs.
type Endpoint struct {
	Method, Path string
	// MediaTypes are the accepted media types in lower case. If empty, the media type is not checked.
	MediaTypes []string
	// BodyLimit is the largest body in bytes. If 0, it is [DefaultBodyLimit].
	BodyLimit int64
	// Early checks the headers before the body is read. Nil checks nothing. Its error should be a
	// [*Refusal].
	Early func(http.Header) error
	// SizeLast runs Early before the check of the declared size, so that a bad header wins over 413.
	SizeLast bool
	// MalformedLength is the status for a malformed Content-Length. If 0, it is 400.
	MalformedLength int
	// Lasting returns the part of a body that is equal in every retry of the platform. [Deliver]
	// derives the id of a delivery without one from it. Nil means the whole body.
	Lasting func(body []byte) []byte
	// Accept authenticates the exact bytes of a body, then parses them. It returns the call to run, or
	// a [*Refusal].
	Accept func(r *http.Request, body []byte) (Call, error)
	// Deadline is the time within which the platform expects a response; 0 if unknown. [Deliver] times
	// out half a second earlier.
	Deadline time.Duration
	// Silent answers errors of the callback with a status only, without their text. An error is a
	// failure, a panic, or a result that does not encode as JSON.
	Silent bool
}

// Route returns the route of the endpoint with the defaults applied.
func (e Endpoint) Route() Route {
	if e.BodyLimit == 0 {
		e.BodyLimit = DefaultBodyLimit
	}
	if e.MalformedLength == 0 {
		e.MalformedLength = http.StatusBadRequest
	}
	return Route{Method: e.Method, Path: e.Path, Handler: e.serve}
}

// Only is a [Channel] with one route. Channels embed it.
type Only struct{ route Route }

// Only returns a channel with the endpoint's route.
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

// resultOf runs a callback, and every [Later] that it returns, and encodes the result.
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
