package providers

import (
	"context"
	"net"
	"net/http"
)

// DialBy has a protocol dial otherwise, with the client that it has of its own.
func DialBy(h *HTTP, dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	h.client.Transport.(*http.Transport).DialContext = dial
}
