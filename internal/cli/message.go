package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// maxMessageBytes is the default limit of a server.
const maxMessageBytes = 4 << 20

// ReadMessage returns the message argument of a command. "-" reads it from standard input, without
// trailing line ends. where is the remedy for an empty message.
func ReadMessage(message string, in io.Reader, where string) (string, error) {
	if message == "-" {
		b, err := io.ReadAll(io.LimitReader(in, maxMessageBytes+2))
		if err != nil {
			return "", fmt.Errorf("read the message from standard input: %w", err)
		}
		message = strings.TrimRight(string(b), "\r\n")
	}
	switch {
	case strings.TrimSpace(message) == "":
		return "", errors.New("the message is empty; " + where)
	case len(message) > maxMessageBytes:
		return "", fmt.Errorf("the message is longer than the limit of %d bytes", maxMessageBytes)
	case !utf8.ValidString(message):
		return "", errors.New("the message is not valid UTF-8; convert it first, for example with iconv")
	}
	return message, nil
}
