package webhooks_test

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"hash"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bwmarrin/discordgo"
	gogithub "github.com/google/go-github/v84/github"
	goslack "github.com/slack-go/slack"
	stripewebhook "github.com/stripe/stripe-go/v85/webhook"
	twilioclient "github.com/twilio/twilio-go/client"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/channels/discord"
	"github.com/parleyrun/parley/channels/github"
	"github.com/parleyrun/parley/channels/slack"
	"github.com/parleyrun/parley/channels/stripe"
	"github.com/parleyrun/parley/channels/twilio"
)

const (
	channelSecret = "of-both-sides"
	account       = "AC0123"
	public        = "https://bots.example.com/channels/twilio"
)

var platformKey = ed25519.NewKeyFromSeed([]byte("01234567890123456789012345678901"))

func code(h func() hash.Hash, text string) []byte {
	mac := hmac.New(h, []byte(channelSecret))
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

var errRefused = errors.New("rejected")

// platform has a platform's signing, the verification of its Go module, and our channel.
type platform struct {
	path, mediaType, body string
	sign                  func(body, stamp string) map[string]string
	accepts               func(r *http.Request, body []byte) error // the module's verification; nil if the module signs
	channel               func(taken channels.Call) (channels.Channel, error)
}

func platforms() map[string]platform {
	return map[string]platform{
		"slack": {
			path: "/events", mediaType: "application/json",
			body: `{"type":"event_callback","team_id":"T","event_id":"E","event":{"type":"message","channel":"C","text":"Hi","ts":"1.2"}}`,
			sign: func(body, stamp string) map[string]string {
				return map[string]string{"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": "v0=" + hex.EncodeToString(code(sha256.New, "v0:"+stamp+":"+body))}
			},
			accepts: func(r *http.Request, body []byte) error {
				v, err := goslack.NewSecretsVerifier(r.Header, channelSecret)
				if err != nil {
					return err
				}
				if _, err := v.Write(body); err != nil {
					return err
				}
				return v.Ensure()
			},
			channel: func(taken channels.Call) (channels.Channel, error) {
				return slack.New(&slack.Options{SigningSecret: channelSecret, Events: func(ctx context.Context, _ slack.Event) (any, error) { return taken(ctx) }})
			},
		},
		"github": {
			path: "/webhook", mediaType: "application/json", body: `{"action":"opened","issue":{"number":7}}`,
			sign: func(body, _ string) map[string]string {
				return map[string]string{"X-GitHub-Event": "issues", "X-GitHub-Delivery": "d1", "X-Hub-Signature-256": "sha256=" + hex.EncodeToString(code(sha256.New, body))}
			},
			accepts: func(r *http.Request, _ []byte) error {
				_, err := gogithub.ValidatePayload(r, []byte(channelSecret))
				return err
			},
			channel: func(taken channels.Call) (channels.Channel, error) {
				return github.New(&github.Options{Secret: channelSecret, Webhook: func(ctx context.Context, _ github.Incoming) (any, error) { return taken(ctx) }})
			},
		},
		"discord": {
			path: "/interactions", mediaType: "application/json", body: `{"id":"1","type":2,"token":"x","guild_id":"G","channel_id":"C","data":{"name":"ask"}}`,
			sign: func(body, stamp string) map[string]string {
				return map[string]string{"X-Signature-Timestamp": stamp, "X-Signature-Ed25519": hex.EncodeToString(ed25519.Sign(platformKey, []byte(stamp+body)))}
			},
			accepts: func(r *http.Request, _ []byte) error {
				if !discordgo.VerifyInteraction(r, platformKey.Public().(ed25519.PublicKey)) {
					return errRefused
				}
				return nil
			},
			channel: func(taken channels.Call) (channels.Channel, error) {
				return discord.New(&discord.Options{
					PublicKey: hex.EncodeToString(platformKey.Public().(ed25519.PublicKey)),
					Interactions: func(ctx context.Context, _ discord.Interaction) (any, error) {
						_, err := taken(ctx)
						return map[string]int{"type": 5}, err
					},
				})
			},
		},
	}
}

// signers returns a platform that signs a form, and one whose module signs.
func signers() map[string]platform {
	return map[string]platform{
		"twilio": {
			path: "/webhook", mediaType: "application/x-www-form-urlencoded", body: "AccountSid=" + account + "&Body=Hi&From=1&MessageSid=SM&To=2",
			sign: func(body, _ string) map[string]string {
				fields := strings.NewReplacer("=", "", "&", "").Replace(body) // sorted, and without escapes
				return map[string]string{"X-Twilio-Signature": base64.StdEncoding.EncodeToString(code(sha1.New, public+"/webhook"+fields))}
			},
			accepts: func(r *http.Request, _ []byte) error {
				if err := r.ParseForm(); err != nil {
					return err
				}
				params := map[string]string{}
				for name := range r.PostForm {
					params[name] = r.PostForm.Get(name)
				}
				v := twilioclient.NewRequestValidator(channelSecret)
				if !v.Validate(public+"/webhook", params, r.Header.Get("X-Twilio-Signature")) {
					return errRefused
				}
				return nil
			},
			channel: func(taken channels.Call) (channels.Channel, error) {
				return twilio.New(&twilio.Options{
					AuthToken: channelSecret, AccountSID: account, PublicURL: public,
					Webhook: func(ctx context.Context, _ twilio.Incoming) (any, error) { return taken(ctx) },
				})
			},
		},
		"stripe": {
			path: "/webhook", mediaType: "application/json", body: `{"id":"evt_1","object":"event","type":"charge.succeeded","data":{"object":{}}}`,
			sign: func(body, _ string) map[string]string {
				signed := stripewebhook.GenerateTestSignedPayload(&stripewebhook.UnsignedPayload{Payload: []byte(body), Secret: channelSecret, Timestamp: time.Now()})
				return map[string]string{"Stripe-Signature": signed.Header}
			},
			channel: func(taken channels.Call) (channels.Channel, error) {
				return stripe.New(&stripe.Options{Secret: channelSecret, Webhook: func(ctx context.Context, _ stripe.Incoming) (any, error) { return taken(ctx) }})
			},
		},
	}
}

// TestModulesAgreeOnSignatures compares the verification of channels with the platforms' modules. A
// module that signs must be accepted, and a module that verifies must accept and reject the same
// requests.
func TestModulesAgreeOnSignatures(t *testing.T) {
	all := platforms()
	maps.Copy(all, signers())
	for name, p := range all {
		t.Run(name, func(t *testing.T) {
			signed := p.sign(p.body, strconv.FormatInt(time.Now().Unix(), 10))
			for how, body := range map[string]string{"as signed": p.body, "changed": p.body + " "} {
				request := func() *http.Request {
					r := httptest.NewRequest(http.MethodPost, p.path, strings.NewReader(body))
					r.Header.Set("Content-Type", p.mediaType)
					for name, value := range signed {
						r.Header.Set(name, value)
					}
					return r
				}
				want := how == "as signed"
				if p.accepts != nil {
					r := request()
					if err := p.accepts(r, []byte(body)); (err == nil) != want {
						t.Errorf("%s: got %v from the module", how, err)
					}
				}
				taken := false
				c, err := p.channel(func(context.Context) (any, error) { taken = true; return nil, nil })
				if err != nil {
					t.Fatal(err)
				}
				mux := http.NewServeMux()
				channels.Handle(mux, "", c)
				w := httptest.NewRecorder()
				if mux.ServeHTTP(w, request()); taken != want || (w.Code == http.StatusOK) != want {
					t.Errorf("%s: got %d, accepted %t", how, w.Code, taken)
				}
			}
		})
	}
}
