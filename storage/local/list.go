package local

import (
	"context"
	"encoding/base64"
	"encoding/xml"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxListKeys is S3's limit of a page, and its default.
const maxListKeys = 1000

// listQuery is a ListObjectsV2 request.
type listQuery struct {
	prefix     string
	delimiter  string
	startAfter string
	token      string
	maxKeys    int
	encode     bool
	// from is the smallest key that may be listed, by start-after or by token.
	from string
}

// parseListQuery refuses parameters that it does not know.
func parseListQuery(values url.Values) (listQuery, error) {
	q := listQuery{maxKeys: maxListKeys}
	for name := range values {
		v := values.Get(name)
		if !utf8.ValidString(v) {
			return q, invalidArgument("%s is not valid UTF-8", name)
		}
		switch name {
		case "prefix":
			q.prefix = v
		case "delimiter":
			q.delimiter = v
		case "start-after":
			q.startAfter = v
		case "continuation-token":
			q.token = v
		case "max-keys":
			n, err := strconv.ParseUint(v, 10, 31)
			if err != nil {
				return q, invalidArgument("max-keys %q is no number of keys", v)
			}
			q.maxKeys = min(int(n), maxListKeys)
		case "encoding-type":
			if v != "url" {
				return q, invalidArgument("encoding-type %q is unknown", v)
			}
			q.encode = true
		case "list-type", "fetch-owner", "x-id":
		default:
			return q, notImplemented("parameter %q is not implemented", name)
		}
	}
	if q.startAfter != "" {
		q.from = after(q.startAfter)
	}
	if q.token != "" {
		var err error
		if q.from, err = decodeToken(q.token); err != nil {
			return q, err
		}
	}
	return q, nil
}

// A continuation token is the smallest key of the next page.
func encodeToken(from string) string { return base64.RawURLEncoding.EncodeToString([]byte(from)) }

func decodeToken(token string) (string, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) == 0 {
		return "", invalidArgument("the continuation token is not one of this store")
	}
	return string(b), nil
}

// after is the smallest key greater than key.
func after(key string) string { return key + "\x00" }

// afterPrefix is the smallest string greater than all that start with prefix, or
// empty if there is none.
func afterPrefix(prefix string) string {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			return prefix[:i] + string([]byte{prefix[i] + 1})
		}
	}
	return ""
}

// listPage is one page of a listing.
type listPage struct {
	contents []listEntry
	prefixes []listPrefix
	// next is where the next page starts; it counts if truncated.
	next      string
	truncated bool
}

type listEntry struct {
	Key          string
	LastModified string
	ETag         string
	Size         int64
	StorageClass string
}

type listPrefix struct {
	Prefix string
}

// listBody is the document that answers ListObjectsV2.
type listBody struct {
	XMLName               xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListBucketResult"`
	Name                  string
	Prefix                string
	Delimiter             string `xml:",omitempty"`
	StartAfter            string `xml:",omitempty"`
	ContinuationToken     string `xml:",omitempty"`
	NextContinuationToken string `xml:",omitempty"`
	EncodingType          string `xml:",omitempty"`
	KeyCount              int
	MaxKeys               int
	IsTruncated           bool
	Contents              []listEntry
	CommonPrefixes        []listPrefix
}

func (s *Store) listObjects(r *http.Request, values url.Values) (*response, error) {
	q, err := parseListQuery(values)
	if err != nil {
		return nil, err
	}
	page, err := s.collect(r.Context(), q)
	if err != nil {
		return nil, err
	}
	body := listBody{
		Name:              Bucket,
		Prefix:            q.name(q.prefix),
		Delimiter:         q.name(q.delimiter),
		StartAfter:        q.name(q.startAfter),
		ContinuationToken: q.token,
		KeyCount:          len(page.contents) + len(page.prefixes),
		MaxKeys:           q.maxKeys,
		IsTruncated:       page.truncated,
		Contents:          page.contents,
		CommonPrefixes:    page.prefixes,
	}
	if q.encode {
		body.EncodingType = "url"
	}
	if page.truncated {
		body.NextContinuationToken = encodeToken(page.next)
	}
	resp := newResponse(http.StatusOK)
	return resp, resp.setXML(body)
}

// name writes a key, or a part of one, as the request wants it.
func (q listQuery) name(s string) string {
	if !q.encode {
		return s
	}
	return strings.ReplaceAll(url.QueryEscape(s), "%2F", "/")
}

// collect makes a page. Keys with the delimiter after the prefix are not visited
// one by one: the scan goes on after their common prefix.
func (s *Store) collect(ctx context.Context, q listQuery) (listPage, error) {
	var page listPage
	if q.maxKeys == 0 {
		return page, nil
	}
	err := s.engine.scan(ctx, max(q.from, q.prefix), afterPrefix(q.prefix), func(key string, o object) (string, bool) {
		if len(page.contents)+len(page.prefixes) == q.maxKeys {
			page.truncated = true
			return "", false
		}
		if common := q.commonPrefix(key); common != "" {
			page.prefixes = append(page.prefixes, listPrefix{q.name(common)})
			page.next = afterPrefix(common)
			return page.next, true
		}
		page.contents = append(page.contents, listEntry{
			Key:          q.name(key),
			LastModified: o.modified.Format(isoTime),
			ETag:         o.etag(),
			Size:         o.size,
			StorageClass: "STANDARD",
		})
		page.next = after(key)
		return "", true
	})
	return page, err
}

// commonPrefix returns what stands for key in the listing if it is not itself.
func (q listQuery) commonPrefix(key string) string {
	if q.delimiter == "" {
		return ""
	}
	i := strings.Index(key[len(q.prefix):], q.delimiter)
	if i < 0 {
		return ""
	}
	return key[:len(q.prefix)+i+len(q.delimiter)]
}
