package providers

import (
	"io"
	"net/http"
)

// Codec is the pure half of an HTTP wire format: no I/O of its own, no clock,
// no state. NewHTTP turns it into a Protocol; a transport other than HTTP can
// use the same Codec. Implementations are safe for concurrent use.
type Codec interface {
	// Encode renders a request that Transform has been through. It calls
	// EncodeBlock for each block of History, which keeps what it encodes for the next
	// call, or TransformBlock, which keeps nothing; the body must be what it would be if
	// all messages stood in one list. It opens no Content. An error that is not an
	// *Error is reported as KindInvalidRequest.
	Encode(m Model, req Request, o Options) (*Call, error)
	// Decode reads a successful response and feeds a, up to Finish at the
	// vendor's terminal marker. It returns early, with nil, once a.Stopped. It
	// returns errors of body as they are, and *Error for what the vendor says:
	// EventError makes one. A body that ends too early is for a to judge: nil says so.
	Decode(body io.Reader, a *Assembler) error
}

// Call is a request in the vendor's terms, relative to Model.BaseURL.
type Call struct {
	// Path is appended to the base URL; it begins with a slash and may hold a query.
	Path string
	// Header is what the wire format needs, credentials included. Model.Headers
	// win over it.
	Header http.Header
	// Body is sent by POST. A BodyEncoder makes it.
	Body *Body
}
