package fakemodel_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/parleyrun/parley/internal/fakemodel"
)

// BenchmarkCall measures a response of 20 words, after one turn and after many.
func BenchmarkCall(b *testing.B) {
	for _, turns := range []int{1, 1000} {
		b.Run(fmt.Sprint("turns=", turns), func(b *testing.B) {
			body := history(turns)
			m := fakemodel.New(nil)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				w := httptest.NewRecorder()
				m.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", bytes.NewReader(body)))
				if w.Code != http.StatusOK {
					b.Fatal(w.Code, w.Body)
				}
			}
		})
	}
}

func history(turns int) []byte {
	call := map[string]any{"model": "m", "stream": true, "stream_options": map[string]any{"include_usage": true}}
	var messages []map[string]string
	for i := range turns {
		if i > 0 {
			messages = append(messages, map[string]string{"role": "assistant", "content": "w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 w12 w13 w14 w15 w16 w17 w18 w19 w20"})
		}
		messages = append(messages, map[string]string{"role": "user", "content": "tokens=20"})
	}
	call["messages"] = messages
	body, err := json.Marshal(call)
	if err != nil {
		panic(err)
	}
	return body
}
