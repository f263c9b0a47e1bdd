package channels

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// API is a platform's HTTP API that accepts replies.
type API struct {
	// URL is the base of the methods: http or https, without a query. It may contain a secret.
	URL string
	// Token is sent as a bearer token, or as the password if User is set. If empty, no credentials are
	// sent.
	Token Secret
	User  string
	// Client sends the requests. The default has a timeout of 15 s, which is shorter than that of the
	// outbox.
	Client *http.Client
	// Refusals describes the platform's error responses. The reply constructors of the platform
	// packages set it.
	Refusals Refusals
}

// maxAPIAnswer limits how many bytes of a response are read.
const maxAPIAnswer = 64 << 10

// Check validates the URL. Its error does not contain the URL.
func (a *API) Check() error {
	u, err := url.Parse(a.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || strings.HasSuffix(a.URL, "/") {
		return errors.New("must be an http or https URL without a query or a trailing slash")
	}
	return nil
}

// Call posts in as JSON, or as a form if it is [url.Values], and decodes a JSON response into answer
// unless that is nil. The id is sent as the Idempotency-Key header. [Refusals] classifies the response
// into an error of [outbox.Target], which contains no URL, no token, and only the platform's code from
// the body. The answer is decoded in that case, too. Redirects are not followed.
func (a *API) Call(ctx context.Context, path, id string, in, answer any) error {
	body, mediaType, err := encodeCall(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.URL+path, bytes.NewReader(body))
	if err != nil {
		return errors.New("invalid platform URL")
	}
	req.Header.Set("Content-Type", mediaType)
	req.Header.Set("Idempotency-Key", id)
	switch {
	case a.User != "":
		req.SetBasicAuth(a.User, a.Token.Reveal())
	case a.Token != "":
		req.Header.Set("Authorization", "Bearer "+a.Token.Reveal())
	}
	client := http.Client{Timeout: 15 * time.Second}
	if a.Client != nil {
		client = *a.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, err := client.Do(req)
	if err != nil {
		if u := new(url.Error); errors.As(err, &u) {
			err = u.Err
		}
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAPIAnswer))
	refused := a.Refusals.classify(res, text, time.Now())
	if err == nil && answer != nil {
		err = json.Unmarshal(text, answer)
	}
	return cmp.Or(refused, err)
}

func encodeCall(in any) (body []byte, mediaType string, err error) {
	if form, ok := in.(url.Values); ok {
		return []byte(form.Encode()), "application/x-www-form-urlencoded", nil
	}
	body, err = json.Marshal(in)
	return body, "application/json; charset=utf-8", err
}
