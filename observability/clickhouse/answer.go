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
	// beginBytes of a body suffice to tell an exception from a result, and answerBytes bounds
	// how much of an exception is read.
	beginBytes, answerBytes = 64, 16 << 10
)

// exceptionText is how a server begins an exception that it writes into a body.
var exceptionText = regexp.MustCompile(`(?s)^(?:__exception__\s+(?:\S+\s+)?)?Code: (\d+)[.,] (.*)`)

// answers returns the transport of the HTTP protocol, which turns exceptions in answers of
// status 200 into errors. The driver takes most of those for success: a server sends the
// status before it has stored an insert, and a proxy sends pages of its own.
func answers(t *http.Transport) (http.RoundTripper, error) { return &answerCheck{t}, nil }

type answerCheck struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper]. An insert is answered with an empty body, and
// everything else with the driver's own format or nothing.
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
	rest, _ := io.ReadAll(io.LimitReader(res.Body, answerBytes-int64(len(head)))) // It only explains more.
	_ = res.Body.Close()                                                          // The connection is not used again.
	if err != nil {
		return nil, fmt.Errorf("read answer of clickhouse: %w", err)
	}
	return nil, answerError(code, string(append(head, rest...)))
}

// restored is a body of which a part was read.
type restored struct {
	io.Reader
	io.Closer
}

// isPage reports whether an answer is a page for people, such as that of a login.
func isPage(h http.Header, head []byte) bool {
	return strings.HasPrefix(h.Get("Content-Type"), "text/html") || bytes.HasPrefix(bytes.TrimSpace(head), []byte("<"))
}

// answerError returns the [*ch.Exception] of an answer, or an error with the begin of its text.
func answerError(code, text string) error {
	if m := exceptionText.FindStringSubmatch(text); m != nil {
		code, text = m[1], m[2]
	}
	text = strings.ToValidUTF8(strings.TrimSpace(text), "�")
	if n, err := strconv.ParseInt(code, 10, 32); err == nil && n > 0 {
		return &ch.Exception{Code: int32(n), Name: "DB::Exception", Message: text}
	}
	return fmt.Errorf("clickhouse answered status 200 with %.200q; check that the address is that of the server, and what is in front of it", text)
}
