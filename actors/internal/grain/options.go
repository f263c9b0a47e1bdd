package grain

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
)

const (
	defaultListen         = "127.0.0.1:0"
	defaultRequestTimeout = 5 * time.Second
	defaultOwnerWait      = 5 * time.Second
	defaultHandOver       = 10 * time.Second
)

// Options are the optional parts of a Cluster. Nil and zero fields select the defaults.
type Options struct {
	// Logger receives warnings and errors, and dead letters at debug. Nil discards them.
	Logger *slog.Logger
	// RequestTimeout bounds a Request whose context has no deadline. Zero is 5 s.
	RequestTimeout time.Duration
	// Membership determines the other members. Nil is Single.
	Membership Membership
	// Alone declares that there are never other members. Then there is no listener, and the fields
	// down to Insecure are ignored.
	Alone bool

	// Listen is the host:port of the listener for other members. If the host is an IP address,
	// outgoing connections use it as source. Zero is 127.0.0.1 and a free port. Without TLS it must be
	// loopback.
	Listen string
	// Advertise is the host:port that other members dial. Zero is the address of the listener, which
	// must then name one host.
	Advertise string
	// TLS names the files with the members' keys. Nil, without Insecure, is a key pair generated at
	// Start, so that no other process can connect.
	TLS *TLSFiles
	// Insecure selects plaintext without authentication, on a loopback address only.
	Insecure bool

	// OwnerWait bounds the time that a Request looks for an owner. Zero is 5 s.
	OwnerWait time.Duration
	// HandOver is the time that an activation has to hand over before it is stopped. Zero is 10 s.
	HandOver time.Duration

	// Node handles the messages to this member itself, one at a time, and returns the answer, or nil
	// for none. It must not block. If it is nil, messages are not answered.
	Node func(m proto.Message) proto.Message
	// ViewChanged is called after each new view is installed, one call at a time. It must not block.
	ViewChanged func(View)
	// LinkDown is called when the connection to another member has ended or could not be made.
	// Messages in flight may be lost. It must not block and may be called from several goroutines.
	LinkDown func(address string)
}

func (o *Options) withDefaults() (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		zero  time.Duration
	}{
		{"request timeout", &out.RequestTimeout, defaultRequestTimeout},
		{"time to find an owner", &out.OwnerWait, defaultOwnerWait},
		{"time to hand over", &out.HandOver, defaultHandOver},
	} {
		if *d.value < 0 {
			return out, fmt.Errorf("%s %v is negative", d.name, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.zero
		}
	}
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	if out.Membership == nil {
		out.Membership = Single{}
	}
	return out, nil
}

type place struct {
	host      string // listen host; "" is every address
	port      int    // 0 is a free one
	advertise string // "" is the listener's address
}

func (o *Options) place() (place, error) {
	listen := o.Listen
	if listen == "" {
		listen = defaultListen
	}
	host, port, err := splitAddress(listen)
	if err != nil {
		return place{}, fmt.Errorf("listen address %q: %w", listen, err)
	}
	if host == "localhost" && o.TLS == nil {
		host = "127.0.0.1" // The host is not resolved for others, because no other process may connect.
	}
	p := place{host: host, port: port}
	switch {
	case o.Insecure && o.TLS != nil:
		return place{}, errors.New("TLS and Insecure are both set; choose one")
	case o.TLS == nil && !isLoopback(host):
		return place{}, fmt.Errorf("listen address %q: plaintext needs a loopback address; set TLS files or listen on 127.0.0.1", listen)
	}
	if o.Advertise == "" {
		if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
			return place{}, fmt.Errorf("listen address %q names no host that others can dial; set the advertised address", listen)
		}
		return p, nil
	}
	host, advertised, err := splitAddress(o.Advertise)
	switch {
	case err != nil:
		return place{}, fmt.Errorf("advertised address %q: %w", o.Advertise, err)
	case host == "" || advertised == 0:
		return place{}, fmt.Errorf("advertised address %q: host or port is missing", o.Advertise)
	case port == 0:
		return place{}, fmt.Errorf("listen address %q has no port, but %q is advertised; set a listen port", listen, o.Advertise)
	}
	p.advertise = net.JoinHostPort(host, strconv.Itoa(advertised))
	return p, nil
}

func splitAddress(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("want host:port: %w", err)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, errors.New("want a port from 0 to 65535")
	}
	return host, int(n), nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// source returns the source address of outgoing connections, or nil if the system chooses.
func (p place) source() net.Addr {
	if ip := net.ParseIP(p.host); ip != nil && !ip.IsUnspecified() {
		return &net.TCPAddr{IP: ip}
	}
	return nil
}

// bound returns the address at which this process reaches its own listener.
func (p place) bound(advertised string) string {
	if p.advertise == "" {
		return advertised
	}
	return net.JoinHostPort(p.host, strconv.Itoa(p.port))
}
