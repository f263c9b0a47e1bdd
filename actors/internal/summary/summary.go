package summary

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/parleyrun/parley/conversation"
)

const (
	// BytesPerToken is the average of vendors' tokenizers for English text. It is used only before a
	// vendor has counted.
	BytesPerToken = 4
	imageBytes    = 4800
	maxOutcome    = 2000
)

// unit is indivisible for a cut: a delivery, or a turn with its outcomes and the notes after it.
type unit struct {
	exchange int
	turn     conversation.TurnID // "" for a delivery
	bytes    int
}

// Point is the position from which exchanges stay: from First on and, in that exchange, from Turn on or
// all if it is empty.
type Point struct {
	First int
	Turn  conversation.TurnID
}

// Plan returns the cut after which about keep tokens stay, and whether it omits anything. first is
// where the view begins: at that turn of list[0], or at its delivery if it is empty.
func Plan(list []conversation.Exchange, first conversation.TurnID, keep int) (Point, bool) {
	units := unitsOf(list, first)
	if len(units) < 2 {
		return Point{}, false
	}
	at, kept := len(units)-1, units[len(units)-1].bytes
	for at > 0 && (kept+units[at-1].bytes)/BytesPerToken <= keep {
		at--
		kept += units[at].bytes
	}
	if at == 0 || at == 1 && units[0].turn == "" && units[1].exchange == units[0].exchange {
		return Point{}, false // a delivery stays with its turns
	}
	return Point{First: units[at].exchange, Turn: units[at].turn}, true
}

func unitsOf(list []conversation.Exchange, first conversation.TurnID) []unit {
	var units []unit
	for i, x := range list {
		skip := i == 0 && first != ""
		if !skip {
			units = append(units, unit{exchange: i, bytes: deliveryBytes(x.Delivery)})
		}
		for _, t := range x.Turns {
			skip = skip && t.ID != first
			switch {
			case skip:
			case t.Note != "" && len(units) > 0:
				units[len(units)-1].bytes += len(t.Note)
			case t.Note == "":
				units = append(units, unit{exchange: i, turn: t.ID, bytes: turnBytes(t)})
			}
		}
	}
	return units
}

func deliveryBytes(d conversation.Delivery) int {
	n := len(d.Body) + imageBytes*len(d.Attachments)
	for k, v := range d.Attributes {
		n += len(k) + len(v)
	}
	return n
}

func turnBytes(t conversation.Turn) int {
	n := len(t.Note)
	for _, p := range t.Parts {
		n += len(p.Text)
		if t := p.Tool; t != nil {
			n += len(t.Name) + len(t.Input) + len(t.Output) + len(t.ErrorText) + imageBytes*len(t.Images)
		}
	}
	return n
}

// Bytes estimates the size of an exchange for a model, in bytes.
func Bytes(x conversation.Exchange) (n int) {
	for _, u := range unitsOf([]conversation.Exchange{x}, "") {
		n += u.bytes
	}
	return n
}

// Tokens estimates the context tokens of exchanges, from the turn first on.
func Tokens(list []conversation.Exchange, first conversation.TurnID) int {
	n := 0
	for _, u := range unitsOf(list, first) {
		n += u.bytes
	}
	return n / BytesPerToken
}

// Text renders the exchanges before a cut, in at most limit bytes.
func Text(list []conversation.Exchange, first conversation.TurnID, cut Point, limit int) string {
	var lines []string
	for i, x := range list[:min(cut.First+1, len(list))] {
		skip := i == 0 && first != ""
		last := i == cut.First
		if !skip && (!last || cut.Turn != "") {
			lines = append(lines, deliveryText(x.Delivery))
		}
		for _, t := range x.Turns {
			if last && (cut.Turn == "" || t.ID == cut.Turn) {
				break
			}
			skip = skip && t.ID != first
			if !skip {
				lines = append(lines, turnText(t)...)
			}
		}
	}
	return shortened(lines, limit)
}

func deliveryText(d conversation.Delivery) string {
	role := "User"
	if d.Kind == conversation.KindSignal {
		role = "Signal " + d.Type
	}
	text := role + ": " + d.Body
	if n := len(d.Attachments); n > 0 {
		text += fmt.Sprintf(" [%d images]", n)
	}
	return text
}

func turnText(t conversation.Turn) []string {
	var lines []string
	for _, p := range t.Parts {
		switch {
		case p.Tool != nil:
			lines = append(lines, fmt.Sprintf("Call %s: %s", p.Tool.Name, p.Tool.Input), outcome(p.Tool))
		case p.Kind == conversation.PartText:
			lines = append(lines, "Assistant: "+p.Text)
		}
	}
	return lines
}

func outcome(t *conversation.ToolCall) string {
	text := "Outcome: " + string(t.Output)
	if t.Failed {
		text = "Failed: " + t.ErrorText
	}
	if len(text) <= maxOutcome {
		return text
	}
	return valid(text[:maxOutcome]) + fmt.Sprintf(" [%d bytes omitted]", len(text)-maxOutcome)
}

// shortened joins lines and omits the oldest beyond limit.
func shortened(lines []string, limit int) string {
	const mark = "[earlier lines omitted]\n"
	text := strings.Join(lines, "\n")
	if len(text) <= limit {
		return text
	}
	text = text[len(text)-max(0, limit-len(mark)):]
	for text != "" && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return mark + text
}

func valid(s string) string {
	for s != "" {
		if r, n := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || n > 1 {
			return s
		}
		s = s[:len(s)-1]
	}
	return s
}
