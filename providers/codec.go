package providers

import (
	"io"
	"net/http"
)

// Codec is the pure half of an HTTP wire format: no I/O of its own, no clock, no state. NewHTTP turns
// it into a Protocol; a transport other than HTTP can use the same Codec. Implementations are safe for
// concurrent use.
type Codec interface {
	// Encode encodes a request that Transform has normalized. It calls EncodeBlock for each block of
	// History, which caches the encoding, or TransformBlock, which does not. The body must be the same
	// as if all messages were in one list. It opens no Content. An error that is not an *Error is
	// reported as KindInvalidRequest.
	Encode(m Model, req Request, o Options) (*Call, error)
	// Decode reads a successful response and feeds a, up to Finish at the vendor's terminal marker. It
	// returns nil early once a.Stopped. It returns errors of body unchanged, and an *Error for errors
	// of the vendor, see EventError. For a body that ends too early it returns nil without Finish; the
	// Assembler then reports KindTruncated.
	Decode(body io.Reader, a *Assembler) error
}

// Call is a request in the vendor's format, relative to Model.BaseURL.
type Call struct {
	// Path is appended to the base URL; it begins with a slash and may include a query.
	Path string
	// Header contains the headers of the wire format, including credentials. Model.Headers override
	// it.
	Header http.Header
	// Body is sent by POST. A BodyEncoder builds it.
	Body *Body
}
