package attackrun_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/parleyrun/parley/internal/noderun"
)

const (
	// fatBytes is just below the limit of a message's text.
	fatBytes = 4_000_000
	// patience is the time an attacker waits for an answer, or for a node's timeout.
	patience = 25 * time.Second
)

// attack runs hostile clients, tools and models, and counts their hits.
type attack struct {
	orders
	tally
	http *http.Client
}

// kind is a kind of attack: one round of it, and the hits it must have at the end.
type kind struct {
	name  string
	round func(a *attack, ctx context.Context, r *rand.Rand, id string)
	hits  []string
}

// kinds returns all kinds. Each has a task that performs one round after the other.
func kinds() []kind {
	return []kind{
		{"fat queue", (*attack).fatQueue, []string{"fat message taken", "fat queue refused"}},
		{"endless text", (*attack).endlessText, []string{"endless text settled"}},
		{"endless arguments", (*attack).endlessArguments, []string{"endless arguments settled"}},
		{"never readers", (*attack).neverReaders, []string{"page never read", "stream never read", "reader disconnected"}},
		{"hostile data", (*attack).hostileData, []string{"hostile branches refused", "hostile items refused"}},
		{"stalled bodies", (*attack).stalledBodies, []string{"unauthenticated request refused", "stalled body ended"}},
		{"connections", (*attack).connections, []string{"connection held"}},
		{"followers", (*attack).followers, []string{"conversation followed"}},
		{"outcomes", (*attack).outcomes, []string{"huge outcomes settled", "huge errors settled"}},
		{"crowd", (*attack).crowd, []string{"too many calls settled", "many calls settled"}},
		{"loop", (*attack).loop, []string{"dispatched to itself"}},
	}
}

func (a *attack) hit(label string) { a.note(sight{Hit: label}) }

func (a *attack) unexpectedAnswer(label string, status int, body []byte) {
	_, answer, ok := bytes.Cut(body, []byte(`"details":"`))
	if !ok {
		answer = body
	}
	a.note(sight{Unexpected: fmt.Sprintf("%s: %d %.300s", label, status, answer)})
}

// run attacks until ctx ends. In a short run a kind ends after its required hits, so that the others
// get more of a small machine.
func (a *attack) run(ctx context.Context) {
	var tasks sync.WaitGroup
	for i, k := range only(a.Kinds) {
		tasks.Go(func() {
			r := rand.New(rand.NewPCG(a.Seed, uint64(i)))
			_ = noderun.Pause(ctx, time.Duration(r.Int64N(int64(a.Rest))))
			for round := 0; ctx.Err() == nil && (a.Long || len(a.missing([]kind{k})) > 0); round++ {
				k.round(a, ctx, r, fmt.Sprintf("%s-%d", strings.ReplaceAll(k.name, " ", "-"), round))
				_ = noderun.Pause(ctx, a.Rest/2+time.Duration(r.Int64N(int64(a.Rest))))
			}
		})
	}
	tasks.Wait()
	a.http.CloseIdleConnections()
}

// any returns host:port of one of the nodes.
func (a *attack) any(r *rand.Rand) string { return a.Nodes[r.IntN(len(a.Nodes))] }

// send sends a request and returns the status and the beginning of the answer; the status is 0 without
// an answer.
func (a *attack) send(ctx context.Context, method, url string, body []byte) (int, []byte) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.http.Do(req)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, answer
}

// post sends a message, retries it after a refusal, and reports whether it was admitted.
func (a *attack) post(ctx context.Context, r *rand.Rand, at, text string) bool {
	body := noderun.Message(fmt.Sprint(at, r.Uint64()), text)
	for range 20 {
		status, answer := a.send(ctx, http.MethodPost, "http://"+a.any(r)+at, body)
		if status == http.StatusAccepted {
			return true
		}
		if status != 0 {
			a.unexpectedAnswer("message to "+strings.Split(at, "/")[1], status, answer)
		}
		if noderun.Pause(ctx, 250*time.Millisecond) != nil {
			return false
		}
	}
	return false
}

// settles reads a conversation by event streams until n submissions are settled, and returns the lines
// of their settlements.
func (a *attack) settles(ctx context.Context, r *rand.Rand, at string, n int) (lines string) {
	ctx, cancel := context.WithTimeout(ctx, liveness)
	defer cancel()
	for ctx.Err() == nil {
		if lines = a.stream(ctx, "http://"+a.any(r)+at, n); strings.Count(lines, "\n") >= n {
			return lines
		}
		_ = noderun.Pause(ctx, 500*time.Millisecond)
	}
	return ""
}

// stream is settles over one connection, from the beginning.
func (a *attack) stream(ctx context.Context, url string, n int) (lines string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"?view=updates&live=sse&offset=-1", nil)
	if err != nil {
		return ""
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := a.http.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	frames := bufio.NewReaderSize(resp.Body, 64<<10)
	for strings.Count(lines, "\n") < n {
		line, err := frames.ReadBytes('\n')
		if err != nil {
			return lines
		}
		for _, chunk := range bytes.Split(line, []byte(`{"type":"submission-settled"`))[1:] {
			lines += string(chunk[:min(len(chunk), 600)]) + "\n"
		}
	}
	return lines
}

// fatQueue fills the queue of a conversation whose model hangs, and aborts it.
func (a *attack) fatQueue(ctx context.Context, r *rand.Rand, id string) {
	at := "/fat/" + id
	if !a.post(ctx, r, at, "hang=0") {
		return
	}
	text := strings.Repeat(fmt.Sprintf("%04d", r.IntN(10000)), fatBytes/4)
	body := []byte(`{"kind":"user","body":"` + text + `"}`)
	refused := 0
	for n := 0; n < 40 && refused < 3 && ctx.Err() == nil; n++ {
		status, answer := a.send(ctx, http.MethodPost, "http://"+a.any(r)+at, body)
		switch {
		case status == http.StatusAccepted:
			a.hit("fat message taken")
		case bytes.Contains(answer, []byte("bytes of queued messages")):
			a.hit("fat queue refused")
			refused++
		case status != 0:
			a.unexpectedAnswer("fat message", status, answer)
			_ = noderun.Pause(ctx, 250*time.Millisecond)
		}
	}
	a.send(ctx, http.MethodGet, "http://"+a.any(r)+at, nil)
	a.send(ctx, http.MethodPost, "http://"+a.any(r)+at+"/abort", nil)
}

// endlessText uses a model that streams text without end.
func (a *attack) endlessText(ctx context.Context, r *rand.Rand, id string) {
	a.endless(ctx, r, "text", id)
}

// endlessArguments uses a model that calls a tool with arguments without end.
func (a *attack) endlessArguments(ctx context.Context, r *rand.Rand, id string) {
	a.endless(ctx, r, "arguments", id)
}

func (a *attack) endless(ctx context.Context, r *rand.Rand, agent, id string) {
	at := "/" + agent + "/" + id
	if !a.post(ctx, r, at, "Go on.") {
		return
	}
	if lines := a.settles(ctx, r, at, 1); strings.Contains(lines, "model_output_too_long") {
		a.hit("endless " + agent + " settled")
	} else {
		a.unexpectedAnswer("endless "+agent, 0, []byte(lines))
	}
}

// dial connects to a node, with a small receive buffer.
func (a *attack) dial(r *rand.Rand) (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", a.any(r), patience)
	if err == nil {
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10) // The kernel must not buffer the answer.
		_ = conn.SetDeadline(time.Now().Add(2 * patience))
	}
	return conn, err
}

// neverReaders request a long conversation and read only the head of the answer.
func (a *attack) neverReaders(ctx context.Context, r *rand.Rand, id string) {
	at := "/fat/" + id
	for range 3 { // More than the kernel buffers of an answer.
		if !a.post(ctx, r, at, "note="+strings.Repeat("x", fatBytes)) {
			return
		}
	}
	if a.settles(ctx, r, at, 3) == "" {
		return
	}
	var readers sync.WaitGroup
	for i := range a.Size {
		conn, err := a.dial(r)
		if err != nil {
			continue
		}
		readers.Go(func() { a.neverRead(ctx, conn, at, i%2 == 0) })
	}
	readers.Wait()
}

func (a *attack) neverRead(ctx context.Context, conn net.Conn, path string, stream bool) {
	defer conn.Close()
	label := "page never read"
	if stream {
		label, path = "stream never read", path+"?view=updates&live=sse&offset=-1"
	}
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: node\r\nAuthorization: Bearer %s\r\n\r\n", path, token)
	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
	if err != nil {
		return
	}
	if resp.StatusCode != http.StatusOK {
		a.unexpectedAnswer(label, resp.StatusCode, nil)
		return
	}
	a.hit(label)
	_ = noderun.Pause(ctx, patience/2) // Longer than the node waits.
	for range 50 {                     // A closed socket answers with a reset.
		if _, err := conn.Write([]byte("x")); err != nil {
			a.hit("reader disconnected")
			return
		}
		if noderun.Pause(ctx, 100*time.Millisecond) != nil {
			return
		}
	}
}

// hostileData sends initial data that is expensive to validate.
func (a *attack) hostileData(ctx context.Context, r *rand.Rand, id string) {
	post := func(agent, data string) {
		status, answer := a.send(ctx, http.MethodPost, "http://"+a.any(r)+"/"+agent+"/"+id, []byte(`{"kind":"user","body":"x","initialData":`+data+`}`))
		switch status {
		case http.StatusBadRequest:
			a.hit("hostile " + agent + " refused")
		case 0:
		default:
			a.unexpectedAnswer("hostile "+agent, status, answer)
		}
	}
	post("branches", strings.Repeat("[", 36)+"1"+strings.Repeat("]", 36))
	post("items", "["+strings.Repeat("12345678,", 4<<20/9-8)+"0]")
}

// stalledBodies begin bodies and do not end them, with and without the token.
func (a *attack) stalledBodies(ctx context.Context, r *rand.Rand, id string) {
	var senders sync.WaitGroup
	for i := range a.Size {
		conn, err := a.dial(r)
		if err != nil {
			continue
		}
		senders.Go(func() { a.stall(ctx, conn, "/fat/"+id, i%2 == 0) })
	}
	senders.Wait()
}

func (a *attack) stall(ctx context.Context, conn net.Conn, path string, untrusted bool) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now().Add(time.Second)) })
	defer stop()
	with := token
	if untrusted {
		with = "wrong"
	}
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: node\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 200000000\r\n\r\n", path, with)
	_, _ = conn.Write(append([]byte(`{"kind":"user","body":"`), bytes.Repeat([]byte("x"), 1<<20)...))
	answers := bufio.NewReader(conn)
	resp, err := http.ReadResponse(answers, nil)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
	case untrusted && err == nil && resp.StatusCode == http.StatusUnauthorized:
		a.hit("unauthenticated request refused")
	case !untrusted && (err != nil || resp.StatusCode == http.StatusBadRequest):
		a.hit("stalled body ended")
	case err == nil:
		a.unexpectedAnswer("stalled body", resp.StatusCode, nil)
	}
}

// connections opens connections that send nothing, or half of a header.
func (a *attack) connections(ctx context.Context, r *rand.Rand, _ string) {
	var all []net.Conn
	for i := range 10 * a.Size {
		conn, err := a.dial(r)
		if err != nil {
			continue
		}
		if i%2 == 0 {
			fmt.Fprint(conn, "GET /fat/x HTTP/1.1\r\nHost:")
		}
		all = append(all, conn)
		a.hit("connection held")
	}
	_ = noderun.Pause(ctx, patience/2)
	for _, conn := range all {
		conn.Close()
	}
}

// followers follow many conversations concurrently.
func (a *attack) followers(ctx context.Context, r *rand.Rand, id string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var readers sync.WaitGroup
	for i := range 2 * a.Size {
		at := fmt.Sprintf("/fat/%s-%d", id, i)
		if !a.post(ctx, r, at, "note="+strings.Repeat("y", 200_000)) {
			break
		}
		base := "http://" + a.any(r)
		readers.Go(func() {
			if a.stream(ctx, base+at, 1) != "" {
				a.hit("conversation followed")
			}
			a.stream(ctx, base+at, 2) // The second settlement never comes.
		})
	}
	readers.Wait()
}

// outcomes uses tools whose output or error exceeds a batch.
func (a *attack) outcomes(ctx context.Context, r *rand.Rand, id string) {
	at := "/armed/" + id
	if !a.post(ctx, r, at, strings.Repeat(`tool=utter {"bytes":3000000} `, 8)+"then tokens=3") {
		return
	}
	if a.settles(ctx, r, at, 1) != "" {
		a.hit("huge outcomes settled")
	}
	at += "-wrong"
	if a.post(ctx, r, at, strings.Repeat(`tool=utter {"bytes":50000000,"wrong":true} `, 2)+"then tokens=3") && a.settles(ctx, r, at, 1) != "" {
		a.hit("huge errors settled")
	}
}

// crowd uses a model that calls more tools than allowed, and repeatedly as many as allowed.
func (a *attack) crowd(ctx context.Context, r *rand.Rand, id string) {
	at, call := "/armed/"+id, `tool=utter {"bytes":10} `
	if !a.post(ctx, r, at, strings.Repeat(call, 1000)) {
		return
	}
	if a.settles(ctx, r, at, 1) != "" {
		a.hit("too many calls settled")
	}
	at += "-many"
	if a.post(ctx, r, at, strings.Repeat(strings.Repeat(call, 100)+"then ", 10)+"tokens=3") && strings.Contains(a.settles(ctx, r, at, 1), "completed") {
		a.hit("many calls settled")
	}
}

// loop uses an agent that sends itself two messages for each that it gets, and aborts it. A fault in
// the first call may end the loop at once, so a round must have a time limit.
func (a *attack) loop(ctx context.Context, r *rand.Rand, id string) {
	at := "/armed/" + id
	brief, cancel := context.WithTimeout(ctx, liveness/4)
	defer cancel()
	if !a.post(ctx, r, at, `tool=spread {"messages":2}`) {
		return
	}
	if a.settles(brief, r, at, 20) != "" {
		a.hit("dispatched to itself")
	}
	a.send(ctx, http.MethodPost, "http://"+a.any(r)+at+"/abort", nil)
}
