package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// MaxWeight bounds the weight of a node.
const MaxWeight = 1000

// DefaultTLSName is the default name in the certificates of all nodes.
const DefaultTLSName = "parley"

// Cluster configures a node that shares its bucket with others.
type Cluster struct {
	// Listen is the address for other nodes, host:port. Port 0 selects a free one.
	Listen string
	// Advertise is the address that other nodes dial, host:port. It is "" if Listen has port 0; then
	// it is the address of the listener.
	Advertise string
	// Weight is the node's share of the conversations relative to other nodes, 0 to MaxWeight; nil is
	// the default.
	Weight *int
	// Heartbeat, Suspect and Fence are intervals of the membership; zero is the default. The runtime
	// validates their relation.
	Heartbeat, Suspect, Fence time.Duration
	// TLS holds the files for connections between nodes; nil if there are none.
	TLS *TLS
}

// TLS names the certificate files of a node. Relative names are relative to the working directory of
// the process.
type TLS struct {
	// CA holds the certificates of the authorities, Cert and Key the pair of this node.
	CA, Cert, Key string
	// Name must be in the certificate of every node. Default "parley".
	Name string
}

// Admin configures the listener of health and metrics.
type Admin struct {
	// Listen is host:port; "" disables it.
	Listen string
	// Profiles adds profiles of the process, which show its internals to every caller.
	Profiles bool
}

func (r *reader) admin(dst *Admin) func(value) {
	return func(v value) {
		r.fields(v, []field{
			{name: "listen", example: "127.0.0.1:9464", read: r.text(&dst.Listen, listenLike("127.0.0.1:9464"))},
			{name: "pprof", example: "true", read: r.truth(func(t bool) { dst.Profiles = t })},
		})
		if dst.Profiles && !r.written(v, "listen") {
			key, _ := r.given(v, "pprof")
			r.blameKey(key, fault{"requires listen", "add listen: 127.0.0.1:9464, or remove it"})
		}
	}
}

func (r *reader) cluster(dst **Cluster) func(value) {
	return func(v value) {
		if !r.is(v, mapping) {
			return
		}
		c := &Cluster{}
		var host string
		r.fields(v, []field{
			{name: "listen", example: "10.0.0.5:7946", read: r.text(&c.Listen, listenLike("10.0.0.5:7946")), required: true},
			{name: "advertise", example: "10.0.0.5:7946", read: r.text(&c.Advertise, checkAdvertise)},
			{name: "advertiseEnv", example: "POD_IP", read: r.variable(&host)},
			{name: "weight", example: "1", read: r.between(0, MaxWeight, func(n int64) { c.Weight = new(int(n)) })},
			{name: "heartbeat", example: "500ms", read: r.interval(&c.Heartbeat)},
			{name: "suspect", example: "2s", read: r.interval(&c.Suspect)},
			{name: "fence", example: "1500ms", read: r.interval(&c.Fence)},
			{name: "tls", example: "{ca: ca.pem, cert: node.pem, key: node-key.pem}", read: r.tls(&c.TLS)},
		})
		r.advertise(v, c, host)
		*dst = c
	}
}

// listenLike is checkListen with another example.
func listenLike(example string) check {
	return func(s string) fault {
		f := checkListen(s)
		if f != (fault{}) {
			f.remedy = "write host:port, for example " + example
		}
		return f
	}
}

// advertise determines the address that other nodes dial.
func (r *reader) advertise(v value, c *Cluster, fromEnv string) {
	listen, ok := r.given(v, "listen")
	if !ok || r.blamed[listen.at.String()] || c.Listen == "" {
		if ok && !r.blamed[listen.at.String()] {
			r.blameKey(listen, fault{"is empty", "write for example " + listen.example})
		}
		return
	}
	host, port, _ := net.SplitHostPort(c.Listen)
	variable, named := r.given(v, "advertiseEnv")
	named = named && r.written(v, "advertiseEnv")
	switch {
	case named && r.written(v, "advertise"):
		r.blameKey(variable, fault{"is set in addition to advertise, but a node has one address", "keep one of the two"})
	case named && fromEnv != "":
		c.Advertise = withPort(fromEnv, port)
		if f := checkAdvertise(c.Advertise); f != (fault{}) {
			// The value of the variable is not shown.
			r.blame(variable, fault{
				"the variable " + quote(variable.node.text) + " has no address that other nodes can dial",
				"put a host or host:port into it, as the downward API does with status.podIP",
			})
		}
	case named || r.written(v, "advertise"):
	case anyHost(host):
		r.blame(listen, fault{
			quote(c.Listen) + " is every address of this machine, so others do not know which to dial",
			"add for example advertise: 10.0.0.5:" + port + ", or advertiseEnv: POD_IP",
		})
	case port != "0":
		c.Advertise = c.Listen
	}
}

// withPort completes an address of a variable: a host, an IPv6 address without brackets, or host:port.
func withPort(s, port string) string {
	if ip, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return net.JoinHostPort(ip.String(), port)
	}
	if strings.Contains(s, ":") {
		return s
	}
	return net.JoinHostPort(s, port)
}

// anyHost reports whether a host means every address of a machine.
func anyHost(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// checkAdvertise accepts addresses that other nodes can dial.
func checkAdvertise(s string) fault {
	const remedy = "write an address that other nodes can dial, for example 10.0.0.5:7946"
	if f := checkListen(s); f != (fault{}) {
		return fault{f.problem, remedy}
	}
	host, port, _ := net.SplitHostPort(s)
	switch {
	case anyHost(host):
		return fault{quote(s) + " has no host", remedy}
	case port == "0":
		return fault{quote(s) + " has no port", remedy}
	}
	return fault{}
}

// tls reads the files for connections between nodes: all three, or none.
func (r *reader) tls(dst **TLS) func(value) {
	return func(v value) {
		if !r.is(v, mapping) {
			return
		}
		t := &TLS{Name: DefaultTLSName}
		files := []field{
			{name: "ca", example: "ca.pem", read: r.text(&t.CA, checkFile)},
			{name: "cert", example: "node.pem", read: r.text(&t.Cert, checkFile)},
			{name: "key", example: "node-key.pem", read: r.text(&t.Key, checkFile)},
		}
		r.fields(v, append(files, field{name: "name", example: DefaultTLSName, read: r.text(&t.Name, checkTLSName)}))
		for _, f := range files {
			if !r.written(v, f.name) {
				r.missing(v, f.name, f.example)
			}
		}
		*dst = t
	}
}

// checkFile rejects shell syntax, and a key in place of its file name, which its text does not show.
func checkFile(s string) fault {
	const remedy = "write the path of the file, for example /etc/parley/ca.pem"
	if strings.Contains(s, "-----BEGIN") || strings.ContainsAny(s, "\r\n") {
		return fault{"is the content of a file, want its name", remedy}
	}
	if f := checkDir(s); f != (fault{}) {
		return fault{f.problem, remedy}
	}
	return fault{}
}

func checkTLSName(s string) fault {
	if !isHost(s) || net.ParseIP(s) != nil {
		return fault{quote(s) + " is not a valid name for a certificate", "write for example " + DefaultTLSName}
	}
	return fault{}
}

// shared checks the requirements of a cluster on the rest of the file.
func (r *reader) shared(root value) {
	cluster, ok := r.given(root, "cluster")
	if !ok || cluster.node.kind != mapping {
		return
	}
	bucket, ok := r.given(root, "bucket")
	if !ok || bucket.node.kind == mapping && r.written(bucket, "dir") {
		r.blameKey(cluster, fault{
			"the bucket is a folder, which belongs to one process",
			"write bucket: {endpoint: s3.example.com, name: conversations} for a store that all nodes reach, or remove cluster",
		})
	}
}

// ports checks that no two listeners have the same address.
func (r *reader) ports(root value, s *Server) {
	type listener struct {
		at      string
		key     value
		written bool
	}
	var all []listener
	add := func(section, address string) {
		v, ok := root, true
		if section != "" {
			v, ok = r.given(root, section)
		}
		if ok && v.node.kind == mapping {
			key, written := r.given(v, "listen")
			all = append(all, listener{address, key, written && key.node.kind == text})
		}
	}
	add("", s.Listen)
	if s.Cluster != nil {
		add("cluster", s.Cluster.Listen)
	}
	add("admin", s.Admin.Listen)
	for i, l := range all {
		_, port, err := net.SplitHostPort(l.at)
		if err != nil || port == "0" || !l.written {
			continue
		}
		for _, other := range all[:i] {
			if other.at == l.at {
				name := "listen"
				if other.written {
					name = other.key.at.String()
				}
				r.blame(l.key, fault{fmt.Sprintf("%s is also the address of %s", quote(l.at), name), "write another port"})
				break
			}
		}
	}
}

// between reads a whole number from lo to hi.
func (r *reader) between(lo, hi int64, set func(int64)) func(value) {
	return func(v value) {
		if !r.is(v, number) {
			return
		}
		n, err := strconv.ParseInt(strings.ReplaceAll(v.node.text, "_", ""), 10, 64)
		if !v.node.isWhole() || err != nil || n < lo || n > hi {
			r.blame(v, fault{
				fmt.Sprintf("is %s, want a whole number from %d to %d", quote(v.node.text), lo, hi),
				"write for example " + v.example + ", or remove the key for the default",
			})
			return
		}
		set(n)
	}
}

// within reads a duration from zero to a limit.
func (r *reader) within(limit time.Duration, dst **time.Duration) func(value) {
	return func(v value) {
		s, ok := r.checked(v)
		if !ok || s == "" {
			return
		}
		d, err := time.ParseDuration(s)
		if err != nil || d < 0 || d > limit {
			r.blame(v, fault{fmt.Sprintf("%s is not a duration of 0s to %v", quote(s), limit), "write a number with ms or s, for example " + v.example})
			return
		}
		*dst = &d
	}
}

// interval reads a duration above zero.
func (r *reader) interval(dst *time.Duration) func(value) {
	return func(v value) {
		s, ok := r.checked(v)
		if !ok || s == "" {
			return
		}
		d, err := time.ParseDuration(s)
		if err != nil || d <= 0 {
			r.blame(v, fault{quote(s) + " is not a duration above zero", "write a number with ms or s, for example " + v.example})
			return
		}
		*dst = d
	}
}
