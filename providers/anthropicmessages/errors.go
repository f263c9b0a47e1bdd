package anthropicmessages

import (
	"net/http"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/sse"
)

// vendorError reads the error object, or the whole event if there is none.
func vendorError(object, raw []byte) error {
	if !sse.Given(object) {
		object = raw
	}
	return providers.StreamError(0, object, raw)
}

func truncated(err error) error {
	return &providers.Error{Kind: providers.KindTruncated, Status: http.StatusOK, Err: err}
}
