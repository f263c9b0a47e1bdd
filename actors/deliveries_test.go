package actors_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/channels/commerce"
	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/internal/sample"
)

// shops is the number of conversations with deliveries.
const shops = 20

// platform sends signed webhooks to the nodes that it considers alive, each until it gets a 200. It
// stands for the load balancer and the retries of a real platform.
type platform struct {
	t        *testing.T
	handlers []http.Handler

	mu    sync.Mutex
	queue []int // ids, each several times
	live  int   // number of live handlers, from the first on
	done  int
	again int
	kill  func()
	at    int // deliveries until it
}

const shopSecret = "of the app"

func newPlatform(t *testing.T, nodes []*node) *platform {
	p := &platform{t: t, live: len(nodes)}
	for _, n := range nodes {
		var c *commerce.Channel
		c, err := commerce.New(&commerce.Options{ClientSecret: shopSecret, Webhook: func(ctx context.Context, in commerce.Incoming) (any, error) {
			shop, _ := commerce.Text(commerce.Member(in.Payload, "shop"))
			_, err := channels.Deliver(ctx, n.rt, channels.Delivery{
				Channel: "commerce", Agent: "chat", InstanceID: "shop-" + shop, DeliveryID: c.Metadata(in.C).WebhookID, Text: in.RawBody,
			})
			return nil, err
		}})
		if err != nil {
			t.Fatal(err)
		}
		h, err := parleyhttp.New(n.rt, n.rt.Reader(), nil, &parleyhttp.Options{Channels: map[string]channels.Channel{"commerce": c}})
		if err != nil {
			t.Fatal(err)
		}
		p.handlers = append(p.handlers, h)
	}
	return p
}

// next returns a delivery and its node; ok is false when all are done.
func (p *platform) next(r *rand.Rand) (id int, to http.Handler, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		return 0, nil, false
	}
	id, p.queue = p.queue[0], p.queue[1:]
	if p.done == p.at {
		p.live = 1
		go p.kill()
	}
	p.done++
	return id, p.handlers[r.IntN(len(p.handlers))%p.live], true
}

// send sends the queue until each delivery is acknowledged.
func (p *platform) send(r *rand.Rand) {
	for attempt := 1; ; attempt++ {
		id, to, ok := p.next(r)
		if !ok {
			return
		}
		body := fmt.Sprintf(`{"id":%d,"shop":%d,"attempt":%d}`, id, id%shops, attempt)
		mac := hmac.New(sha256.New, []byte(shopSecret))
		mac.Write([]byte(body))
		req := httptest.NewRequest(http.MethodPost, "/channels/commerce/webhook", strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Commerce-Hmac-Sha256", base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		req.Header.Set("X-Commerce-Webhook-Id", fmt.Sprint("w", id))
		w := httptest.NewRecorder()
		to.ServeHTTP(w, req)
		if w.Code == http.StatusOK {
			continue
		}
		if w.Code != http.StatusServiceUnavailable {
			p.t.Errorf("delivery %d: got %d %s", id, w.Code, w.Body)
			return
		}
		p.mu.Lock()
		p.again++
		p.queue = append(p.queue, id)
		p.mu.Unlock()
	}
}

// TestDeliveriesAcrossCrash: duplicate webhooks with different attempt numbers, at two nodes of which
// one is killed, produce one submission each.
// covers: channels/96, channels/97
func TestDeliveriesAcrossCrash(t *testing.T) {
	if isolated(t) {
		return
	}
	ids := sample.Of(2000, 200)
	w := newWorld(t)
	nodes := w.together(2, setup{opts: agents(chatAgent()), model: emits(1)})
	p := newPlatform(t, nodes)
	const seed = 24
	r := rand.New(rand.NewPCG(seed, seed))
	for n := range 5 * ids {
		p.queue = append(p.queue, n%ids)
	}
	r.Shuffle(len(p.queue), func(i, j int) { p.queue[i], p.queue[j] = p.queue[j], p.queue[i] })
	ended := make(chan struct{})
	p.at, p.kill = 2*ids, func() {
		defer close(ended)
		nodes[1].cut()
		_ = nodes[1].stop()
	}
	var senders sync.WaitGroup
	for n := range 16 {
		own := rand.New(rand.NewPCG(seed, uint64(n)))
		senders.Go(func() { p.send(own) })
	}
	senders.Wait()
	<-ended
	total := 0
	for shop := range shops {
		at := chat(fmt.Sprint("shop-", shop))
		keys := map[string]bool{}
		admitted := only[*conversation.SubmissionAdmitted](w.records(at))
		for _, a := range admitted {
			if keys[a.Key] {
				t.Errorf("duplicate admission of %s", a.Key)
			}
			keys[a.Key] = true
		}
		total += len(admitted)
		w.untilSettled(at, len(admitted))
	}
	if total != ids {
		t.Errorf("got %d submissions, want %d", total, ids)
	}
	t.Logf("%d deliveries of %d ids, %d of them retries", p.done, ids, p.again)
}
