package channels_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/channels/messenger"
)

// Mount a bot that responds with a method call of the platform.
func Example() {
	bot, err := messenger.New(&messenger.Options{
		SecretToken: "of-the-registration",
		Webhook: func(_ context.Context, in messenger.Incoming) (any, error) {
			m, err := in.Update.Message()
			if m == nil || err != nil {
				return nil, err // the update has no conversation
			}
			id, err := messenger.InstanceID(m.Ref())
			fmt.Println("update", in.Update.ID, "for", id)
			return map[string]any{"method": "sendMessage", "chat_id": m.Chat.ID, "text": "Hello, " + m.From.FirstName}, err
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("POST /channels/messenger/webhook", bot.Route())

	r := httptest.NewRequest(http.MethodPost, "/channels/messenger/webhook",
		strings.NewReader(`{"update_id":7,"message":{"chat":{"id":42},"from":{"first_name":"Ada"},"text":"Hi"}}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Messenger-Bot-Api-Secret-Token", "of-the-registration")
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	fmt.Println(w.Code, w.Body)
	// Output:
	// update 7 for messenger:v1:regular:chat:42:thread::direct:
	// 200 {"chat_id":42,"method":"sendMessage","text":"Hello, Ada"}
}

// Define a custom channel that verifies a secret.
func ExampleEndpoint() {
	const secret = channels.Secret("shared with the platform")
	endpoint := channels.Endpoint{
		Method: http.MethodPost, Path: "/webhook", MediaTypes: []string{"application/json"},
		Accept: func(r *http.Request, body []byte) (channels.Call, error) {
			code, ok := channels.HexCode(channels.Header(r.Header, "X-Signature"), "v1=", sha256.Size)
			if !ok || !secret.Signs(code, sha256.New, body) {
				return nil, channels.Refuse(http.StatusUnauthorized, "signature")
			}
			return func(context.Context) (any, error) { return nil, nil }, nil
		},
	}
	r := httptest.NewRequest(http.MethodPost, "/webhook", strings.NewReader(`{}`))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	endpoint.Route().ServeHTTP(w, r)
	fmt.Println(w.Code, secret)
	// Output: 401 [secret]
}
