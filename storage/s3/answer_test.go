package s3_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/s3"
)

const (
	failure = "<?xml version=\"1.0\"?>\n<Error><Code>InternalError</Code><Message>text</Message></Error>"
	page    = "<!DOCTYPE html><html><body>Please log in</body></html>"
	object  = "the bytes of an object"
	listed  = `<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b-1</Name><Prefix>p/</Prefix><EncodingType>url</EncodingType>` +
		`<IsTruncated>false</IsTruncated><Contents><Key>p/1</Key><Size>7</Size></Contents><Contents><Key>p/2+3</Key><Size>0</Size></Contents></ListBucketResult>`
)

// answering serves every request with answer, over a real connection.
func answering(t *testing.T, answer http.HandlerFunc) *s3.Bucket {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	network := s3.NewTransport()
	t.Cleanup(network.CloseIdleConnections)
	b, err := s3.New(&s3.Options{
		Endpoint: server.Listener.Addr().String(), Bucket: "b-1", PathStyle: true, AccessKey: "id", SecretKey: "secret", Transport: network,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// reply is one response: headers as "Name: value" lines, then the body. A store adds the headers of
// good; a header without a value removes one.
type reply struct {
	status  int
	headers string
	body    string
	chunked bool // Without Content-Length.
}

func (a reply) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	h := w.Header()
	h.Set("ETag", `"any"`)
	h.Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
	h.Set("Content-Type", "application/octet-stream")
	for line := range strings.Lines(a.headers) {
		name, value, _ := strings.Cut(line, ":")
		if value = strings.TrimSpace(value); value == "" {
			h.Del(name)
			continue
		}
		h.Set(name, value)
	}
	w.WriteHeader(a.status)
	if a.chunked {
		w.(http.Flusher).Flush()
	}
	_, _ = io.WriteString(w, a.body)
}

// operations returns a function per kind of request that returns its error.
func operations(ctx context.Context, b *s3.Bucket) map[string]func() error {
	return map[string]func() error{
		"create": func() error { return b.Create(ctx, "p/k", storage.Bytes([]byte("x"))) },
		"put":    func() error { return b.Put(ctx, "p/k", storage.Bytes([]byte("x"))) },
		"delete": func() error { return b.Delete(ctx, "p/k") },
		"get":    func() error { _, err := b.Get(ctx, "p/k"); return err },
		"range":  func() error { _, err := b.GetRange(ctx, "p/k", 4, 5); return err },
		"open": func() error {
			r, _, err := b.Open(ctx, "p/k")
			if err != nil {
				return err
			}
			defer r.Close()
			_, err = io.ReadAll(r)
			return err
		},
		"list": func() error { _, err := b.List(ctx, storage.ListQuery{Prefix: "p/", After: "p/0"}); return err },
	}
}

// TestAnswers checks that a success status alone is not enough, and neither is an error status. A
// response that no store sends is a transient error: ErrUnavailable for a read, ErrUncertain for a
// write, with the cause.
func TestAnswers(t *testing.T) {
	const reads, writes, all = "get range open list", "create put", "create put delete get range open list"
	chunk := "Content-Range: bytes 4-8/22"
	for _, tt := range []struct {
		name string
		ops  string
		reply
		want string // Part of the error, "" for a valid response.
	}{
		{"good write", writes, reply{200, "", "", false}, ""},
		{"good delete", "delete", reply{204, "", "", false}, ""},
		{"good delete of some", "delete", reply{200, "ETag:", "", false}, ""},
		{"good object", "get open", reply{200, "", object, false}, ""},
		{"good range", "range", reply{206, chunk, object[4:9], false}, ""},
		{"good list", "list", reply{200, "ETag:", listed, false}, ""},
		{"good list in chunks", "list", reply{200, "ETag:", listed, true}, ""},
		{"good list with spaces", "list", reply{200, "ETag:", "\n" + listed + "\n", true}, ""},

		{"error inside", writes + " delete list", reply{200, "", failure, false}, "InternalError"},
		{"error inside without ETag", writes + " delete list", reply{200, "ETag:", failure, false}, "InternalError"},
		{"page", all, reply{200, "ETag:\nContent-Type: text/html; charset=utf-8", page, false}, "invalid response"},
		{"page with ETag", all, reply{200, "Content-Type: text/html", page, false}, "invalid response"},
		{"page with nothing", all, reply{200, "ETag:\nLast-Modified:\nContent-Type:", page, false}, "invalid response"},
		{"page in chunks", all, reply{200, "", page, true}, "invalid response"},
		{"page for an absent object", "delete get range open", reply{404, "Content-Type: text/html", page, false}, "status 404 without an error document"},
		{"absent without a word", "delete get range open", reply{404, "", "", false}, "status 404 without an error document"},
		{"page of refusal", all, reply{403, "Content-Type: text/html", page, false}, "status 403 without an error document"},
		{"text of refusal", all, reply{400, "", "error code: 1010", false}, "status 400 without an error document"},
		{"login page", all, reply{302, "Location: https://login.example/", "", false}, "status 302 without an error document"},
		{"login page for good", all, reply{301, "Location: https://login.example/", page, false}, "status 301 without an error document"},
		{"not modified", all, reply{304, "", "", false}, "status 304 without an error document"},
		{"proxy that wants a login", all, reply{407, "", page, false}, "status 407 without an error document"},

		{"no content", writes + " " + reads, reply{204, "", "", false}, "204"},
		{"accepted", all, reply{202, "", "", false}, "202"},
		{"transformed", all, reply{203, "", "", false}, "203"},
		{"part of a whole", "get open", reply{206, chunk, object[4:9], false}, "206"},
		{"whole of a part", "range", reply{200, "", object, false}, "200"},
		{"another part", "range", reply{206, "Content-Range: bytes 5-9/22", object[5:10], false}, "Content-Range"},
		{"part without place", "range", reply{206, "", object[4:9], false}, "Content-Range"},
		{"part of another length", "range", reply{206, chunk, object[4:12], false}, "Content-Range"},
		{"no ETag", writes + " get open", reply{200, "ETag:", "", false}, "has no ETag"},
		{"no Last-Modified", "get open", reply{200, "Last-Modified:", object, false}, "has no Last-Modified"},
		{"no Content-Length", "get open", reply{200, "", object[:9], true}, "Content-Length"},
		{"compressed", "get open list", reply{200, "Content-Encoding: gzip", "\x1f\x8b", false}, "gzip"},

		{"list cut", "list", reply{200, "", listed[:strings.Index(listed, "<IsTruncated>")], true}, "EOF"},
		{"list cut after a key", "list", reply{200, "", listed[:strings.LastIndex(listed, "<Contents>")], true}, "EOF"},
		{"list without a word on its end", "list", reply{200, "", strings.Replace(listed, "<IsTruncated>false</IsTruncated>", "", 1), false}, "IsTruncated"},
		{"list that ends without a token", "list", reply{200, "", strings.Replace(listed, "false", "true", 1), false}, "NextContinuationToken"},
		{"list of another prefix", "list", reply{200, "", strings.Replace(listed, "<Prefix>p/", "<Prefix>q/", 1), false}, `prefix "q/"`},
		{"list with foreign keys", "list", reply{200, "", strings.Replace(listed, "<Key>p/1", "<Key>q/1", 1), false}, `has "q/1"`},
		{"list of another place", "list", reply{200, "", strings.Replace(listed, "<Key>p/1", "<Key>p/0", 1), false}, `has "p/0"`},
		{"list from another place", "list", reply{200, "", strings.Replace(listed, "<Prefix>", "<StartAfter>p/7</StartAfter><Prefix>", 1), false}, `start-after "p/7"`},
		{"list with a key twice", "list", reply{200, "", strings.Replace(listed, "p/2+3", "p/1", 1), false}, "twice"},
		{"list without sizes", "list", reply{200, "", strings.Replace(listed, "<Size>7</Size>", "", 1), false}, "size"},
		{"list with a page behind it", "list", reply{200, "", listed + page, false}, "trailing data"},
		{"another list", "list", reply{200, "", strings.ReplaceAll(listed, "ListBucketResult", "ListAllMyBucketsResult"), false}, "unexpected body"},
		{"no list", "list", reply{200, "", "", false}, "unexpected body"},
	} {
		b := answering(t, tt.ServeHTTP)
		for op, call := range operations(t.Context(), b) {
			if !strings.Contains(" "+tt.ops+" ", " "+op+" ") {
				continue
			}
			want := storage.ErrUnavailable
			if op == "create" || op == "put" || op == "delete" {
				want = storage.ErrUncertain
			}
			switch err := call(); {
			case tt.want == "" && err != nil:
				t.Errorf("%s: %s: got %v, want success", tt.name, op, err)
			case tt.want != "" && (!errors.Is(err, want) || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("%s: %s: got %v, want %q and %q", tt.name, op, err, want, tt.want)
			}
		}
	}
}

// TestListedNames checks that names are decoded if the page states an encoding.
func TestListedNames(t *testing.T) {
	for _, tt := range []struct{ doc, want string }{
		{listed, "[{p/1 7} {p/2 3 0}]"},
		{strings.Replace(listed, "<EncodingType>url</EncodingType>", "", 1), "[{p/1 7} {p/2+3 0}]"},
		{strings.Replace(listed, "p/1", "p/4", 1), "[{p/2 3 0} {p/4 7}]"},
	} {
		got, err := answering(t, reply{200, "", tt.doc, false}.ServeHTTP).List(t.Context(), storage.ListQuery{Prefix: "p/"})
		if err != nil || fmt.Sprint(got.Keys) != tt.want {
			t.Errorf("got %v, %v, want %s of %s", got.Keys, err, tt.want, tt.doc)
		}
	}
}

// TestPartInAnotherOrder checks that a page whose last key is not the highest is rejected, because its
// successor cannot be requested.
func TestPartInAnotherOrder(t *testing.T) {
	doc := strings.Replace(listed, "<IsTruncated>false", "<NextContinuationToken>t</NextContinuationToken><IsTruncated>true", 1)
	for _, swapped := range []bool{false, true} {
		var want error
		if swapped {
			want = storage.ErrUnavailable
			doc = strings.Replace(doc, "p/1", "p/4", 1)
		}
		got, err := answering(t, reply{200, "", doc, false}.ServeHTTP).List(t.Context(), storage.ListQuery{Prefix: "p/"})
		if !errors.Is(err, want) || want == nil && !got.More {
			t.Errorf("keys out of order %v: got %+v, %v, want %v", swapped, got, err, want)
		}
	}
}

// TestETags checks that, once an ETag proves that the store returns digests, bytes with another digest
// are rejected, both read and sent.
func TestETags(t *testing.T) {
	digest := func(s string) string { return fmt.Sprintf("%x", md5.Sum([]byte(s))) }
	for _, tt := range []struct {
		name  string
		first string // Digest in the first response.
		then  reply
		want  error
	}{
		{"digest of other bytes", digest(object), reply{200, "ETag: " + digest("other"), object, false}, storage.ErrUnavailable},
		{"in quotes", digest(object), reply{200, `ETag: "` + digest("other") + `"`, object, false}, storage.ErrUnavailable},
		{"other bytes", digest(object), reply{200, "ETag: " + digest(object), strings.ToUpper(object), false}, storage.ErrUnavailable},
		{"encrypted by the store's key", digest(object), reply{200, "X-Amz-Server-Side-Encryption: AES256\nETag: " + digest("other"), object, false}, storage.ErrUnavailable},
		{"encrypted by another key", digest(object), reply{200, "X-Amz-Server-Side-Encryption: aws:kms\nETag: " + digest("other"), object, false}, nil},
		{"encrypted by the caller's key", digest(object), reply{200, "X-Amz-Server-Side-Encryption-Customer-Algorithm: AES256\nETag: " + digest("other"), object, false}, nil},
		{"stored in parts", digest(object), reply{200, "ETag: " + digest("other") + "-2", object, false}, nil},
		{"no digests", digest("other"), reply{200, "ETag: " + digest("another"), object, false}, nil},
	} {
		for _, op := range []string{"get", "open"} {
			n := 0
			b := answering(t, func(w http.ResponseWriter, r *http.Request) {
				if n++; n == 1 {
					reply{200, "ETag: " + tt.first, object, false}.ServeHTTP(w, r)
					return
				}
				tt.then.ServeHTTP(w, r)
			})
			call := operations(t.Context(), b)[op]
			if err := call(); err != nil {
				t.Fatalf("%s: first %s: got %v, want success", tt.name, op, err)
			}
			if err := call(); !errors.Is(err, tt.want) {
				t.Errorf("%s: %s: got %v, want %v", tt.name, op, err, tt.want)
			}
		}
	}
	b := answering(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		reply{200, "ETag: " + digest(string(bytes.ToLower(body))), "", false}.ServeHTTP(w, r)
	})
	for content, want := range map[string]error{object: nil, strings.ToUpper(object): storage.ErrUncertain} {
		if err := b.Create(t.Context(), "k", storage.Bytes([]byte(object))); err != nil {
			t.Fatal(err)
		}
		if err := b.Create(t.Context(), "k", storage.Bytes([]byte(content))); !errors.Is(err, want) {
			t.Errorf("create of %q: got %v, want %v", content, err, want)
		}
	}
}
