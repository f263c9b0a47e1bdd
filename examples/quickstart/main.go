package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/parleyrun/parley"
	"github.com/parleyrun/parley/agent"
	parleyhttp "github.com/parleyrun/parley/http"
)

func main() { newProgram().Main() }

// newProgram puts middleware of its own before the agent, and a handler beside it.
func newProgram() *parley.Program {
	hours := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "The desk is open from 6 to 23.") }
	return &parley.Program{
		Agents:     []*agent.Agent{newConcierge()},
		Middleware: []func(http.Handler) http.Handler{requireToken},
		Mounts:     map[string]http.Handler{"GET /hours": http.HandlerFunc(hours)},
	}
}

// requireToken lets only callers with the token pass.
func requireToken(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Token") == "open-sesame" {
			next.ServeHTTP(w, r)
			return
		}
		parleyhttp.LeaveBody(w, r) // It will not be read.
		http.Error(w, "send your token as X-Token", http.StatusUnauthorized)
	})
}

type guest struct { // initialData of the first message
	Name string `json:"name" jsonschema:"what to call the guest"`
}

type clock struct { // what the tool answers, and clients may draw
	Zone string `json:"zone"`
	Time string `json:"time"`
}

type zone struct { // what the model says to it
	Zone string `json:"zone,omitempty" jsonschema:"IANA time zone such as Europe/Berlin; UTC if left out"`
}

// newConcierge defines the agent.
func newConcierge() *agent.Agent {
	shown := agent.NewDataWriter[clock]("clock", nil)
	tell := func(ctx context.Context, in zone) (clock, error) {
		at, err := time.LoadLocation(in.Zone)
		if err != nil {
			return clock{}, err
		}
		c := clock{at.String(), time.Now().In(at).Format(time.Kitchen)}
		return c, shown.Write(ctx, c)
	}
	return &agent.Agent{
		Name: "concierge", Model: "demo/parrot", Instructions: "You are the concierge of a hotel. Answer briefly.",
		Tools:       []agent.Tool{agent.NewTool("time", "Tells the time in a zone.", tell, &agent.ToolOptions{Data: []agent.Data{shown}})},
		InitialData: agent.SchemaFor[*guest](), // A pointer: a conversation may begin without.
		Data:        []agent.Data{shown},
	}
}
