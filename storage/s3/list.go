package s3

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/parleyrun/parley/storage"
)

// listing is the response document of ListObjectsV2.
type listing struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	Prefix, StartAfter    string   // Those of the request, if the store returns them.
	EncodingType          string
	IsTruncated           *bool
	NextContinuationToken string
	Contents              []struct {
		Key  string
		Size *int64
	}
	CommonPrefixes []struct{ Prefix string }
}

// emptyListing replaces a page for minio-go; this package decodes the page itself.
const emptyListing = "<ListBucketResult></ListBucketResult>"

// acceptList decodes a page of a listing into c.page. It rejects an incomplete page or one of another
// request, because callers take missing keys for deleted.
func (c *call) acceptList(req *http.Request, resp *http.Response) error {
	if resp.StatusCode != http.StatusOK {
		return foreign(fmt.Sprintf("unexpected status %d of a listing", resp.StatusCode), remedyForeign)
	}
	body, err := readBody(resp, maxListBytes)
	if err != nil {
		return err
	}
	var doc listing
	d := xml.NewDecoder(bytes.NewReader(body))
	if err := d.Decode(&doc); err != nil {
		if strings.Contains(string(body[:min(len(body), 256)]), "<ListBucketResult") {
			return fmt.Errorf("decode listing: %w", err)
		}
		return inside(body)
	}
	if len(bytes.TrimSpace(body[d.InputOffset():])) > 0 {
		return foreign("trailing data after a listing", remedyForeign)
	}
	query := req.URL.Query()
	if err := doc.check(query); err != nil {
		return err
	}
	if c.page, err = doc.page(query.Get("prefix"), query.Get("start-after")); err != nil {
		return err
	}
	resp.Body = io.NopCloser(strings.NewReader(emptyListing))
	resp.ContentLength = int64(len(emptyListing))
	return nil
}

// check compares the document with the request.
func (l *listing) check(query url.Values) error {
	switch {
	case l.IsTruncated == nil:
		return foreign("listing without IsTruncated", remedyChanged)
	case *l.IsTruncated && l.NextContinuationToken == "":
		return foreign("truncated listing without NextContinuationToken", remedyChanged)
	}
	for name, stated := range map[string]string{"prefix": l.Prefix, "start-after": l.StartAfter} {
		asked := query.Get(name)
		if decoded, err := url.QueryUnescape(stated); stated != "" && stated != asked && (err != nil || decoded != asked) {
			return foreign(fmt.Sprintf("listing has %s %q, want %q", name, stated, asked), remedyChanged)
		}
	}
	return nil
}

// page returns the keys, which are above after, and the folders, which may begin below it, each in
// order. All begin with prefix.
func (l *listing) page(prefix, after string) (storage.ListPage, error) {
	page := storage.ListPage{More: *l.IsTruncated}
	for _, o := range l.Contents {
		key, err := l.name(o.Key, prefix)
		switch {
		case err != nil:
		case after != "" && key <= after:
			err = foreign(fmt.Sprintf("listing after %q has %q", after, key), remedyChanged)
		case o.Size == nil || *o.Size < 0:
			err = foreign(fmt.Sprintf("listing without the size of %q", key), remedyChanged)
		}
		if err != nil {
			return page, err
		}
		page.Keys = append(page.Keys, storage.ListedKey{Key: key, Size: *o.Size})
	}
	for _, p := range l.CommonPrefixes {
		folder, err := l.name(p.Prefix, prefix)
		if err != nil {
			return page, err
		}
		page.Prefixes = append(page.Prefixes, folder)
	}
	byKey := func(x, y storage.ListedKey) int { return strings.Compare(x.Key, y.Key) }
	if page.More && !(slices.IsSortedFunc(page.Keys, byKey) && slices.IsSorted(page.Prefixes)) {
		return page, foreign("listing is not in key order", "use a store that lists in order, see docs/buckets.md")
	}
	slices.Sort(page.Prefixes)
	slices.SortFunc(page.Keys, byKey)
	for i := 1; i < len(page.Keys); i++ {
		if page.Keys[i].Key == page.Keys[i-1].Key {
			return page, foreign(fmt.Sprintf("listing has %q twice", page.Keys[i].Key), remedyChanged)
		}
	}
	return page, nil
}

// name returns the decoded name of an entry.
func (l *listing) name(name, prefix string) (string, error) {
	if l.EncodingType == "url" {
		decoded, err := url.QueryUnescape(name)
		if err != nil {
			return "", foreign(fmt.Sprintf("listing has the name %q: %v", name, err), remedyChanged)
		}
		name = decoded
	}
	if name == "" || !strings.HasPrefix(name, prefix) {
		return "", foreign(fmt.Sprintf("listing of %q has %q", prefix, name), remedyChanged)
	}
	return name, nil
}
