package http_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/demo"
	"github.com/parleyrun/parley/storage/local"
)

// A custom server, without package parley. Serve runs the runtime, serves the handler once the runtime
// is ready, and stops both in the right order.
func ExampleServe() {
	store := local.NewMemory() // local.Open keeps the conversations in a folder, package s3 in a bucket
	defer store.Close()
	models := providers.NewRegistry(nil)
	if err := demo.Register(models, 0); err != nil {
		fmt.Println(err)
		return
	}
	runtime, err := actors.New(store, &actors.Options{
		Agents: []*agent.Agent{{Name: "clerk", Model: "demo/parrot", Instructions: "Be brief."}}, Providers: models,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler, err := parleyhttp.New(runtime, runtime.Reader(), []parleyhttp.Mount{{Path: "/agents/clerk", Agent: "clerk"}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background()) // signal.NotifyContext in a main
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- parleyhttp.Serve(ctx, listener, handler, runtime) }()

	resp, err := http.Post("http://"+listener.Addr().String()+"/agents/clerk/order-7", "application/json", strings.NewReader(`{"kind":"user","body":"help"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(resp.StatusCode)
	stop()
	fmt.Println(<-ended)
	// Output:
	// 202
	// <nil>
}

// Middleware gives a user access to the conversations whose id begins with the user's name. The body
// of a rejected request is not read: LeaveBody tells the server.
func ExampleLeaveBody() {
	users := map[string]string{"Bearer sesame": "ada"}
	guard := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			user := users[r.Header.Get("Authorization")]
			if user == "" || !strings.HasPrefix(r.URL.Path, "/agents/assistant/"+user+".") {
				parleyhttp.LeaveBody(w, r)
				http.Error(w, "it is not yours", http.StatusForbidden)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	runtime := newRuntime()
	handler, err := parleyhttp.New(runtime, runtime, []parleyhttp.Mount{{Path: "/agents/assistant", Agent: "assistant"}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range []string{"ada.trip", "bob.trip"} {
		r := httptest.NewRequest("POST", "/agents/assistant/"+id, strings.NewReader(`{"kind":"user","body":"Where to?"}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer sesame")
		w := httptest.NewRecorder()
		guard(handler).ServeHTTP(w, r)
		fmt.Println(id, w.Code)
	}
	// Output:
	// ada.trip 202
	// bob.trip 403
}
