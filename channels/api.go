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

// API is where a platform takes replies.
type API struct {
	// URL is where its methods are, http or https without a query. It may be a secret.
	URL string
	// Token is sent as a bearer token, or, with a User, as the password. Empty: nothing is sent.
	Token Secret
	User  string
	// Client calls it. Default: one that ends after 15 s, which is less than the outbox waits.
	Client *http.Client
	// Refusals is how the platform words errors. Replies of a platform's package set it.
	Refusals Refusals
}

// maxAPIAnswer bounds what is read of an answer, in bytes.
const maxAPIAnswer = 64 << 10

// Check returns an error about the URL, without it, or nil.
func (a *API) Check() error {
	u, err := url.Parse(a.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || strings.HasSuffix(a.URL, "/") {
		return errors.New("must be an http or https URL without a query and a slash at its end")
	}
	return nil
}

// Call posts JSON, or a form if in is [url.Values], with an id for platforms that know one by the header
// Idempotency-Key, and reads JSON into an answer that is not nil. An error is one of [outbox.Target], made of the
// answer by [Refusals]: it has no URL, no token, and of the body the platform's code alone. The answer is read all the
// same. Redirects are not followed.
func (a *API) Call(ctx context.Context, path, id string, in, answer any) error {
	body, mediaType, err := encodeCall(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.URL+path, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL of the platform is none")
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
