package channels

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Secret is a key or token of a platform. It shows itself nowhere: formatted, logged or
// encoded, it is a word in its place.
type Secret string

// hidden is what a secret shows.
const hidden = "[secret]"

// NewSecret returns a secret that may be left out, as a pointer: an empty one was set by
// mistake, such as from a variable that is not there, and constructors refuse it.
func NewSecret(s string) *Secret {
	secret := Secret(s)
	return &secret
}

// String implements fmt.Stringer.
func (Secret) String() string { return hidden }

// GoString implements fmt.GoStringer.
func (Secret) GoString() string { return hidden }

// LogValue implements slog.LogValuer.
func (Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText implements encoding.TextMarshaler.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// Reveal returns what is secret.
func (s Secret) Reveal() string { return string(s) }

// Equal compares with a value that a caller has sent, in constant time, whatever the lengths.
func (s Secret) Equal(sent string) bool {
	a, b := sha256.Sum256([]byte(s)), sha256.Sum256([]byte(sent))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// Signs reports whether the secret made a code over some pieces of a message, by HMAC with a
// hash such as sha256.New.
func (s Secret) Signs(code []byte, h func() hash.Hash, pieces ...[]byte) bool {
	mac := hmac.New(h, []byte(s))
	for _, p := range pieces {
		mac.Write(p)
	}
	return hmac.Equal(mac.Sum(nil), code)
}

// hubCode returns the code of X-Hub-Signature-256, by which more than one platform signs a body.
func hubCode(h http.Header) ([]byte, bool) {
	return HexCode(Header(h, "X-Hub-Signature-256"), "sha256=", sha256.Size)
}

// CheckHubForm refuses headers without a well-formed X-Hub-Signature-256, for [Endpoint.Early].
func CheckHubForm(h http.Header) error {
	if _, ok := hubCode(h); !ok {
		return Refuse(http.StatusUnauthorized, "signature")
	}
	return nil
}

// SignsHub reports whether the secret made the X-Hub-Signature-256 of a body.
func (s Secret) SignsHub(h http.Header, body []byte) bool {
	sent, ok := hubCode(h)
	return ok && s.Signs(sent, sha256.New, body)
}

// SignsAny is Signs for several secrets, of which all are tried.
func SignsAny(secrets []Secret, code []byte, h func() hash.Hash, pieces ...[]byte) bool {
	found := false
	for _, s := range secrets {
		found = s.Signs(code, h, pieces...) || found
	}
	return found
}

// HexCode decodes a code of size bytes behind a prefix, such as "sha256=", in hexadecimal of
// either case and nothing else.
func HexCode(value, prefix string, size int) ([]byte, bool) {
	if len(value) != len(prefix)+2*size || value[:len(prefix)] != prefix {
		return nil, false
	}
	code, err := hex.DecodeString(value[len(prefix):])
	return code, err == nil
}

// base64SHA256 is the base64 of 32 bytes.
var base64SHA256 = regexp.MustCompile(`^[A-Za-z0-9+/]{43}=$`)

// Base64Code decodes a code of SHA-256 in standard base64 with its padding, in its one spelling.
func Base64Code(value string) ([]byte, bool) {
	if !base64SHA256.MatchString(value) {
		return nil, false
	}
	code, err := base64.StdEncoding.Strict().DecodeString(value)
	return code, err == nil
}

// Fresh reports whether a time, in whole seconds since 1970 as a platform signs it, is within
// a tolerance of now, in the past or in the future.
func Fresh(timestamp string, tolerance time.Duration) bool {
	if strings.Trim(timestamp, "0123456789") != "" {
		return false
	}
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	return err == nil && time.Since(time.Unix(seconds, 0)).Abs() <= tolerance
}
