package clientcmd

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
)

func printJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// resultText formats a result: text as it is, any other value as JSON.
func resultText(result json.RawMessage) string {
	var text string
	if bytes.HasPrefix(result, []byte(`"`)) && json.Unmarshal(result, &text) == nil {
		return text
	}
	return string(result)
}

// printStatus prints the state of a run. Its lines fit a narrow terminal, except the input and output
// of the function.
func printStatus(out io.Writer, s *client.RunStatus) error {
	state := string(s.State)
	if s.Ended() {
		state += " in " + cli.Took(s.DurationMs)
	}
	lines := [][2]string{{"run", string(s.ID)}, {"workflow", s.Workflow}, {"status", state}, {"started", moment(s.StartedAt)}}
	if s.Ended() {
		lines = append(lines, [2]string{"ended", moment(s.EndedAt)})
	}
	lines = append(lines, [2]string{"input", fit(string(s.Input), cli.Width(out)-10)})
	switch {
	case s.Error != nil:
		lines = append(lines, [2]string{"error", s.Error.Message})
	case s.Result != nil:
		lines = append(lines, [2]string{"result", resultText(s.Result)})
	}
	for _, l := range lines {
		if _, err := fmt.Fprintf(out, "%-9s %s\n", l[0], l[1]); err != nil {
			return err
		}
	}
	return nil
}

func moment(t conversation.Time) string {
	return time.UnixMilli(int64(t)).UTC().Format("2006-01-02 15:04:05 UTC")
}

// fit truncates a text to width characters; 0 (no terminal) truncates nothing.
func fit(s string, width int) string {
	if width <= 0 {
		return s
	}
	return cli.OneLine(s, max(width, 10))
}

// eventPrinter prints the events of a run, grouped by day.
type eventPrinter struct {
	out   io.Writer
	json  bool
	width int // width of the terminal, 0 for none
	day   string
}

func (p *eventPrinter) event(e client.RunEvent) error {
	if p.json {
		_, err := fmt.Fprintf(p.out, "%s\n", e.JSON)
		return err
	}
	at := time.UnixMilli(int64(e.Timestamp)).UTC()
	if day := at.Format("2006-01-02 UTC"); day != p.day {
		p.day = day
		if _, err := fmt.Fprintln(p.out, day); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(p.out, "%s %s\n", at.Format("15:04:05"), fit(eventText(e), p.width-10))
	return err
}

// eventText describes an event.
func eventText(e client.RunEvent) string {
	var v struct {
		Workflow   string           `json:"workflowName"`
		Input      json.RawMessage  `json:"input"`
		Message    string           `json:"message"`
		Name       string           `json:"name"`
		Data       json.RawMessage  `json:"data"`
		Result     json.RawMessage  `json:"result"`
		Error      *client.RunError `json:"error"`
		DurationMs int64            `json:"durationMs"`
	}
	_ = json.Unmarshal(e.JSON, &v) // missing fields are omitted
	switch e.Type {
	case "run_start":
		return v.Workflow + " begins with " + string(v.Input)
	case "run_resume":
		return "resumed after a crash"
	case "log":
		return v.Message
	case "data":
		return dataText(v.Name, v.Data)
	case "run_end":
		if v.Error != nil {
			return cmp.Or(string(v.Error.Type), "failed") + " after " + cli.Took(v.DurationMs) + ": " + v.Error.Message
		}
		return "completed in " + cli.Took(v.DurationMs) + ": " + resultText(v.Result)
	}
	return e.Type + " " + string(e.JSON)
}

// dataText describes a wait of a run, or data that it has written.
func dataText(name string, data json.RawMessage) string {
	var wait struct{ Name, State string }
	if strings.HasPrefix(name, "wait-") && json.Unmarshal(data, &wait) == nil {
		switch wait.State {
		case "waiting":
			return "waits for " + wait.Name
		case "timeout":
			return wait.Name + " has not come in time"
		case "ended":
			return "stopped waiting for " + wait.Name + ""
		}
		return wait.Name + " has come"
	}
	return name + " " + string(data)
}
