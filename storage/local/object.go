package local

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// maxObjectBytes is S3's limit of a single PUT.
const maxObjectBytes = 5 << 30

// isoTime is how S3 writes a time in a document.
const isoTime = "2006-01-02T15:04:05.000Z"

func (o object) etag() string { return `"` + hex.EncodeToString(o.md5[:]) + `"` }

// putObject stores the body.
func (s *Store) putObject(r *http.Request, key string) (*response, error) {
	size := r.ContentLength
	if size < 0 {
		return nil, &apiError{http.StatusLengthRequired, "MissingContentLength", "Content-Length is required"}
	}
	if size > maxObjectBytes {
		return nil, &apiError{http.StatusBadRequest, "EntityTooLarge", "the object is too large"}
	}
	want, err := parseDigests(r.Header)
	if err != nil {
		return nil, err
	}
	o, err := s.store(r.Context(), key, r.Body, size, want, r.Header.Get("If-None-Match") != "")
	if err != nil {
		return nil, err
	}
	resp := newResponse(http.StatusOK)
	resp.header.Set("ETag", o.etag())
	return resp, nil
}

// store makes a body of exactly size bytes the object under key. They are complete, checked
// and, if large, durable before the key is written.
func (s *Store) store(ctx context.Context, key string, body io.Reader, size int64, want digests, create bool) (object, error) {
	if create && s.isLarge(size) {
		// A large body that would be refused need not be written first.
		switch _, err := s.engine.get(ctx, key); {
		case err == nil:
			return object{}, errExists
		case !errors.Is(err, errNoKey):
			return object{}, err
		}
	}
	o, err := s.receive(body, size, want)
	if err == nil {
		err = s.commit(ctx, key, &o, create)
	}
	return o, err
}

func (s *Store) isLarge(size int64) bool { return s.files != nil && size > s.large }

// receive reads and checks a body of exactly size bytes. A large one is in a
// file when it returns, a small one in memory.
func (s *Store) receive(body io.Reader, size int64, want digests) (object, error) {
	sum := newSummer(body, want)
	o := object{size: size}
	var err error
	if s.isLarge(size) {
		o.file, err = s.files.write(sum, size)
	} else {
		o.inline, err = readInline(sum, size)
	}
	if err == nil {
		err = sum.end()
		o.md5 = sum.md5Sum()
	}
	if err != nil {
		s.discard(o)
		return object{}, bodyError(err)
	}
	return o, nil
}

// readInline grows with what arrives, so that a length which is announced only
// costs nothing.
func readInline(body io.Reader, size int64) ([]byte, error) {
	if size <= maxLargeObjectBytes {
		b := make([]byte, size)
		_, err := io.ReadFull(body, b)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return b, err
	}
	var b bytes.Buffer
	n, err := io.CopyN(&b, body, size)
	if n < size && err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return b.Bytes(), err
}

// commit makes o the object under key and sets its time.
func (s *Store) commit(ctx context.Context, key string, o *object, create bool) error {
	o.modified = time.Now().UTC().Truncate(time.Millisecond)
	replaced, err := s.engine.put(ctx, key, *o, create)
	if err != nil {
		// After a fatal error the key may or may not name the file.
		var fatal *FatalError
		if !errors.As(err, &fatal) {
			s.discard(*o)
		}
		return err
	}
	s.discard(object{file: replaced})
	return nil
}

// discard removes the file of an object that no key names. If that does not work
// the next start does it.
func (s *Store) discard(o object) {
	if o.file == "" {
		return
	}
	if err := s.files.remove(o.file); err != nil {
		s.log.Warn("local store keeps an unused file until the next start", "err", err)
	}
}

// deleteObject removes the key first and its file afterwards.
func (s *Store) deleteObject(r *http.Request, key string) (*response, error) {
	removed, err := s.engine.remove(r.Context(), key)
	if err != nil {
		return nil, err
	}
	s.discard(object{file: removed})
	return newResponse(http.StatusNoContent), nil
}

// getObject serves GET and HEAD.
func (s *Store) getObject(r *http.Request, key string) (*response, error) {
	o, file, err := s.open(r.Context(), key)
	if err != nil {
		return nil, err
	}
	resp, err := objectResponse(r, o, file)
	if err != nil && file != nil {
		file.Close()
	}
	return resp, err
}

// open returns the object under key and, if it is large, its open file.
func (s *Store) open(ctx context.Context, key string) (object, vfs.File, error) {
	for missing := ""; ; {
		o, err := s.engine.get(ctx, key)
		if err != nil || o.file == "" {
			return o, nil, err
		}
		file, err := s.files.open(o.file)
		if errors.Is(err, fs.ErrNotExist) && o.file != missing {
			// The object was replaced or deleted since; look again.
			missing = o.file
			continue
		}
		return o, file, err
	}
}

func objectResponse(r *http.Request, o object, file vfs.File) (*response, error) {
	first, n, status := int64(0), o.size, http.StatusOK
	resp := newResponse(status)
	if header := r.Header.Get("Range"); header != "" {
		var err error
		if first, n, err = parseRange(header, o.size); err != nil {
			return nil, err
		}
		resp.status = http.StatusPartialContent
		resp.header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, first+n-1, o.size))
	}
	resp.header.Set("ETag", o.etag())
	resp.header.Set("Last-Modified", o.modified.Format(http.TimeFormat))
	resp.header.Set("Accept-Ranges", "bytes")
	resp.header.Set("Content-Type", "application/octet-stream")
	if file == nil {
		resp.setBytes(o.inline[first : first+n])
		return resp, nil
	}
	resp.body, resp.length = &fileBody{r.Context(), io.NewSectionReader(file, first, n), file}, n
	return resp, nil
}

// fileBody is a part of an object's file. It ends with its request.
type fileBody struct {
	ctx  context.Context
	part *io.SectionReader
	io.Closer
}

func (b *fileBody) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.part.Read(p)
}

// copyBody is the document that answers CopyObject.
type copyBody struct {
	XMLName      xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ CopyObjectResult"`
	LastModified string
	ETag         string
}

// copyObject stores another key's bytes under key. There is no metadata to copy
// or to replace.
func (s *Store) copyObject(r *http.Request, key string) (*response, error) {
	source, err := parseCopySource(r.Header.Get("X-Amz-Copy-Source"))
	if err != nil {
		return nil, err
	}
	if r.ContentLength > 0 {
		return nil, invalidArgument("a copy has no body")
	}
	if source == key && r.Header.Get("X-Amz-Metadata-Directive") != "REPLACE" {
		return nil, &apiError{http.StatusBadRequest, "InvalidRequest", "a copy of a key to itself changes nothing"}
	}
	o, err := s.duplicate(r.Context(), source)
	if err != nil {
		return nil, err
	}
	if err := s.commit(r.Context(), key, &o, r.Header.Get("If-None-Match") != ""); err != nil {
		return nil, err
	}
	resp := newResponse(http.StatusOK)
	return resp, resp.setXML(copyBody{LastModified: o.modified.Format(isoTime), ETag: o.etag()})
}

// duplicate returns the object under key, with a file of its own if it is large.
func (s *Store) duplicate(ctx context.Context, key string) (object, error) {
	for missing := ""; ; {
		o, err := s.engine.get(ctx, key)
		if err != nil || o.file == "" {
			return o, err
		}
		file, err := s.files.clone(o.file)
		if errors.Is(err, fs.ErrNotExist) && o.file != missing {
			missing = o.file
			continue
		}
		o.file = file
		return o, err
	}
}

// parseCopySource returns the key of a header "/bucket/key", URL encoded.
func parseCopySource(header string) (string, error) {
	path, query, _ := strings.Cut(header, "?")
	if query != "" {
		return "", notImplemented("versions are not implemented")
	}
	path, err := url.PathUnescape(strings.TrimPrefix(path, "/"))
	if err != nil {
		return "", invalidArgument("copy source: %v", err)
	}
	bucket, key, _ := strings.Cut(path, "/")
	if bucket != Bucket {
		return "", &apiError{http.StatusNotFound, "NoSuchBucket", "the only bucket is " + Bucket}
	}
	if key == "" {
		return "", invalidArgument("the copy source has no key")
	}
	return key, checkKey(key)
}
