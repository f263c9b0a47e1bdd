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

// Secret is a key or token of a platform. Formatting, logging and encoding print a placeholder.
type Secret string

const hidden = "[secret]"

// NewSecret returns a pointer for an optional secret. Constructors reject an empty secret, which is
// usually a missing environment variable.
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

// Reveal returns the secret as plain text.
func (s Secret) Reveal() string { return string(s) }

// Equal compares the secret with an untrusted value in constant time, for any lengths.
func (s Secret) Equal(sent string) bool {
	a, b := sha256.Sum256([]byte(s)), sha256.Sum256([]byte(sent))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// Signs reports whether code is the HMAC of the concatenated pieces under the secret, with a hash such
// as sha256.New.
func (s Secret) Signs(code []byte, h func() hash.Hash, pieces ...[]byte) bool {
	mac := hmac.New(h, []byte(s))
	for _, p := range pieces {
		mac.Write(p)
	}
	return hmac.Equal(mac.Sum(nil), code)
}

// hubCode returns the signature in X-Hub-Signature-256, a header that several platforms use.
func hubCode(h http.Header) ([]byte, bool) {
	return HexCode(Header(h, "X-Hub-Signature-256"), "sha256=", sha256.Size)
}

// CheckHubForm returns an error unless X-Hub-Signature-256 is well-formed. It fits [Endpoint.Early].
func CheckHubForm(h http.Header) error {
	if _, ok := hubCode(h); !ok {
		return Refuse(http.StatusUnauthorized, "signature")
	}
	return nil
}

// SignsHub reports whether X-Hub-Signature-256 is the signature of the body.
func (s Secret) SignsHub(h http.Header, body []byte) bool {
	sent, ok := hubCode(h)
	return ok && s.Signs(sent, sha256.New, body)
}

// SignsAny reports whether any of several secrets signs the pieces, like Signs. It tries all of them.
func SignsAny(secrets []Secret, code []byte, h func() hash.Hash, pieces ...[]byte) bool {
	found := false
	for _, s := range secrets {
		found = s.Signs(code, h, pieces...) || found
	}
	return found
}

// HexCode decodes a code of size bytes after a prefix such as "sha256=". It accepts hexadecimal of
// either case only.
func HexCode(value, prefix string, size int) ([]byte, bool) {
	if len(value) != len(prefix)+2*size || value[:len(prefix)] != prefix {
		return nil, false
	}
	code, err := hex.DecodeString(value[len(prefix):])
	return code, err == nil
}

var base64SHA256 = regexp.MustCompile(`^[A-Za-z0-9+/]{43}=$`)

// Base64Code decodes a SHA-256 code in canonical standard base64 with padding.
func Base64Code(value string) ([]byte, bool) {
	if !base64SHA256.MatchString(value) {
		return nil, false
	}
	code, err := base64.StdEncoding.Strict().DecodeString(value)
	return code, err == nil
}

// Fresh reports whether a timestamp, in whole seconds since 1970, is within the tolerance of now, past
// or future.
func Fresh(timestamp string, tolerance time.Duration) bool {
	if strings.Trim(timestamp, "0123456789") != "" {
		return false
	}
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	return err == nil && time.Since(time.Unix(seconds, 0)).Abs() <= tolerance
}
