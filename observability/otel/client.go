package otel

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// defaultTimeout is the export timeout of the OTLP specification.
const defaultTimeout = 10 * time.Second

// newClient returns the client that exports a signal, "TRACES" or "METRICS". An exporter with a custom
// client ignores the variables for timeouts and certificates, so newClient reads them.
func newClient(signal string, getenv func(string) string) (*http.Client, error) {
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		transport = &http.Transport{Proxy: http.ProxyFromEnvironment}
	}
	transport = transport.Clone()
	env := func(name string) (variable, value string) {
		for _, variable := range []string{"OTEL_EXPORTER_OTLP_" + signal + "_" + name, "OTEL_EXPORTER_OTLP_" + name} {
			if value := strings.TrimSpace(getenv(variable)); value != "" {
				return variable, value
			}
		}
		return "", ""
	}
	timeout := defaultTimeout
	var err error
	if variable, value := env("TIMEOUT"); value != "" {
		if timeout, err = milliseconds(variable, value); err != nil {
			return nil, err
		}
	}
	if transport.TLSClientConfig, err = tlsOf(env); err != nil {
		return nil, err
	}
	return &http.Client{Transport: &answerCheck{transport}, Timeout: timeout, CheckRedirect: checkRedirect}, nil
}

// defaultLinger is the schedule delay of the OpenTelemetry specification, and batchEvents the number
// of events that end it.
const (
	defaultLinger = 5 * time.Second
	batchEvents   = 4_096
)

// lingerOf returns OTEL_BSP_SCHEDULE_DELAY, or the default.
func lingerOf(getenv func(string) string) (time.Duration, error) {
	const variable = "OTEL_BSP_SCHEDULE_DELAY"
	if value := strings.TrimSpace(getenv(variable)); value != "" {
		return milliseconds(variable, value)
	}
	return defaultLinger, nil
}

func milliseconds(variable, value string) (time.Duration, error) {
	ms, err := strconv.Atoi(value)
	if err != nil || ms < 0 {
		return 0, fmt.Errorf("read %s: %q is not a number of milliseconds", variable, value)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// tlsOf returns the TLS configuration of the variables, nil if there is none.
func tlsOf(env func(string) (string, string)) (*tls.Config, error) {
	caVariable, ca := env("CERTIFICATE")
	certVariable, cert := env("CLIENT_CERTIFICATE")
	_, key := env("CLIENT_KEY")
	if ca == "" && cert == "" {
		return nil, nil
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", caVariable, err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read %s: %s has no PEM certificate", caVariable, ca)
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", certVariable, err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}

// checkRedirect follows redirects that resend the export. Others lead to a page, such as a login, and
// would lose the export.
func checkRedirect(r *http.Request, via []*http.Request) error {
	switch {
	case r.Method != via[0].Method:
		return http.ErrUseLastResponse
	case len(via) >= 10:
		return errors.New("stopped after 10 redirects")
	}
	return nil
}

// answerCheck turns pages into errors, because the exporter takes any 2xx response for success.
type answerCheck struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (c *answerCheck) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := c.next.RoundTrip(r)
	if err != nil || res.StatusCode < 200 || res.StatusCode > 299 {
		return res, err
	}
	begin, err := io.ReadAll(io.LimitReader(res.Body, 512))
	if err != nil {
		_ = res.Body.Close() // The connection is not reused.
		return nil, fmt.Errorf("read response of the collector: %w", err)
	}
	text := bytes.TrimSpace(begin)
	if len(text) > 0 && (strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") || text[0] == '<') {
		_ = res.Body.Close() // The connection is not reused.
		return nil, &pageError{Status: res.StatusCode, Begin: string(text)}
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(begin), res.Body), res.Body}
	return res, nil
}

// pageError reports a page in place of a collector's response.
type pageError struct {
	Status int
	Begin  string // start of the page, at most 512 bytes
}

// Error implements error.
func (e *pageError) Error() string {
	return fmt.Sprintf("answered status %d with a page: %.120q", e.Status, e.Begin)
}
