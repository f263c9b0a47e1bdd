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

// Options says where the bucket is. Endpoint and Bucket are required.
type Options struct {
	Endpoint  string // Host, or host:port, without scheme.
	Bucket    string // Name of an existing bucket.
	Prefix    string // Put before every key, as it is; "" uses the whole bucket.
	Region    string // "" is us-east-1. Never asked of the server.
	Secure    bool   // HTTPS. An endpoint across a network should have it.
	PathStyle bool   // Bucket name in the path also where minio-go would put it into the host.
	AccessKey string // "" sends unsigned requests.
	SecretKey string
	// Transport sends the requests. Nil is NewTransport().
	Transport http.RoundTripper
}

// NewTransport returns the transport used by default: HTTP/1.1 with up to 128
// idle connections per host, 5 s for a connection, for TLS and for the headers of
// an answer. HTTP/2 is off because it would share one connection, and its losses,
// among all writers.
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
		DisableCompression:    true, // An object is what was stored, also if it looks compressed.
	}
}

// New returns the bucket. It sends nothing: whether the endpoint is there, and
// holds what it promises, is found out by whoever uses it first.
func New(opts *Options) (*Bucket, error) {
	if opts == nil {
		opts = &Options{}
	}
	o := *opts
	switch {
	case o.Endpoint == "":
		return nil, errors.New("open bucket: no endpoint given")
	case o.Bucket == "":
		return nil, errors.New("open bucket: no bucket given")
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
