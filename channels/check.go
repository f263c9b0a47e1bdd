package channels

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var method = regexp.MustCompile(`^[A-Z]+$`)

// Check says what is wrong with the routes that a channel declares: each has a method in upper
// case, a path of plain segments behind a slash, a handler, and is there once.
func Check(c Channel) error {
	routes := c.Routes()
	if len(routes) == 0 {
		return errors.New("declares no route")
	}
	seen := map[string]bool{}
	for _, rt := range routes {
		id := rt.Pattern("")
		segments := strings.Split(strings.TrimPrefix(rt.Path, "/"), "/")
		switch {
		case !method.MatchString(rt.Method):
			return fmt.Errorf("route %q: its method is not one in upper case", id)
		case !strings.HasPrefix(rt.Path, "/"), slices.Contains(segments, ""), slices.Contains(segments, "."), slices.Contains(segments, ".."),
			strings.ContainsAny(rt.Path, "?#{}"):
			return fmt.Errorf("route %q: its path is not one of plain segments, such as /webhook", id)
		case rt.Handler == nil:
			return fmt.Errorf("route %q: has no handler", id)
		case seen[id]:
			return fmt.Errorf("route %q: is there twice", id)
		}
		seen[id] = true
	}
	return nil
}
