package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// fill decodes a value that fits the schema into dst, a pointer. The issues list the parts that the Go
// type cannot hold. Methods of the author's types run contained, under the name what.
func (s *Schema) fill(desc string, v, dst any) []Issue {
	issues, err := s.decodeTo(desc, v, dst)
	if err != nil {
		return []Issue{{Problem: err.Error()}}
	}
	return issues
}

// fits checks whether fill would succeed. The error is that of an author's method that did not return.
func (s *Schema) fits(v any) (issues []Issue, err error) {
	if s.typ == nil {
		return nil, nil
	}
	return s.decodeTo("decode a "+s.typ.String(), v, reflect.New(s.typ).Interface())
}

func (s *Schema) decodeTo(desc string, v, dst any) ([]Issue, error) {
	t := reflect.TypeOf(dst).Elem()
	if s.open {
		v = ownMembers(t, v)
	}
	err := decodeInput(desc, v, dst)
	if err == nil || crashed(err) {
		return nil, err
	}
	return []Issue{misfit(t, v, err)}, nil
}

// ownMembers returns a value without the members that are not fields. Package encoding/json would
// match a field whose name differs only in case.
func ownMembers(t reflect.Type, v any) any {
	p := at(t, true).elemOrSelf()
	if p.read() != plain {
		return v
	}
	switch v := v.(type) {
	case object:
		part := p.parts()
		var out object
		for _, m := range v {
			if inner, _ := part(m.name); inner != nil {
				out = append(out, member{m.name, ownMembers(inner, m.value)})
			} else if p.typ.Kind() != reflect.Struct {
				out = append(out, m)
			}
		}
		return out
	case []any:
		if inner, _ := p.parts()(""); inner != nil {
			v = slices.Clone(v)
			for i := range v {
				v[i] = ownMembers(inner, v[i])
			}
		}
		return v
	}
	return v
}

// elemOrSelf follows pointers.
func (p place) elemOrSelf() place {
	for p.typ.Kind() == reflect.Pointer {
		p = p.elem()
	}
	return p
}

// parts returns a function that finds the type of a member or item of values of a type and whether the
// member is quoted; nil if values have no parts.
func (p place) parts() func(name string) (t reflect.Type, quoted bool) {
	switch p.typ.Kind() {
	case reflect.Struct:
		byName := map[string]field{}
		for _, f := range fieldsOf(p.typ) {
			byName[f.name] = f
		}
		return func(name string) (reflect.Type, bool) { return byName[name].typ, byName[name].quoted }
	case reflect.Map, reflect.Slice, reflect.Array:
		return func(string) (reflect.Type, bool) { return p.typ.Elem(), false }
	}
	return func(string) (reflect.Type, bool) { return nil, false }
}

// misfit finds the place of a decoding error within a value.
func misfit(t reflect.Type, v any, err error) Issue {
	var path check
	for {
		p := at(t, true).elemOrSelf()
		inner, value, innerErr := p.descend(v, &path)
		if innerErr == nil {
			return Issue{Path: path.pointer(), Problem: shorten(misfitProblem(t, err))}
		}
		t, v, err = inner, value, innerErr
	}
}

// descend returns the part of a value that does not decode, and records its place; err is nil if there
// is no such part.
func (p place) descend(v any, path *check) (inner reflect.Type, value any, err error) {
	if p.read() != plain {
		return nil, nil, nil
	}
	switch v := v.(type) {
	case object:
		for _, m := range v {
			if decodeInput("value", object{m}, reflect.New(p.typ).Interface()) == nil {
				continue
			}
			path.enter(m.name)
			if inner, quoted := p.parts()(m.name); inner != nil && !quoted {
				return inner, m.value, decodeInput("value", m.value, reflect.New(inner).Interface())
			}
			break
		}
	case []any:
		inner, _ := p.parts()("")
		for i, item := range v {
			if inner == nil {
				break
			}
			if err := decodeInput("value", item, reflect.New(inner).Interface()); err != nil {
				path.enterItem(i)
				return inner, item, err
			}
		}
	}
	return nil, nil, nil
}

// misfitProblem describes the reason why a value does not decode into a type.
func misfitProblem(t reflect.Type, err error) string {
	var mismatch *json.UnmarshalTypeError
	var moment *time.ParseError
	switch {
	case errors.As(err, &mismatch):
		return fmt.Sprintf("got %s, which does not fit %s", mismatch.Value, mismatch.Type)
	case errors.As(err, &moment) && strings.HasPrefix(moment.Layout, "2006-01-02T"), errors.As(err, &moment) && moment.Layout == "":
		return formatProblem("date-time")
	}
	return fmt.Sprintf("does not fit %v: %v", t, err)
}

// formatProblem describes a text that violates a format.
func formatProblem(format string) string {
	hint := map[string]string{
		"date-time": "; use RFC 3339, such as 2006-01-02T15:04:05Z",
		"date":      "; use RFC 3339, such as 2006-01-02",
		"time":      "; use RFC 3339, such as 15:04:05Z",
	}[format]
	return "is not a valid " + format + hint
}
