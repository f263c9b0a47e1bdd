// Package console is the web page on which users inspect and try the agents of a server. It embeds the
// build of the sources in this folder, and serves the requests that the page makes in addition to the
// protocol.
//
// The commands put [Page] and [API] before their handlers. Guarantees:
//
//  1. Only "/" and paths below [Prefix] are served here; no mount and no id can be there. All other requests are
//     passed to the next handler unchanged.
//  2. The page loads nothing from other hosts, runs only its own script and cannot be framed: its
//     Content-Security-Policy forbids it.
//  3. Requests below [Prefix] are served to the page only, not to pages of other origins, whatever CORS allows them
//     elsewhere.
//
// A program built with the tag noconsole has no page, see [Included]. CONTRIBUTING.md explains how to
// change the page.
package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

// Prefix is the prefix of all paths of the console except the page itself. No mount has a "+".
const Prefix = "/+console/"

// policy lets the page load its own files, show images that it has fetched itself, and call this
// server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Included reports whether the program has a page.
func Included() bool { return built != nil }

// Page serves the page and its files to every client; they are the same for every server. Without root
// the page is only at [Prefix], and next serves "/". If the program has no page, Page returns next.
func Page(next http.Handler, root bool) http.Handler {
	if !Included() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, Prefix)
		if name == "" || root && name == "/" {
			name = "index.html"
		}
		f := files()[name] // File names have no leading slash, so other paths are not found.
		if f == nil || r.Method != http.MethodGet && r.Method != http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		f.serve(w, r)
	})
}

// file is a file of the page, plain and compressed.
type file struct {
	plain, packed []byte
	kind, tag     string
	// lasting reports whether the content of this name never changes.
	lasting bool
}

// files maps paths in the build to its files.
var files = sync.OnceValue(func() map[string]*file {
	all := map[string]*file{}
	err := fs.WalkDir(built, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(built, name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		all[name] = &file{
			plain: content, packed: pack(content), kind: mime.TypeByExtension(path.Ext(name)),
			tag: `"` + hex.EncodeToString(sum[:8]) + `"`, lasting: strings.HasPrefix(name, "a/"),
		}
		return nil
	})
	if err != nil {
		panic("read the embedded page: " + err.Error()) // It is in memory.
	}
	return all
})

func pack(content []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(content) // It writes to memory.
	_ = z.Close()
	return b.Bytes()
}

func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	harden(h)
	h.Set("Content-Security-Policy", policy)
	h.Set("Content-Type", f.kind)
	h.Set("ETag", f.tag)
	h.Set("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "no-cache")
	if f.lasting {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if r.Header.Get("If-None-Match") == f.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	content := f.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		content = f.packed
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", strconv.Itoa(len(content)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(content)
	}
}

// harden sets the security headers of every response of the console.
func harden(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}
