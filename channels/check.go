package channels

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/parleyrun/parley/internal/contain"
)

var method = regexp.MustCompile(`^[A-Z]+$`)

// RoutesOf returns the routes of a channel after validating them. A route needs an upper-case method,
// a path of plain segments after a slash, a handler, and must be unique. A panic of Routes is an
// error.
func RoutesOf(c Channel) ([]Route, error) {
	routes, err := contain.Do("routes of the channel", func() ([]Route, error) { return c.Routes(), nil })
	switch {
	case err != nil:
		return nil, contain.Logged(err)
	case len(routes) == 0:
		return nil, errors.New("declares no route")
	}
	seen := map[string]bool{}
	for _, rt := range routes {
		id := rt.Pattern("")
		segments := strings.Split(strings.TrimPrefix(rt.Path, "/"), "/")
		switch {
		case !method.MatchString(rt.Method):
			return nil, fmt.Errorf("route %q: method must be in upper case", id)
		case !strings.HasPrefix(rt.Path, "/"), slices.Contains(segments, ""), slices.Contains(segments, "."), slices.Contains(segments, ".."),
			strings.ContainsAny(rt.Path, "?#{}"):
			return nil, fmt.Errorf("route %q: path must consist of plain segments, such as /webhook", id)
		case rt.Handler == nil:
			return nil, fmt.Errorf("route %q: has no handler", id)
		case seen[id]:
			return nil, fmt.Errorf("route %q: declared twice", id)
		}
		seen[id] = true
	}
	return routes, nil
}
