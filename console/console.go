// Package console is the page on which people see and try the agents of a server: the build of the sources beside
// it, which is part of the program, and the requests that the page makes beside those of the protocol.
//
// The commands put [Page] and [API] before their handlers. Guarantees:
//
//  1. Only "/" and what is below [Prefix] is answered here; no mount and no id can be there. Everything else comes to
//     the next handler as it came.
//  2. The page loads nothing from elsewhere, runs no script but its own and is framed by nobody: its
//     Content-Security-Policy says so.
//  3. Requests below [Prefix] are answered to the page alone: not to pages of other origins, whatever CORS lets them
//     do elsewhere.
//
// Built with the tag noconsole the program has no page, see [Included]. To change the page see CONTRIBUTING.md.
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

// Prefix is what all paths of the console begin with, but for that of the page itself. No mount has a "+".
const Prefix = "/+console/"

// policy lets the page load what it was built with, show images that it has fetched itself, and ask this server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Included reports whether the program has a page.
func Included() bool { return built != nil }

// Page serves the page and its files, to whoever asks: they are those of every server. Without root the page is
// at [Prefix] alone, and "/" is next's. Without a page it is next.
func Page(next http.Handler, root bool) http.Handler {
	if !Included() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, Prefix)
		if name == "" || root && name == "/" {
			name = "index.html"
		}
		f := files()[name] // No name begins with the slash that other paths begin with.
		if f == nil || r.Method != http.MethodGet && r.Method != http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		f.serve(w, r)
	})
}

// file is a file of the page, as it is and compressed.
type file struct {
	plain, packed []byte
	kind, tag     string
	// lasting tells that a file of this name never changes.
	lasting bool
}

// files are those of the build, by their paths in it.
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
	_, _ = z.Write(content) // Memory takes it.
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

// harden sets what every answer of the console says to browsers.
func harden(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}
