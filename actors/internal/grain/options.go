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

// Options are the optional parts of a Cluster. Nil and zero fields mean the defaults.
type Options struct {
	// Logger gets warnings and errors, and dead letters at debug. Nil discards them.
	Logger *slog.Logger
	// RequestTimeout bounds a Request whose context has no deadline. Zero is 5 s.
	RequestTimeout time.Duration
	// Membership says who else is a member. Nil is Single.
	Membership Membership
	// Alone says that nobody else ever is. Then nothing listens, and what follows is not looked at
	// down to Insecure.
	Alone bool

	// Listen is the host:port that other members' connections are taken at. If the host is an IP
	// address, connections to others come from it. Zero is 127.0.0.1 and a free port. Without TLS it
	// must be loopback.
	Listen string
	// Advertise is the host:port that others dial. Zero is the address that Listen comes to, which
	// then must name one host.
	Advertise string
	// TLS names the files that members prove themselves with. Nil, without Insecure, is a key pair made
	// at this start, so that nobody else can connect.
	TLS *TLSFiles
	// Insecure is plaintext and no proof at all, on a loopback address only.
	Insecure bool

	// OwnerWait is how long a Request looks for an owner that takes its message. Zero is 5 s.
	OwnerWait time.Duration
	// HandOver is how long an activation may take to hand over before it is stopped. Zero is 10 s.
	HandOver time.Duration

	// Node gets the messages that other members send to this one itself, one at a time, and returns its
	// answer, nil for none. It must not block. Nil leaves them unanswered as if nobody was there.
	Node func(m proto.Message) proto.Message
	// ViewChanged is called after each new view is in place, one call at a time. It must not block.
	ViewChanged func(View)
	// LinkDown is called when the connection to another member has ended or could not be made; what was
	// on its way may be lost. It must not block and may be called from several goroutines.
	LinkDown func(address string)
}

// withDefaults checks the options of New.
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

// place is where a member listens and is found.
type place struct {
	host      string // to listen at; "" is every address
	port      int    // 0 is a free one
	advertise string // "" is the address that listening comes to
}

// place reads Listen and Advertise.
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
		host = "127.0.0.1" // What the name means elsewhere is not asked: nobody else may connect.
	}
	p := place{host: host, port: port}
	switch {
	case o.Insecure && o.TLS != nil:
		return place{}, errors.New("TLS files are named and insecure is asked for: choose one")
	case o.TLS == nil && !isLoopback(host):
		return place{}, fmt.Errorf("listen address %q: without TLS only a loopback address is taken: name TLS files or listen on 127.0.0.1", listen)
	}
	if o.Advertise == "" {
		if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
			return place{}, fmt.Errorf("listen address %q names no host that others can dial: advertise one", listen)
		}
		return p, nil
	}
	host, advertised, err := splitAddress(o.Advertise)
	switch {
	case err != nil:
		return place{}, fmt.Errorf("advertised address %q: %w", o.Advertise, err)
	case host == "" || advertised == 0:
		return place{}, fmt.Errorf("advertised address %q: others dial it, so it needs a host and a port", o.Advertise)
	case port == 0:
		return place{}, fmt.Errorf("listen address %q has no port, but %q is advertised: listen at a port of your choice", listen, o.Advertise)
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

// source is the address that connections to others come from, nil if the system chooses.
func (p place) source() net.Addr {
	if ip := net.ParseIP(p.host); ip != nil && !ip.IsUnspecified() {
		return &net.TCPAddr{IP: ip}
	}
	return nil
}

// bound is where this process itself reaches its listener, whose advertised address is known.
func (p place) bound(advertised string) string {
	if p.advertise == "" {
		return advertised
	}
	return net.JoinHostPort(p.host, strconv.Itoa(p.port))
}
