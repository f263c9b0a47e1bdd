package discord_test

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/channels/channeltest"
	"github.com/parleyrun/parley/channels/discord"
)

const command = `{"id":"1","type":2,"token":"capability","guild_id":"G","channel_id":"C","data":{"name":"ask"}}`

var key = ed25519.NewKeyFromSeed([]byte("01234567890123456789012345678901"))

func prove(h http.Header, body []byte, at time.Time) {
	stamp := strconv.FormatInt(at.Unix(), 10)
	h.Set("X-Signature-Timestamp", stamp)
	h.Set("X-Signature-Ed25519", hex.EncodeToString(ed25519.Sign(key, append([]byte(stamp), body...))))
}

func made(t testing.TB, limit int64, callback func(context.Context, discord.Interaction) (any, error)) *discord.Channel {
	t.Helper()
	c, err := discord.New(&discord.Options{PublicKey: hex.EncodeToString(key.Public().(ed25519.PublicKey)), BodyLimit: limit, Interactions: callback})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// covers: channels/106 failures, channels/106 limit, channels/106 media_type, channels/106 order_of_checks
// covers: channels/106 proof, channels/106 results, channels/106 routing, channels/106 slow_sender
func TestDiscordSuite(t *testing.T) {
	channeltest.Run(t, channeltest.Subject{
		New: func(t testing.TB, callback channels.Call, limit int64) channels.Channel {
			return made(t, limit, func(ctx context.Context, _ discord.Interaction) (any, error) {
				result, err := callback(ctx)
				if result == nil && err == nil { // an interaction needs a response
					return channels.Respond(http.StatusOK, "", ""), nil
				}
				return result, err
			})
		},
		Path: "/interactions", MediaType: "application/json", Body: command,
		Pad:       func(body string, by int) string { return body + strings.Repeat(" ", by) },
		Prove:     func(h http.Header, body []byte) { prove(h, body, time.Now()) },
		Header:    "X-Signature-Ed25519",
		Malformed: []string{"x", strings.Repeat("0", 127), strings.Repeat("g", 128), "0x" + strings.Repeat("0", 128)},
		Forged:    []string{strings.Repeat("0", 128)},
		Broken:    map[string]string{"empty": "", "not JSON": "{", "no type": "{}", "type is text": `{"type":"2"}`, "type is 0": `{"type":0}`, "array": "[]"},
		Order: []channeltest.Fault{
			channeltest.MediaType, channeltest.MalformedLength, channeltest.Declared, channeltest.Missing, channeltest.Malformed,
			channeltest.Streamed, channeltest.Forged, channeltest.Broken,
		},
	})
}

func send(c *discord.Channel, body string, off time.Duration) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/interactions", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	prove(r.Header, []byte(body), time.Now().Add(off))
	w := httptest.NewRecorder()
	c.Route().ServeHTTP(w, r)
	return w
}

// covers: channels/122, channels/123, channels/124
func TestDiscordInteractions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []discord.Interaction
		c := made(t, 0, func(_ context.Context, in discord.Interaction) (any, error) {
			got = append(got, in)
			return map[string]int{"type": 5}, nil
		})
		if w := send(c, `{"id":"1","type":1}`, 0); w.Code != 200 || w.Body.String() != `{"type":1}` || len(got) != 0 {
			t.Errorf("ping: got %d %s", w.Code, w.Body)
		}
		if w := send(c, command, 0); w.Code != 200 || w.Body.String() != `{"type":5}` {
			t.Errorf("command: got %d %s", w.Code, w.Body)
		}
		if in := got[0]; in.ID != "1" || in.Type != 2 || in.GuildID != "G" || in.ChannelID != "C" || string(in.Native) != command {
			t.Errorf("got interaction %+v", in)
		}
		for off, want := range map[time.Duration]int{-300 * time.Second: 200, 300 * time.Second: 200, -301 * time.Second: 401, 301 * time.Second: 401} {
			if w := send(c, command, off); w.Code != want {
				t.Errorf("off by %v: got %d, want %d", off, w.Code, want)
			}
		}
		for name, result := range map[string]any{
			"nothing": nil, "nothing later": channels.Later(func(context.Context) (any, error) { return nil, nil }),
		} {
			silent := made(t, 0, func(context.Context, discord.Interaction) (any, error) { return result, nil })
			if w := send(silent, command, 0); w.Code != 500 {
				t.Errorf("%s: got %d", name, w.Code)
			}
		}
	})
}

// covers: channels/126
func TestDiscordOptions(t *testing.T) {
	hook := func(context.Context, discord.Interaction) (any, error) { return nil, nil }
	public := strings.Repeat("0", 64)
	for field, all := range map[string][]*discord.Options{
		"options": {nil}, "publicKey": {{Interactions: hook}, {Interactions: hook, PublicKey: public + "0"}, {Interactions: hook, PublicKey: strings.Repeat("g", 64)}},
		"interactions": {{PublicKey: public}}, "bodyLimit": {{PublicKey: public, Interactions: hook, BodyLimit: -1}},
	} {
		for _, opts := range all {
			var invalid *channels.InputError
			if _, err := discord.New(opts); !errors.As(err, &invalid) || invalid.Field != field {
				t.Errorf("got error %v, want one about %s", err, field)
			}
		}
	}
}

// covers: channels/125
func TestDiscordInstanceID(t *testing.T) {
	for want, ref := range map[string]discord.Ref{
		"discord:v1:guild:G:C": {Type: discord.TypeGuild, Guild: "G", Channel: "C"}, "discord:v1:dm:C": {Type: discord.TypeDM, Channel: "C"},
		"discord:v1:private:C": {Type: discord.TypePrivate, Channel: "C"},
	} {
		id, err := discord.InstanceID(ref)
		if err != nil || id != want {
			t.Errorf("got %q, %v, want %q", id, err, want)
		}
		if back, err := discord.ParseInstanceID(id); err != nil || back != ref {
			t.Errorf("got %+v, %v", back, err)
		}
	}
	for field, ref := range map[string]discord.Ref{
		"conversation.type": {Channel: "C"}, "conversation.guild": {Type: discord.TypeGuild, Channel: "C"}, "conversation.channel": {Type: discord.TypeDM}, "conversation": {Type: discord.TypeDM, Channel: "\xff"},
	} {
		var invalid *channels.InputError
		if _, err := discord.InstanceID(ref); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%+v: %v", ref, err)
		}
	}
	for _, id := range []string{"", "discord:v1:guild:C", "discord:v1:dm:G:C", "discord:v1:dm:", "discord:v1:other:C", "discord:v1:guild:G:C:x"} {
		var invalid *channels.InstanceIDError
		if ref, err := discord.ParseInstanceID(id); !errors.As(err, &invalid) {
			t.Errorf("%q: got %+v, %v", id, ref, err)
		}
	}
}
