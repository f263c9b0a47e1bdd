package channels

import (
	"bytes"
	"encoding/json"
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

// encoded returns nil and responses unchanged, and encodes any other result of a callback as JSON.
func encoded(result any) (any, error) {
	switch v := result.(type) {
	case nil:
		return nil, nil
	case *http.Response:
		if v == nil {
			return nil, nil
		}
		return v, nil
	}
	body, err := conversation.EncodeJSON(result)
	if err != nil {
		return nil, fmt.Errorf("encode result of callback: %w", err)
	}
	return json.RawMessage(body), nil
}

// answer writes the [encoded] result of a callback.
func answer(w http.ResponseWriter, result any) {
	if res, ok := result.(*http.Response); ok {
		pass(w, res)
		return
	}
	body, _ := result.(json.RawMessage)
	if body != nil {
		w.Header().Set("Content-Type", "application/json")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body) // the client may be gone
}

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
		panic(http.ErrAbortHandler) // only a broken connection marks the response as incomplete
	}
}
