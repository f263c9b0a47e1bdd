package grain

import (
	"context"
	"crypto/x509"
	"log/slog"
	"time"
)

// watchEvery is the interval between checks of the current certificates.
const watchEvery = time.Minute

// warnings are the times before a certificate's end at which it is logged, longest first. A warning is
// skipped for a certificate that is valid for less than twice that time, because it is rotated
// routinely.
var warnings = []time.Duration{30 * 24 * time.Hour, 7 * 24 * time.Hour, 24 * time.Hour}

// Expiry holds the validity of the certificates that a member presents.
type Expiry struct {
	// Node is the validity of the member's own certificate. CA is that of the authority that signed
	// it, or of an intermediate that ends earlier.
	Node, CA Validity
}

// Validity is the validity period of a certificate.
type Validity struct{ From, Until time.Time }

// valid reports whether a certificate is accepted at a time.
func (v Validity) valid(now time.Time) bool { return !now.Before(v.From) && now.Before(v.Until) }

// Valid reports whether other members accept the certificates at a time.
func (e Expiry) Valid(now time.Time) bool { return e.Node.valid(now) && e.CA.valid(now) }

// expiryOf returns the validity of a certificate and of its longest-valid chain.
func expiryOf(leaf *x509.Certificate, chains [][]*x509.Certificate) Expiry {
	e := Expiry{Node: Validity{leaf.NotBefore, leaf.NotAfter}}
	for _, chain := range chains {
		ca := e.Node // default: a self-signed certificate
		for i, c := range chain[1:] {
			if i == 0 || c.NotAfter.Before(ca.Until) {
				ca = Validity{c.NotBefore, c.NotAfter}
			}
		}
		if ca.Until.After(e.CA.Until) {
			e.CA = ca
		}
	}
	return e
}

// Expiry returns the validity of the current certificates, or false if the member has none. It reads
// no file.
func (c *Cluster) Expiry() (Expiry, bool) {
	files, ok := c.keys.(*keyFiles)
	if !ok {
		return Expiry{}, false
	}
	files.mu.Lock()
	defer files.mu.Unlock()
	return files.set.expiry, true
}

// expiryWatch logs expiring certificates. It also detects changed files, because open links make no
// handshakes that would.
type expiryWatch struct {
	files *keyFiles
	log   *slog.Logger
	every time.Duration
	stop  context.CancelFunc
	done  chan struct{}

	node, ca warned
}

// warned is the last warning logged for a certificate, as the number of warnings due.
type warned struct {
	until time.Time
	due   int
}

func (w *expiryWatch) start() {
	ctx, cancel := context.WithCancel(context.Background())
	w.stop, w.done = cancel, make(chan struct{})
	go func() {
		defer close(w.done)
		w.run(ctx)
	}()
}

// close returns when the watch has ended, or if it was never started.
func (w *expiryWatch) close() {
	if w != nil && w.stop != nil {
		w.stop()
		<-w.done
	}
}

func (w *expiryWatch) run(ctx context.Context) {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		e, now := w.files.current().expiry, time.Now()
		w.check(&w.node, e.Node, w.files.files.Cert, now)
		w.check(&w.ca, e.CA, w.files.files.CA, now)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// check logs a certificate once for each warning that is due, and once when it has expired.
func (w *expiryWatch) check(last *warned, v Validity, file string, now time.Time) {
	due, left := 0, v.Until.Sub(now)
	for i, before := range warnings {
		if left <= before && v.Until.Sub(v.From) >= 2*before {
			due = i + 1
		}
	}
	if left <= 0 {
		due = len(warnings) + 1
	}
	if !last.until.Equal(v.Until) {
		*last = warned{until: v.Until}
	}
	if due <= last.due {
		return
	}
	last.due = due
	if left <= 0 {
		w.log.Error("cluster certificate has expired", "file", file, "expired", v.Until.UTC(),
			"remedy", "replace the file; the node reads it without a restart")
		return
	}
	w.log.Warn("cluster certificate expires soon", "file", file, "expires", v.Until.UTC(), "left", left.Round(time.Minute),
		"remedy", "replace the file; the node reads it without a restart")
}
