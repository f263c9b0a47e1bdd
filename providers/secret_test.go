package providers_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/openaicompletions"
)

// TestErrorsHideSecrets calls vendors that repeat the request in their errors.
// covers: providers/203
func TestErrorsHideSecrets(t *testing.T) {
	const key, header, prompt = "sk-very-secret-key", "hunter2hunter2", "You are a pirate."
	for name, tc := range map[string]struct {
		contentType, answer string
		status              int
		want                []string
	}{
		"body": {"application/json", `{"error":{"code":"bad_thing","message":"%s"}}`, 400,
			[]string{"invalid_request", "status 400", "request req_1", "bad_thing", " bytes"}},
		"code":   {"application/json", `{"error":{"code":"%s","message":"no"}}`, 401, []string{"auth", "status 401"}},
		"text":   {"text/plain", `%s`, 500, []string{"overloaded", "status 500"}},
		"stream": {"text/event-stream", "data: {\"error\":{\"code\":\"bad_thing\",\"message\":\"%s\"}}\n\n", 200, []string{"bad_thing", " bytes"}},
	} {
		t.Run(name, func(t *testing.T) {
			vendor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				echo := fmt.Sprintf("%s %s %s", r.Header.Get("Authorization"), r.Header.Get("X-Team-Token"), prompt)
				w.Header().Set("Content-Type", tc.contentType)
				w.Header().Set("X-Request-Id", "req_1")
				w.WriteHeader(tc.status)
				fmt.Fprintf(w, tc.answer, echo)
			}))
			defer vendor.Close()
			reg := providers.NewRegistry(nil)
			protocol := openaicompletions.New(nil)
			defer protocol.Close()
			reg.RegisterProtocol(openaicompletions.API, protocol)
			err := reg.RegisterProvider("local", providers.Registration{
				API: openaicompletions.API, BaseURL: vendor.URL, APIKey: key, Headers: map[string]string{"X-Team-Token": header, "X-Team": "agents"},
			})
			if err != nil {
				t.Fatal(err)
			}
			secrets := reg.Secrets()
			if !slices.Contains(secrets, key) || !slices.Contains(secrets, header) || slices.Contains(secrets, "agents") {
				t.Errorf("got secrets %q", secrets)
			}
			err = io.EOF
			for _, e := range reg.Stream(t.Context(), "local/m", providers.Request{}, providers.Options{}) {
				err = e
			}
			var failed *providers.Error
			if !errors.As(err, &failed) {
				t.Fatalf("got error %v", err)
			}
			everything := err.Error() + string(failed.Body) + fmt.Sprintf("%+v", failed.Err)
			var vendorErr *providers.VendorError
			if errors.As(err, &vendorErr) {
				everything += vendorErr.Code + vendorErr.Message
			}
			for _, secret := range []string{key, header} {
				if strings.Contains(everything, secret) {
					t.Errorf("got %q in %q", secret, everything)
				}
			}
			if strings.Contains(err.Error(), "pirate") {
				t.Errorf("error contains the request: %v", err)
			}
			if !strings.Contains(string(failed.Body), "[secret]") || !strings.Contains(string(failed.Body), prompt) {
				t.Errorf("got body %q", failed.Body)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got error %q, want %q in it", err, want)
				}
			}
		})
	}
}

// TestHideSecrets hides long secrets everywhere, short ones if isolated, and words as values.
func TestHideSecrets(t *testing.T) {
	secrets := []string{"parley", "hunter2", "hunter2-long", "short", "administrator", "sk-0123456789abcdef", "qzxkvjwpmnrt"}
	for _, test := range []struct{ text, want string }{
		{"", ""},
		{"xsk-0123456789abcdefx", "x[secret]x"},
		{"keyqzxkvjwpmnrt", "key[secret]"},
		{"hunter2-long and hunter2-longer", "[secret] and [secret]er"},
		{"a short secret", "a short secret"}, // shorter than MinSecretBytes

		{"refused hunter2, and hunter2.", "refused [secret], and [secret]."},
		{"hunter22 hunter2b xhunter2 hunter2.example.com", "hunter22 hunter2b xhunter2 hunter2.example.com"},
		{`{"password":"hunter2"}`, `{"password":"[secret]"}`},
		{"http://user:hunter2@example.com", "http://user:[secret]@example.com"},

		{"parley", "[secret]"},
		{"parley cluster authority", "parley cluster authority"},
		{"parley, a server", "parley, a server"},
		{"sign the parley certificate", "sign the parley certificate"},
		{"parley: the node of parley ended", "parley: the node of parley ended"},
		{"open /etc/parley/parley.yaml", "open /etc/parley/parley.yaml"},
		{"secretKey=parley region=eu", "secretKey=[secret] region=eu"},
		{`{"secretKey": "parley"}`, `{"secretKey": "[secret]"}`},
		{"{Bearer:parley}", "{Bearer:[secret]}"},
		{"Authorization: Bearer parley", "Authorization: Bearer [secret]"},
		{"incorrect key: parley", "incorrect key: [secret]"},
		{"incorrect key: parley.", "incorrect key: [secret]."},
		{"the note: parley is up", "the note: parley is up"},
		{"http://user:parley@example.com", "http://user:[secret]@example.com"},
		{"ask the administrator", "ask the administrator"},
		{"password=administrator", "password=[secret]"},
		{"äöü parley äöü", "äöü parley äöü"},
	} {
		if got := providers.HideSecrets(test.text, secrets); got != test.want {
			t.Errorf("hide %q in %q: got %q, want %q", secrets, test.text, got, test.want)
		}
	}
}

// TestKeyIDsAreNotSecrets: a header with the id of a key is not hidden.
func TestKeyIDsAreNotSecrets(t *testing.T) {
	reg := providers.NewRegistry(nil)
	reg.RegisterProtocol(openaicompletions.API, openaicompletions.New(nil))
	err := reg.RegisterProvider("local", providers.Registration{
		API: openaicompletions.API, BaseURL: "http://127.0.0.1:1", APIKey: "sk-very-secret-key",
		Headers: map[string]string{"X-Key-Id": "key-id-of-the-team", "X-Auth-Token": "token-of-the-team"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := reg.Secrets(); slices.Contains(got, "key-id-of-the-team") || !slices.Contains(got, "token-of-the-team") {
		t.Errorf("secrets of a provider with the headers X-Key-Id and X-Auth-Token: got %q, want the token and no id", got)
	}
}
