package channels

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/parleyrun/parley/conversation"
)

// Respond returns an answer for a callback to return: a status, a media type and a body.
// Without a media type there is no body.
func Respond(status int, mediaType, body string) *http.Response {
	res := &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody}
	if mediaType != "" {
		res.Header.Set("Content-Type", mediaType)
		res.Body, res.ContentLength = io.NopCloser(bytes.NewReader([]byte(body))), int64(len(body))
	}
	return res
}

// answer writes the result of a callback. Of an error nothing is written.
func answer(w http.ResponseWriter, result any) error {
	switch v := result.(type) {
	case nil:
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(http.StatusOK)
		return nil
	case *http.Response:
		if v == nil {
			return answer(w, nil)
		}
		pass(w, v)
		return nil
	}
	body, err := conversation.EncodeJSON(result)
	if err != nil {
		return fmt.Errorf("encode result of callback: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body) // who has left gets nothing
	return nil
}

// pass writes an answer as it is.
func pass(w http.ResponseWriter, res *http.Response) {
	for name, values := range res.Header {
		w.Header()[name] = values
	}
	if res.ContentLength > 0 && res.Header.Get("Content-Length") == "" {
		w.Header().Set("Content-Length", strconv.FormatInt(res.ContentLength, 10))
	}
	status := res.StatusCode
	if status == 0 {
		status = http.StatusOK
	}
	w.WriteHeader(status)
	if res.Body == nil {
		return
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.Copy(w, res.Body); err != nil {
		panic(http.ErrAbortHandler) // half an answer is told from a whole one by a broken connection alone
	}
}
