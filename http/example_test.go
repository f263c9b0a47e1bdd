package http_test

import (
	"fmt"
	"net/http/httptest"
	"strings"

	parleyhttp "github.com/parleyrun/parley/http"
)

// A program passes the result of actors.New; this example uses a stand-in in memory.
func ExampleNew() {
	runtime := newRuntime()
	handler, err := parleyhttp.New(runtime, runtime, []parleyhttp.Mount{
		{Path: "/agents/assistant", Agent: "assistant"},
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	request := httptest.NewRequest("POST", "/agents/assistant/order-4711", strings.NewReader(`{"kind":"user","body":"Where is it?"}`))
	request.Header.Set("Content-Type", "application/json")
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, request)
	fmt.Println(response.Code, response.Header().Get("Location"))
	// Output: 202 http://example.com/agents/assistant/order-4711
}
