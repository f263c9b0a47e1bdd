package local

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net/http"
	"strings"
)

// digests are what a client declares its body to be; nil is not declared.
type digests struct {
	md5    []byte
	sha256 []byte
	plain  bool // Nobody asks for the MD5 of the body.
}

func parseDigests(h http.Header) (digests, error) {
	var d digests
	switch v := h.Get("X-Amz-Content-Sha256"); {
	case v == "" || v == "UNSIGNED-PAYLOAD":
	case strings.HasPrefix(v, "STREAMING-"):
		return d, notImplemented("streaming signatures are not implemented; declare the digest of the whole body")
	default:
		b, err := hex.DecodeString(v)
		if err != nil || len(b) != sha256.Size {
			return d, invalidArgument("X-Amz-Content-Sha256 is no digest")
		}
		d.sha256 = b
	}
	if v := h.Get("Content-Md5"); v != "" {
		b, err := base64.StdEncoding.DecodeString(v)
		if err != nil || len(b) != md5.Size {
			return d, &apiError{http.StatusBadRequest, "InvalidDigest", "Content-MD5 is no digest"}
		}
		d.md5 = b
	}
	return d, nil
}

// summer computes the digests of what is read through it.
type summer struct {
	src    io.Reader
	want   digests
	md5    hash.Hash // nil if nobody asks for it
	sha256 hash.Hash // nil if nothing was declared
}

func newSummer(src io.Reader, want digests) *summer {
	s := &summer{src: src, want: want}
	if !want.plain {
		s.md5 = md5.New()
	}
	if want.sha256 != nil {
		s.sha256 = sha256.New()
	}
	return s
}

// Read reads from the body.
func (s *summer) Read(p []byte) (int, error) {
	n, err := s.src.Read(p)
	if s.md5 != nil {
		s.md5.Write(p[:n])
	}
	if s.sha256 != nil {
		s.sha256.Write(p[:n])
	}
	return n, err
}

// end checks that the body is over and is what was declared.
func (s *summer) end() error {
	var more [1]byte
	if n, _ := io.ReadFull(s.src, more[:]); n != 0 {
		return errIncomplete("the body is longer than its Content-Length")
	}
	if s.sha256 != nil && string(s.sha256.Sum(nil)) != string(s.want.sha256) {
		return &apiError{http.StatusBadRequest, "XAmzContentSHA256Mismatch", "the body does not have the declared SHA-256"}
	}
	if got := s.md5Sum(); s.want.md5 != nil && string(got[:]) != string(s.want.md5) {
		return &apiError{http.StatusBadRequest, "BadDigest", "the body does not have the declared MD5"}
	}
	return nil
}

func (s *summer) md5Sum() (sum [md5.Size]byte) {
	if s.md5 != nil {
		s.md5.Sum(sum[:0])
	}
	return sum
}

func errIncomplete(message string) error {
	return &apiError{http.StatusBadRequest, "IncompleteBody", message}
}

// bodyError names the error of a body that could not be read to its end.
func bodyError(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errIncomplete("the body is shorter than its Content-Length")
	}
	return err
}
