package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	raceKeys = 16
	racers   = 32 // Concurrent creates of each key, and the limit of concurrent requests.

	// Names of checks that other code reports too.
	probeCreate     = "create"
	probeStartAfter = "list start-after"

	// Required guarantees, phrased to follow "Parley needs".
	needFresh  = "every read to show each write that was answered before it was sent"
	needCreate = "PUT with If-None-Match: * to store an object only where there is none, and to answer 412 everywhere else"
	needListed = "every listing to show each create and delete that was answered before it was sent"
	needList   = "ListObjectsV2 to return keys in order and to honour prefix, start-after and max-keys"
)

// probeCheck is one check of a store.
type probeCheck struct {
	name string
	need string
	// run returns the observation, a *probeFlaw if the store misbehaved, or the error of the request.
	run func(*prober, context.Context) (string, error)
}

// probeChecks are ordered so that each depends only on earlier ones: the first failure names the
// cause.
func probeChecks() []probeCheck {
	return []probeCheck{
		{"get after put", needFresh, (*prober).getAfterPut},
		{"overwrite", needFresh, (*prober).overwrite},
		{"get of a range", "GET to honour Range", (*prober).getRange},
		{probeCreate, needCreate, (*prober).createNew},
		{"create of an existing key", needCreate, (*prober).createExisting},
		{"create race", needCreate + ", also of many at once", (*prober).createRace},
		{"delete of an absent key", "a delete of a key without an object to be a success", (*prober).deleteAbsent},
		{"create after delete", "a delete to free its key at once", (*prober).createAfterDelete},
		{"list after create", needListed, (*prober).listAfterCreate},
		{"list after delete", needListed, (*prober).listAfterDelete},
		{"list prefix", needList, (*prober).listPrefix},
		{probeStartAfter, needList, (*prober).listStartAfter},
		{"list pages", needList, (*prober).listPages},
	}
}

// probeFlaw is misbehavior of a store.
type probeFlaw struct{ found string }

// Error implements error.
func (f *probeFlaw) Error() string { return f.found }

func flawf(format string, args ...any) error { return &probeFlaw{fmt.Sprintf(format, args...)} }

// prober sends the requests of a probe to one bucket. Several goroutines use it at once during races
// and cleanup.
type prober struct {
	bucket Bucket
	retry  *retry
	folder string // Prefix of all its objects.

	accepted atomic.Bool // The store has accepted a write.

	mu        sync.Mutex
	keys      map[string]bool // Keys that may be stored.
	uncertain map[string]bool // Keys with a write of unknown outcome, which may still land.
	took      map[string][]time.Duration
	requests  int
}

func newProber(b Bucket, r *retry, folder string) *prober {
	return &prober{
		bucket: b, retry: r, folder: folder,
		keys: map[string]bool{}, uncertain: map[string]bool{}, took: map[string][]time.Duration{},
	}
}

// key returns the key of an object of this probe.
func (p *prober) key(check string, n int) string { return fmt.Sprintf("%s%s/%02d", p.folder, check, n) }

func (p *prober) content(key string, n int) []byte { return fmt.Appendf(nil, "%s %d\n", key, n) }

// clear reports whether no write to key is pending, so that the store is responsible for the content
// found there.
func (p *prober) clear(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.uncertain[key]
}

// ask sends a request until it is answered or the attempts are used up.
func (p *prober) ask(ctx context.Context, op, key string, timeout time.Duration, send func(context.Context) error) error {
	for n := 0; ; n++ {
		attempt, cancel := context.WithTimeout(ctx, timeout)
		start := time.Now()
		err := send(attempt)
		took := time.Since(start)
		cancel()
		unknown := p.note(op, key, took, err)
		var e *Error
		errors.As(err, &e)
		switch {
		case err == nil:
			if op != "get" && op != "list" {
				p.accepted.Store(true)
			}
			return nil
		case e != nil && e.Status == http.StatusNotImplemented:
			return p.refusal(e)
		case !unknown && e != nil && e.Kind != nil && e.Kind != ErrConflict:
			if e.Kind == ErrRefused {
				return p.refusal(e)
			}
			return err
		}
		if n+1 < p.retry.Reads && p.retry.pause(ctx, n, []byte(key)) {
			continue
		}
		if e != nil && e.Kind == ErrConflict && ctx.Err() == nil {
			return flawf("it answered a %s and its %d retries with 409", op, n)
		}
		if answer, ok := errors.AsType[*AnswerError](err); ok && ctx.Err() == nil {
			return flawf("it answered a %s and its %d retries with invalid responses, the last: %s; %s", op, n, answer.Found, answer.Remedy)
		}
		return &Error{Op: op, Key: key, Kind: ErrUnavailable, Err: errors.Join(context.Cause(ctx), err)}
	}
}

// note records the duration of a request and reports whether its outcome is unknown.
func (p *prober) note(op, key string, took time.Duration, err error) bool {
	kind := kindOf(err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	p.took[op] = append(p.took[op], took)
	if kind == ErrUncertain {
		p.uncertain[key] = true
	}
	return kind == ErrUncertain || kind == ErrUnavailable
}

// refusal distinguishes a store that lacks a feature from one that rejects the caller or the bucket.
func (p *prober) refusal(e *Error) error {
	switch {
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden, e.Status == 0:
		return e
	case e.Status == http.StatusPreconditionFailed, e.Status == http.StatusMethodNotAllowed, e.Status == http.StatusNotImplemented,
		p.accepted.Load():
		found := fmt.Sprintf("it answered a %s with status %d%s", e.Op, e.Status, strings.TrimRight(" "+e.Code, " "))
		if e.Err != nil {
			found += ": " + e.Err.Error()
		}
		return flawf("%s", found)
	}
	return e
}

func (p *prober) stored(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys[key] = true
}

func (p *prober) put(ctx context.Context, key string, content []byte) error {
	p.stored(key)
	return p.ask(ctx, "put", key, p.retry.Attempt, func(ctx context.Context) error { return p.bucket.Put(ctx, key, Bytes(content)) })
}

// outcome is the result of a create.
type outcome int

const (
	won    outcome = iota // It was accepted.
	lost                  // The key was taken, and not by this create.
	either                // The key was taken, by this create or by another.
)

func (p *prober) create(ctx context.Context, key string, content []byte) (outcome, error) {
	p.stored(key)
	unknown := false // The answer to this create was lost.
	err := p.ask(ctx, "create", key, p.retry.Attempt, func(ctx context.Context) error {
		err := p.bucket.Create(ctx, key, Bytes(content))
		unknown = unknown || kindOf(err) == ErrUncertain
		return err
	})
	switch {
	case err == nil:
		return won, nil
	case errors.Is(err, ErrExists) && unknown:
		return either, nil
	case errors.Is(err, ErrExists):
		return lost, nil
	}
	return lost, err
}

// mustCreate creates an object under an absent key.
func (p *prober) mustCreate(ctx context.Context, key string, content []byte) error {
	o, err := p.create(ctx, key, content)
	switch {
	case err != nil:
		return err
	case o == lost:
		return flawf("it rejected a create of an absent key")
	case o == either:
		return p.mustGet(ctx, key, content, "a create")
	}
	return nil
}

// get returns nil if there is no object. Stored objects are never empty.
func (p *prober) get(ctx context.Context, key string) ([]byte, error) {
	var data []byte
	err := p.ask(ctx, "get", key, p.retry.Read, func(ctx context.Context) (err error) {
		data, err = p.bucket.Get(ctx, key)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return data, err
}

// mustGet expects the content of the last write; after is the kind of that write.
func (p *prober) mustGet(ctx context.Context, key string, want []byte, after string) error {
	got, err := p.get(ctx, key)
	switch {
	case err != nil:
		return err
	case got == nil:
		return flawf("a get right after %s of the same key found nothing", after)
	case !bytes.Equal(got, want):
		return flawf("a get right after %s of the same key found other bytes", after)
	}
	return nil
}

func (p *prober) remove(ctx context.Context, key string) error {
	return p.ask(ctx, "delete", key, p.retry.Attempt, func(ctx context.Context) error { return p.bucket.Delete(ctx, key) })
}

func (p *prober) list(ctx context.Context, q ListQuery) ([]string, bool, error) {
	var page ListPage
	err := p.ask(ctx, "list", q.Prefix, p.retry.Read, func(ctx context.Context) (err error) {
		page, err = p.bucket.List(ctx, q)
		return err
	})
	var keys []string
	for _, k := range page.Keys {
		keys = append(keys, k.Key)
	}
	return keys, page.More, err
}

// each calls do for every item, racers at a time, and returns one of the errors.
func (p *prober) each(items []string, do func(string) error) error {
	var wg sync.WaitGroup
	errs, next := make([]error, len(items)), make(chan int)
	for range min(racers, len(items)) {
		wg.Go(func() {
			for i := range next {
				errs[i] = do(items[i])
			}
		})
	}
	for i := range items {
		next <- i
	}
	close(next)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *prober) getAfterPut(ctx context.Context) (string, error) {
	const rounds = 6
	for i := range rounds {
		key := p.key("put", i)
		if err := p.put(ctx, key, p.content(key, 0)); err != nil {
			return "", err
		}
		if err := p.mustGet(ctx, key, p.content(key, 0), "a put"); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d puts seen by the next get", rounds), nil
}

func (p *prober) overwrite(ctx context.Context) (string, error) {
	const rounds = 3
	seen := 0
	for i := range rounds {
		key := p.key("overwrite", i)
		if err := p.put(ctx, key, p.content(key, 0)); err != nil {
			return "", err
		}
		sure := p.clear(key) // If not, the first put may land after the second.
		if err := p.put(ctx, key, p.content(key, 1)); err != nil {
			return "", err
		}
		if err := p.mustGet(ctx, key, p.content(key, 1), "a second put"); sure && err != nil {
			return "", err
		}
		seen += count(sure)
	}
	return fmt.Sprintf("%d of %d overwritten objects seen by the next get", seen, rounds), nil
}

func count(sure bool) int {
	if sure {
		return 1
	}
	return 0
}

func (p *prober) getRange(ctx context.Context) (string, error) {
	key := p.key("range", 0)
	content := p.content(key, 0)
	if err := p.put(ctx, key, content); err != nil {
		return "", err
	}
	const from, length = 3, 10
	var data []byte
	err := p.ask(ctx, "get", key, p.retry.Read, func(ctx context.Context) (err error) {
		data, err = p.bucket.GetRange(ctx, key, from, length)
		return err
	})
	var e *Error
	switch {
	case errors.Is(err, ErrNotFound), errors.As(err, &e) && e.Kind == ErrRefused && e.Status/100 <= 2, err == nil && !bytes.Equal(data, content[from:from+length]):
		return "", flawf("a get of a range of %d bytes right after the put returned other bytes", length)
	case err != nil:
		return "", err
	}
	return "honoured", nil
}

func (p *prober) createNew(ctx context.Context) (string, error) {
	const rounds = 3
	for i := range rounds {
		key := p.key("create", i)
		if err := p.mustCreate(ctx, key, p.content(key, 0)); err != nil {
			return "", err
		}
		if err := p.mustGet(ctx, key, p.content(key, 0), "a create"); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d created objects seen by the next get", rounds), nil
}

func (p *prober) createExisting(ctx context.Context) (string, error) {
	const rounds = 2
	for i := range rounds {
		key := p.key("existing", i)
		if err := p.mustCreate(ctx, key, p.content(key, 0)); err != nil {
			return "", err
		}
		o, err := p.create(ctx, key, p.content(key, 1))
		switch {
		case err != nil:
			return "", err
		case o == won:
			return "", flawf("it accepted a second create of the same key: If-None-Match is ignored")
		}
		if err := p.mustGet(ctx, key, p.content(key, 0), "a refused create"); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d second creates refused, nothing changed", rounds), nil
}

func (p *prober) createRace(ctx context.Context) (string, error) {
	var keys []string
	outcomes := map[string][]outcome{}
	for i := range raceKeys {
		key := p.key("race", i)
		o, err := p.race(ctx, key)
		if err != nil {
			return "", err
		}
		keys, outcomes[key] = append(keys, key), o
	}
	err := p.each(keys, func(key string) error { return p.checkRace(ctx, key, outcomes[key]) })
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d keys, %d creates of each at once, one winner each", raceKeys, racers), nil
}

// race creates one key many times at once, with different bytes.
func (p *prober) race(ctx context.Context, key string) ([]outcome, error) {
	outcomes, errs := make([]outcome, racers), make([]error, racers)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range racers {
		wg.Go(func() {
			<-start
			outcomes[i], errs[i] = p.create(ctx, key, p.content(key, i))
		})
	}
	close(start)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return outcomes, nil
}

// checkRace compares the answers of the creates with the stored object.
func (p *prober) checkRace(ctx context.Context, key string, outcomes []outcome) error {
	got, err := p.get(ctx, key)
	if err != nil {
		return err
	}
	winners, stored := 0, -1
	for i, o := range outcomes {
		if o == won {
			winners++
		}
		if bytes.Equal(got, p.content(key, i)) {
			stored = i
		}
	}
	switch {
	case winners > 1:
		return flawf("it accepted %d of %d concurrent creates of one key", winners, racers)
	case got == nil:
		return flawf("of %d concurrent creates of one key it accepted %d and stored none", racers, winners)
	case stored < 0:
		return flawf("after %d concurrent creates of one key it holds bytes that none of them sent", racers)
	case outcomes[stored] == lost, winners == 1 && outcomes[stored] != won:
		return flawf("of %d concurrent creates of one key it stored one that it had rejected", racers)
	}
	return nil
}

func (p *prober) deleteAbsent(ctx context.Context) (string, error) {
	if err := p.remove(ctx, p.key("absent", 0)); err != nil {
		return "", err
	}
	return "accepted", nil
}

func (p *prober) createAfterDelete(ctx context.Context) (string, error) {
	const rounds = 2
	seen := 0
	for i := range rounds {
		key := p.key("again", i)
		if err := p.mustCreate(ctx, key, p.content(key, 0)); err != nil {
			return "", err
		}
		if err := p.remove(ctx, key); err != nil {
			return "", err
		}
		if !p.clear(key) { // The first create may land now, and the delete after the second.
			continue
		}
		if got, err := p.get(ctx, key); err != nil {
			return "", err
		} else if got != nil {
			return "", flawf("a get right after a delete of the same key found the object")
		}
		if err := p.mustCreate(ctx, key, p.content(key, 1)); err != nil {
			return "", err
		}
		if err := p.mustGet(ctx, key, p.content(key, 1), "a create after a delete"); err != nil {
			return "", err
		}
		seen++
	}
	return fmt.Sprintf("%d of %d keys free after their delete", seen, rounds), nil
}

func (p *prober) listAfterCreate(ctx context.Context) (string, error) {
	const rounds = 4
	var want []string
	for i := range rounds {
		key := p.key("listed", i)
		if err := p.mustCreate(ctx, key, p.content(key, 0)); err != nil {
			return "", err
		}
		want = append(want, key)
		if err := p.mustList(ctx, ListQuery{Prefix: p.folder + "listed/"}, want, false, "a listing right after a create"); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d creates seen by the next listing", rounds), nil
}

func (p *prober) listAfterDelete(ctx context.Context) (string, error) {
	const rounds = 3
	seen := 0
	for i := range rounds {
		key := p.key("unlisted", i)
		if err := p.mustCreate(ctx, key, p.content(key, 0)); err != nil {
			return "", err
		}
		if err := p.remove(ctx, key); err != nil {
			return "", err
		}
		if !p.clear(key) {
			continue
		}
		if err := p.mustList(ctx, ListQuery{Prefix: key}, nil, false, "a listing right after a delete"); err != nil {
			return "", err
		}
		seen++
	}
	return fmt.Sprintf("%d of %d deletes seen by the next listing", seen, rounds), nil
}

// mustList expects a page with exactly these keys. what describes the page in errors.
func (p *prober) mustList(ctx context.Context, q ListQuery, want []string, wantMore bool, desc string) error {
	got, more, err := p.list(ctx, q)
	switch {
	case err != nil:
		return err
	case !slices.Equal(got, want):
		return flawf("%s had %d keys: %s; want %d: %s", desc, len(got), p.short(got), len(want), p.short(want))
	case more != wantMore:
		return flawf("%s: last page is %v, want %v", desc, !more, !wantMore)
	}
	return nil
}

// short formats a list of keys for people.
func (p *prober) short(keys []string) string {
	const most = 6
	cut := keys[:min(most, len(keys))]
	s := strings.ReplaceAll(strings.Join(cut, " "), p.folder, "")
	if len(cut) < len(keys) {
		s += " …"
	}
	return "[" + s + "]"
}

const orderKeys = 7

// ordered returns the keys of the listing checks, in order.
func (p *prober) ordered() []string {
	var keys []string
	for i := range orderKeys {
		keys = append(keys, p.key("order", i))
	}
	return keys
}

func (p *prober) listPrefix(ctx context.Context) (string, error) {
	// Neighbors on both sides share nearly all of the prefix.
	keys := append(p.ordered(), p.folder+"order-0", p.folder+"order0")
	err := p.each(keys, func(key string) error { return p.put(ctx, key, p.content(key, 0)) })
	if err != nil {
		return "", err
	}
	q := ListQuery{Prefix: p.folder + "order/"}
	if err := p.mustList(ctx, q, p.ordered(), false, "a listing of a prefix"); err != nil {
		return "", err
	}
	return "complete, in order, without neighbors", nil
}

func (p *prober) listStartAfter(ctx context.Context) (string, error) {
	keys, prefix := p.ordered(), p.folder+"order/"
	for _, q := range []struct {
		after string
		want  []string
	}{
		{keys[2], keys[3:]},       // An existing key,
		{keys[4] + "-", keys[5:]}, // an absent one
		{keys[6], nil},            // and the last one.
	} {
		desc := "a listing after " + p.short([]string{q.after})
		if err := p.mustList(ctx, ListQuery{Prefix: prefix, After: q.after}, q.want, false, desc); err != nil {
			return "", err
		}
	}
	return "honoured", nil
}

func (p *prober) listPages(ctx context.Context) (string, error) {
	const limit = 3
	q := ListQuery{Prefix: p.folder + "order/", Limit: limit}
	left := p.ordered()
	pages := 0
	for ; len(left) > 0; pages++ {
		n := min(limit, len(left))
		if err := p.mustList(ctx, q, left[:n], n < len(left), fmt.Sprintf("page %d of at most %d keys", pages+1, limit)); err != nil {
			return "", err
		}
		q.After, left = left[n-1], left[n:]
	}
	return fmt.Sprintf("%d keys on %d pages", orderKeys, pages), nil
}
