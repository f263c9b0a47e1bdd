package clickhouse

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	ch "github.com/ClickHouse/clickhouse-go/v2"
)

const (
	exceptionCodeHeader = "X-ClickHouse-Exception-Code"
	// beginBytes of a body suffice to distinguish an exception from a result. answerBytes bounds the
	// bytes read of an exception.
	beginBytes, answerBytes = 64, 16 << 10
)

// exceptionText matches an exception that a server writes into a body.
var exceptionText = regexp.MustCompile(`(?s)^(?:__exception__\s+(?:\S+\s+)?)?Code: (\d+)[.,] (.*)`)

// answers returns the HTTP transport that turns exceptions in 200 responses into errors. The driver
// takes most of those for success: a server sends the status before it has stored an insert, and a
// proxy sends its own pages.
func answers(t *http.Transport) (http.RoundTripper, error) { return &answerCheck{t}, nil }

type answerCheck struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper]. The response to an insert has an empty body; any other has
// the driver's format or nothing.
func (c *answerCheck) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := c.next.RoundTrip(r)
	if err != nil || res.StatusCode != http.StatusOK {
		return res, err
	}
	n := int64(beginBytes)
	insert := strings.HasPrefix(r.URL.Query().Get("query"), "INSERT ")
	if insert {
		n = answerBytes
	}
	code := res.Header.Get(exceptionCodeHeader)
	head, err := io.ReadAll(io.LimitReader(res.Body, n))
	bad := code != "" || insert && len(bytes.TrimSpace(head)) > 0 || exceptionText.Match(head) || isPage(res.Header, head)
	if err == nil && !bad {
		res.Body = restored{io.MultiReader(bytes.NewReader(head), res.Body), res.Body}
		return res, nil
	}
	rest, _ := io.ReadAll(io.LimitReader(res.Body, answerBytes-int64(len(head)))) // A read error only loses details.
	_ = res.Body.Close()                                                          // The connection is not reused.
	if err != nil {
		return nil, fmt.Errorf("read answer of clickhouse: %w", err)
	}
	return nil, answerError(code, string(append(head, rest...)))
}

// restored is a body of which a part was read already.
type restored struct {
	io.Reader
	io.Closer
}

// isPage reports whether a response is an HTML page, such as a login.
func isPage(h http.Header, head []byte) bool {
	return strings.HasPrefix(h.Get("Content-Type"), "text/html") || bytes.HasPrefix(bytes.TrimSpace(head), []byte("<"))
}

// answerError returns the [*ch.Exception] of a response, or an error with the start of its text.
func answerError(code, text string) error {
	if m := exceptionText.FindStringSubmatch(text); m != nil {
		code, text = m[1], m[2]
	}
	text = strings.ToValidUTF8(strings.TrimSpace(text), "�")
	if n, err := strconv.ParseInt(code, 10, 32); err == nil && n > 0 {
		return &ch.Exception{Code: int32(n), Name: "DB::Exception", Message: text}
	}
	return fmt.Errorf("clickhouse returned status 200 with %.200q; check the address of the server and any proxy in front of it", text)
}
