package demo

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/parleyrun/parley/providers"
)

const helpText = `I am a demo model: offline, free, and always the same. I know these commands:

- help: this list
- time: call the tool "time" and repeat what it says
- think: reason before answering
- long N: count to N
- anything else: repeat it and count its words`

const timeTool = "time"

// answer streams the response to req.
func (s *emitter) answer(req providers.Request) {
	at, text := latestCommand(req.Messages)
	since := req.Messages[at+1:]
	for _, m := range slices.Backward(since) {
		if m.Role == providers.RoleTool {
			s.repeatResults(m.Parts)
			return
		}
	}
	if at < 0 {
		s.emit("Hello. Say help to see what I can do.")
		return
	}
	command, argument, _ := strings.Cut(text, " ")
	switch strings.ToLower(command) {
	case "long":
		if n, err := strconv.Atoi(strings.TrimSpace(argument)); err == nil {
			s.count(min(max(n, 1), MaxLong), reached(since))
			return
		}
	case "help":
		if argument == "" {
			s.emit(helpText)
			return
		}
	case "time":
		if argument == "" {
			s.askTime(req)
			return
		}
	case "think":
		s.think("The user wants to see me think. Thinking looks like this: slow, and in a part of its own.")
		s.emit("I thought about it. That was the reasoning; this is the answer.")
		return
	}
	if slices.ContainsFunc(since, func(m providers.Message) bool { return m.Role == providers.RoleAssistant }) {
		s.emit("Where was I? Oh yes:")
	}
	s.repeat(text)
}

func (s *emitter) repeat(text string) {
	words := len(strings.Fields(text))
	unit := "words"
	if words == 1 {
		unit = "word"
	}
	s.emit(fmt.Sprintf("You said: %s (%d %s)", text, words, unit))
}

func (s *emitter) askTime(req providers.Request) {
	for _, t := range req.Tools {
		if t.Name == timeTool {
			s.emit("Let me look at the clock.")
			s.call(fmt.Sprintf("demo_call_%d", len(req.Messages)), timeTool)
			return
		}
	}
	s.emit("I have no tool named time here, so I cannot tell.")
}

func (s *emitter) repeatResults(parts []providers.Part) {
	for _, p := range parts {
		r, ok := p.(providers.ToolResult)
		if !ok {
			continue
		}
		verb := "says"
		if r.IsError {
			verb = "failed"
		}
		s.emit(fmt.Sprintf("The tool %s %s: %s", r.Name, verb, textOf(r.Content)))
	}
}

func (s *emitter) count(to, from int) {
	if from >= to {
		s.emit("That is all of it.")
		return
	}
	for i := from + 1; i <= to && s.err == nil && !s.out.Stopped(); i++ {
		s.emit(strconv.Itoa(i))
	}
}

// note matches messages of the runtime to a model, such as a notice of an interruption.
var note = regexp.MustCompile(`(?s)^<(?:advisory>|[A-Za-z][^>]*\stype="[^"]*(?:interrupt|continu|abort)[^"]*").*>$`)

// latestCommand returns the last user message that is not a note, -1 if there is none. All later
// messages belong to the answer.
func latestCommand(messages []providers.Message) (at int, text string) {
	for i, m := range slices.Backward(messages) {
		if m.Role != providers.RoleUser {
			continue
		}
		text := strings.TrimSpace(textOf(m.Parts))
		if text != "" && !note.MatchString(text) {
			return i, text
		}
	}
	return -1, ""
}

// reached returns the last number of an interrupted count.
func reached(begun []providers.Message) int {
	n := 0
	for _, m := range begun {
		if m.Role != providers.RoleAssistant {
			continue
		}
		for _, word := range strings.Fields(textOf(m.Parts)) {
			if i, err := strconv.Atoi(word); err == nil {
				n = max(n, i)
			}
		}
	}
	return n
}
