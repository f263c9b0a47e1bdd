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

// newProgram returns a program with middleware in front of the agent and an additional handler.
func newProgram() *parley.Program {
	hours := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "The desk is open from 6 to 23.") }
	return &parley.Program{
		Agents:     []*agent.Agent{newConcierge()},
		Middleware: []func(http.Handler) http.Handler{requireToken},
		Mounts:     map[string]http.Handler{"GET /hours": http.HandlerFunc(hours)},
	}
}

func requireToken(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Token") == "open-sesame" {
			next.ServeHTTP(w, r)
			return
		}
		parleyhttp.LeaveBody(w, r) // Do not wait for the unread body.
		http.Error(w, "missing or invalid X-Token", http.StatusUnauthorized)
	})
}

type guest struct { // initial data of a conversation
	Name string `json:"name" jsonschema:"what to call the guest"`
}

type clock struct { // output of the tool, and data for clients
	Zone string `json:"zone"`
	Time string `json:"time"`
}

type zone struct { // input of the tool
	Zone string `json:"zone,omitempty" jsonschema:"IANA time zone such as Europe/Berlin; UTC if omitted"`
}

func newConcierge() *agent.Agent {
	clocks := agent.NewDataWriter[clock]("clock", nil)
	now := func(ctx context.Context, in zone) (clock, error) {
		at, err := time.LoadLocation(in.Zone)
		if err != nil {
			return clock{}, err
		}
		c := clock{at.String(), time.Now().In(at).Format(time.Kitchen)}
		return c, clocks.Write(ctx, c)
	}
	return &agent.Agent{
		Name: "concierge", Model: "demo/parrot", Instructions: "You are the concierge of a hotel. Answer briefly.",
		Tools:       []agent.Tool{agent.NewTool("time", "Tells the time in a zone.", now, &agent.ToolOptions{Data: []agent.Data{clocks}})},
		InitialData: agent.SchemaFor[*guest](), // A pointer makes the initial data optional.
		Data:        []agent.Data{clocks},
	}
}
