package providers

import (
	"context"
	"net"
	"net/http"
)

// DialBy replaces the dial function of the protocol's own client.
func DialBy(h *HTTP, dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	h.client.Transport.(*http.Transport).DialContext = dial
}
