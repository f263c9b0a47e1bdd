package awsauth_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/providers/bedrockconverse/awsauth"
)

// credentialServer issues temporary keys, one after the other, each after a second.
type credentialServer struct {
	asked    atomic.Int32
	lifetime time.Duration
	fails    atomic.Bool
	silent   atomic.Bool // it never responds
}

// RoundTrip implements http.RoundTripper.
func (l *credentialServer) RoundTrip(r *http.Request) (*http.Response, error) {
	n := l.asked.Add(1)
	wait := time.Second
	if l.silent.Load() {
		wait = time.Hour
	}
	select {
	case <-time.After(wait):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if l.fails.Load() {
		return nil, fmt.Errorf("failure %d", n)
	}
	answer := fmt.Sprintf(`{"AccessKeyId":"key %d","SecretAccessKey":"s","Token":"token %d"`, n, n)
	if l.lifetime != 0 {
		answer += fmt.Sprintf(`,"Expiration":%q`, time.Now().Add(l.lifetime).Format(time.RFC3339))
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(answer + "}"))}, nil
}

func (l *credentialServer) chain() *awsauth.Chain {
	return awsauth.NewChain(&awsauth.Options{
		Getenv: func(name string) string {
			return map[string]string{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/x"}[name]
		},
		Client: &http.Client{Transport: l},
	})
}

// together makes 100 concurrent calls and counts their results.
func together(ctx context.Context, c *awsauth.Chain) map[string]int {
	var mu sync.Mutex
	var wg sync.WaitGroup
	out := map[string]int{}
	for range 100 {
		wg.Go(func() {
			got, err := c.Credentials(ctx, "eu-west-1")
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				got.AccessKeyID = "error: " + err.Error()
			}
			out[got.AccessKeyID]++
		})
	}
	wg.Wait()
	return out
}

// TestRefreshedOnce: 100 concurrent calls make one request without credentials, shortly before expiry,
// and after expiry.
// covers: providers/161
func TestRefreshedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &credentialServer{lifetime: time.Hour}
		c := l.chain()
		expect := func(after time.Duration, asked int32, want map[string]int) {
			t.Helper()
			time.Sleep(after)
			got := together(t.Context(), c)
			if fmt.Sprint(got) != fmt.Sprint(want) || l.asked.Load() != asked {
				t.Errorf("got %v after %d questions, want %v after %d", got, l.asked.Load(), want, asked)
			}
		}
		expect(0, 1, map[string]int{"key 1": 100})
		expect(54*time.Minute, 1, map[string]int{"key 1": 100})
		// In the last 5 minutes one call refreshes, and the others use the cached credentials.
		expect(2*time.Minute, 2, map[string]int{"key 1": 99, "key 2": 1})
		expect(0, 2, map[string]int{"key 2": 100})
		expect(61*time.Minute, 3, map[string]int{"key 3": 100})
	})
}

// TestExpired: credentials that the vendor rejects are dropped once and refreshed by one call. Static
// credentials are kept.
func TestExpired(t *testing.T) {
	signedWith := func(token string) *http.Request {
		r := httptest.NewRequest(http.MethodPost, "https://vendor.example/", nil)
		awsauth.Sign(r, awsauth.Credentials{AccessKeyID: "k", SecretAccessKey: "s", SessionToken: token}, "eu-west-1", "bedrock", [32]byte{}, time.Now())
		return r
	}
	synctest.Test(t, func(t *testing.T) {
		l := &credentialServer{lifetime: time.Hour}
		c := l.chain()
		if c.Expired(signedWith("token 1")) {
			t.Error("got a refresh without a caller")
		}
		for step, tt := range []struct {
			token string
			again bool
			key   string
			asked int32
		}{{"token 0", true, "key 1", 1}, {"", false, "key 1", 1}, {"token 1", true, "key 2", 2}, {"token 1", true, "key 2", 2}, {"token 2", true, "key 3", 3}} {
			together(t.Context(), c)
			if again := c.Expired(signedWith(tt.token)); again != tt.again {
				t.Errorf("step %d: got a refresh: %v", step, again)
			}
			if got := together(t.Context(), c); got[tt.key] != 100 || l.asked.Load() != tt.asked {
				t.Errorf("step %d: got %v after %d questions", step, got, l.asked.Load())
			}
		}
	})
	env := map[string]string{"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t"}
	c := awsauth.NewChain(&awsauth.Options{Getenv: func(name string) string { return env[name] }})
	if got, err := c.Credentials(t.Context(), "eu-west-1"); err != nil || c.Expired(signedWith(got.SessionToken)) {
		t.Errorf("the environment is read again: %+v, %v", got, err)
	}
}

// TestFailingService: valid credentials are used while the service fails. After expiry all waiting
// calls share the error of one request.
// covers: providers/161
func TestFailingService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &credentialServer{lifetime: time.Hour}
		c := l.chain()
		together(t.Context(), c)
		l.fails.Store(true)
		time.Sleep(56 * time.Minute)
		for range 3 { // the first call makes a request, the others are in the pause
			if got := together(t.Context(), c); got["key 1"] != 100 || l.asked.Load() != 2 {
				t.Errorf("got %v after %d questions", got, l.asked.Load())
			}
		}
		time.Sleep(time.Minute)
		if got := together(t.Context(), c); got["key 1"] != 100 || l.asked.Load() != 3 {
			t.Errorf("after the pause: got %v after %d questions", got, l.asked.Load())
		}
		time.Sleep(time.Hour)
		got := together(t.Context(), c)
		if len(got) != 1 || l.asked.Load() != 4 {
			t.Errorf("after the end: got %v after %d questions", got, l.asked.Load())
		}
		for text := range got {
			if !strings.Contains(text, "failure 4") || strings.Contains(text, "/x") {
				t.Errorf("got error %q", text)
			}
		}
		l.fails.Store(false)
		if got := together(t.Context(), c); got["key 5"] != 100 || l.asked.Load() != 5 {
			t.Errorf("afterwards: got %v after %d questions", got, l.asked.Load())
		}
	})
}

// TestSilentService: a request times out, and a caller that leaves does not cancel it for others.
// covers: providers/161
func TestSilentService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &credentialServer{lifetime: time.Hour}
		l.silent.Store(true)
		c := l.chain()
		begin := time.Now()
		if _, err := c.Credentials(t.Context(), "eu-west-1"); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 10*time.Second {
			t.Errorf("got %v after %v", err, time.Since(begin))
		}
		gone := errors.New("the caller has left")
		ctx, leave := context.WithCancelCause(t.Context())
		var wg sync.WaitGroup
		for range 2 { // one requests, one waits
			wg.Go(func() {
				if _, err := c.Credentials(ctx, "eu-west-1"); !errors.Is(err, gone) {
					t.Errorf("canceled caller: got %v", err)
				}
			})
		}
		synctest.Wait()
		wg.Go(func() {
			if got, err := c.Credentials(t.Context(), "eu-west-1"); err != nil || got.AccessKeyID != "key 3" {
				t.Errorf("waiting caller: got %+v, %v", got, err)
			}
		})
		synctest.Wait()
		l.silent.Store(false)
		leave(gone)
		wg.Wait()
	})
}

// TestCredentialsWithoutExpiry: credentials without expiry, or already expired, are refreshed after a while.
func TestCredentialsWithoutExpiry(t *testing.T) {
	for lifetime, kept := range map[time.Duration]time.Duration{0: 10 * time.Minute, -time.Hour: 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			l := &credentialServer{lifetime: lifetime}
			c := l.chain()
			begin := time.Now()
			for l.asked.Load() < 2 {
				if _, err := c.Credentials(t.Context(), "eu-west-1"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
			}
			if got := time.Since(begin); got < kept || got > kept+5*time.Second {
				t.Errorf("that lifetime %v is kept for %v, want %v", lifetime, got, kept)
			}
		})
	}
}

// TestAnotherSource: credentials of one source are not used for another.
func TestAnotherSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, address := &credentialServer{lifetime: time.Hour}, "/x"
		c := awsauth.NewChain(&awsauth.Options{
			Getenv: func(name string) string {
				return map[string]string{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": address}[name]
			},
			Client: &http.Client{Transport: l},
		})
		for _, step := range []struct{ address, want string }{{"/x", "key 1"}, {"/x", "key 1"}, {"/y", "key 2"}, {"/y", "key 2"}} {
			address = step.address
			if got, err := c.Credentials(t.Context(), "eu-west-1"); err != nil || got.AccessKeyID != step.want {
				t.Errorf("%s: got %+v, %v", step.address, got, err)
			}
		}
	})
}
