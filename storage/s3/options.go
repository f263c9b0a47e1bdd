package s3

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Options locate the bucket. Endpoint and Bucket are required.
type Options struct {
	Endpoint  string // Host or host:port, without a scheme.
	Bucket    string // Name of an existing bucket.
	Prefix    string // Prepended to every key unchanged; "" uses the whole bucket.
	Region    string // "" is us-east-1. Never requested from the server.
	Secure    bool   // Use HTTPS. Recommended for an endpoint across a network.
	PathStyle bool   // Put the bucket name into the path even where minio-go would put it into the host.
	AccessKey string // "" sends unsigned requests.
	SecretKey string
	// Transport sends the requests. Nil is NewTransport().
	Transport http.RoundTripper
}

// NewTransport returns the default transport: HTTP/1.1 with up to 128 idle connections per host, and
// timeouts of 5 s each for connecting, for TLS and for response headers. HTTP/2 is off because all
// writers would share one connection and its packet loss.
func NewTransport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           patient((&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext),
		TLSHandshakeTimeout:   5 * time.Second,
		ResponseHeaderTimeout: 5 * time.Second,
		ExpectContinueTimeout: time.Second,
		MaxIdleConnsPerHost:   128,
		IdleConnTimeout:       time.Minute,
		Protocols:             protocols,
		DisableCompression:    true, // Return objects as stored, even if they look compressed.
	}
}

// New returns the bucket. It sends no request; the first use shows whether the endpoint works.
func New(opts *Options) (*Bucket, error) {
	if opts == nil {
		opts = &Options{}
	}
	o := *opts
	switch {
	case o.Endpoint == "":
		return nil, errors.New("open bucket: missing endpoint")
	case o.Bucket == "":
		return nil, errors.New("open bucket: missing bucket name")
	}
	if o.Region == "" {
		o.Region = "us-east-1"
	}
	if o.Transport == nil {
		o.Transport = NewTransport()
	}
	lookup := minio.BucketLookupAuto
	if o.PathStyle {
		lookup = minio.BucketLookupPath
	}
	ahead := new(atomic.Int64)
	core, err := minio.NewCore(o.Endpoint, &minio.Options{
		Creds:        credentials.NewStaticV4(o.AccessKey, o.SecretKey, ""),
		Secure:       o.Secure,
		Region:       o.Region,
		BucketLookup: lookup,
		Transport:    &singleShot{next: o.Transport, ahead: ahead},
		MaxRetries:   1,
	})
	if err != nil {
		return nil, fmt.Errorf("open bucket %s at %s: %w", o.Bucket, o.Endpoint, err)
	}
	b := &Bucket{
		core: core, endpoint: o.Endpoint, bucket: o.Bucket, prefix: o.Prefix, ahead: ahead, signed: o.AccessKey != "" && o.SecretKey != "",
		create: minio.PutObjectOptions{DisableContentSha256: true},
	}
	b.create.SetMatchETagExcept("*")
	return b, nil
}
