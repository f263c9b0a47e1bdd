package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/outbox"
)

// api is a platform's.
type api struct {
	client *http.Client
	url    string
	token  channels.Secret
}

// mostAnswer bounds what is read of an answer.
const mostAnswer = 64 << 10

// call posts JSON, with an id for platforms that know one by its header, and reads JSON into an answer that is
// not nil. What an error says is stored: it has no URL, no token and nothing of the body.
func (a *api) call(ctx context.Context, path, id string, in, answer any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url+path, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL of the platform is none")
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("Authorization", "Bearer "+a.token.Reveal())
	req.Header.Set("Idempotency-Key", id)
	res, err := a.client.Do(req)
	if err != nil {
		if u := new(url.Error); errors.As(err, &u) {
			err = u.Err
		}
		return err
	}
	defer res.Body.Close()
	if err := outbox.Answered(res.StatusCode, res.Header, time.Now()); err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, mostAnswer))
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(text, answer)
}
