package agent

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"maps"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// apply reports whether a value fits a schema and records issues. If marks is not nil, the evaluated
// members or items are marked; the marks are valid only if the value fits. Deeper is set if the value
// is a part of the value of the surrounding schema.
func (c *check) apply(s *jsonschema.Schema, v any, marks []bool, deeper bool) bool {
	if !c.spend(1) {
		return false
	}
	if s.Bool != nil {
		return *s.Bool || c.fail(&kind.FalseSchema{})
	}
	if len(c.stack) >= MaxSchemaDepth {
		c.err = &SchemaBoundError{"goes through the schema in a way that is nested too deep to be checked; nest it less"}
		return false
	}
	if !deeper && c.circular(s) {
		return c.add("meets a schema that refers to itself without an end")
	}
	c.stack = append(c.stack, frame{s, deeper})
	defer func() { c.stack = c.stack[:len(c.stack)-1] }()
	if !c.shape(s, v) {
		return false
	}
	marks, ok := c.marksFor(s, v, marks)
	if !ok {
		return false
	}
	if s.Ref != nil {
		ok = c.applySelf(s.Ref, v, marks)
		if s.DraftVersion < 2019 {
			return ok
		}
	}
	ok = c.typed(s, v, marks) && ok
	ok = (ok || !c.full()) && c.dynamic(s, v, marks) && ok
	ok = (ok || !c.full()) && c.conditions(s, v, marks) && ok
	ok = (ok || !c.full()) && c.unevaluated(s, v, marks) && ok
	return ok && c.err == nil
}

// applySelf applies another schema to the same value.
func (c *check) applySelf(s *jsonschema.Schema, v any, marks []bool) bool {
	if marks == nil {
		return c.apply(s, v, nil, false)
	}
	own := make([]bool, len(marks))
	if !c.spend(len(marks)/64) || !c.apply(s, v, own, false) {
		return false
	}
	for i, marked := range own {
		marks[i] = marks[i] || marked
	}
	return true
}

// circular reports whether the schema is already being applied to this value.
func (c *check) circular(s *jsonschema.Schema) bool {
	for i := len(c.stack) - 1; i >= 0; i-- {
		if c.stack[i].schema == s {
			return true
		}
		if c.stack[i].deeper {
			break
		}
		if i%8 == 0 && !c.spend(1) {
			return false
		}
	}
	return false
}

// marksFor returns marks if the caller or the schema needs them.
func (c *check) marksFor(s *jsonschema.Schema, v any, marks []bool) ([]bool, bool) {
	n := 0
	switch v := v.(type) {
	case object:
		if s.UnevaluatedProperties != nil {
			n = len(v)
		}
	case []any:
		if s.UnevaluatedItems != nil {
			n = len(v)
		}
	}
	if marks == nil && n > 0 {
		marks = make([]bool, n)
	}
	return marks, c.spend(n / 64)
}

// shape checks type, const, enum and format; after a failure the value is not checked further.
func (c *check) shape(s *jsonschema.Schema, v any) bool {
	if n, ok := v.(json.Number); ok && !c.spend(len(n)/32) {
		return false
	}
	if s.Types != nil && !s.Types.IsEmpty() {
		if got, bits := typeOf(v); int(*s.Types)&int(bits) == 0 {
			return c.fail(&kind.Type{Got: got, Want: c.wanted(s.Types)})
		}
	}
	if s.Const != nil && !same(v, *s.Const) {
		return c.fail(&kind.Const{Want: *s.Const})
	}
	if s.Enum != nil && !c.among(v, s.Enum.Values) {
		return c.fail(&kind.Enum{Want: s.Enum.Values})
	}
	text, ok := v.(string)
	if s.Format == nil || !ok {
		return true
	}
	cost := len(text) / 16
	if s.Format.Name == "regex" { // Compiling validates it.
		cost = len(text) * 16
	}
	if !c.spend(cost) {
		return false
	}
	return s.Format.Validate(text) == nil || c.fail(&kind.Format{Want: s.Format.Name})
}

// wanted lists the accepted types for an issue, unless issues are suppressed.
func (c *check) wanted(t *jsonschema.Types) []string {
	if c.full() {
		return nil
	}
	return t.ToStrings()
}

func (c *check) among(v any, values []any) bool {
	return c.spend(len(values)/4) && slices.ContainsFunc(values, func(other any) bool { return same(v, other) })
}

// typeOf returns the type of a value and the schema types that include it.
func typeOf(v any) (name string, bits jsonschema.Types) {
	switch v := v.(type) {
	case nil:
		name = "null"
	case bool:
		name = "boolean"
	case json.Number:
		name = "number"
		if !strings.ContainsAny(string(v), ".eE") || rational(v).IsInt() {
			bits.Add("integer")
		}
	case string:
		name = "string"
	case []any:
		name = "array"
	case object:
		name = "object"
	}
	bits.Add(name)
	return name, bits
}

// typed checks the keywords of the value's type.
func (c *check) typed(s *jsonschema.Schema, v any, marks []bool) bool {
	switch v := v.(type) {
	case object:
		return c.object(s, v, marks)
	case []any:
		return c.array(s, v, marks)
	case string:
		return c.text(s, v)
	case json.Number:
		return c.number(s, v)
	}
	return true
}

func (c *check) object(s *jsonschema.Schema, o object, marks []bool) bool {
	if !c.spend(len(o) / 8) {
		return false
	}
	ok := true
	if s.MinProperties != nil && len(o) < *s.MinProperties {
		ok = c.fail(&kind.MinProperties{Got: len(o), Want: *s.MinProperties})
	}
	if s.MaxProperties != nil && len(o) > *s.MaxProperties {
		ok = c.fail(&kind.MaxProperties{Got: len(o), Want: *s.MaxProperties})
	}
	if missing := c.missing(o, s.Required); len(missing) > 0 && !c.stored {
		ok = c.fail(&kind.Required{Missing: missing})
	}
	ok = c.dependents(s, o, marks) && ok
	return c.members(s, o, marks) && ok
}

// missing returns the names that the object lacks.
func (c *check) missing(o object, names []string) []string {
	var missing []string
	c.spend(len(names) / 8)
	for _, name := range names {
		if _, ok := o.find(name); !ok {
			missing = append(missing, name)
		}
	}
	return missing
}

// dependents checks the keywords that depend on present members.
func (c *check) dependents(s *jsonschema.Schema, o object, marks []bool) bool {
	ok := true
	for _, name := range slices.Sorted(maps.Keys(s.Dependencies)) {
		if _, has := o.find(name); !has {
			continue
		}
		switch needs := s.Dependencies[name].(type) {
		case []string:
			if missing := c.missing(o, needs); len(missing) > 0 {
				ok = c.fail(&kind.Dependency{Prop: name, Missing: missing})
			}
		case *jsonschema.Schema:
			ok = c.applySelf(needs, o, marks) && ok
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.DependentRequired)) {
		if _, has := o.find(name); has {
			if missing := c.missing(o, s.DependentRequired[name]); len(missing) > 0 {
				ok = c.fail(&kind.DependentRequired{Prop: name, Missing: missing})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.DependentSchemas)) {
		if _, has := o.find(name); has {
			ok = c.applySelf(s.DependentSchemas[name], o, marks) && ok
		}
	}
	return ok
}

// members checks each member by itself.
func (c *check) members(s *jsonschema.Schema, o object, marks []bool) bool {
	ok := true
	patterns := slices.SortedFunc(maps.Keys(s.PatternProperties), func(a, b jsonschema.Regexp) int { return strings.Compare(a.String(), b.String()) })
	var unknown []string
	unknownBytes := 0
	for i, m := range o {
		if !ok && c.full() || !c.spend(len(m.name)/256) {
			return false
		}
		if s.PropertyNames != nil {
			ok = c.apply(s.PropertyNames, m.name, nil, true) && ok
		}
		c.enter(m.name)
		evaluated := false
		if sub := s.Properties[m.name]; sub != nil {
			evaluated = true
			ok = c.apply(sub, m.value, nil, true) && ok
		}
		for _, re := range patterns {
			if c.matches(re, m.name) {
				evaluated = true
				ok = c.apply(s.PatternProperties[re], m.value, nil, true) && ok
			}
		}
		if !evaluated && s.AdditionalProperties != nil {
			evaluated = true
			switch sub := s.AdditionalProperties.(type) {
			case bool:
				if !sub && unknownBytes < maxProblem {
					unknown = append(unknown, shorten(m.name))
					unknownBytes += len(unknown[len(unknown)-1])
				}
			case *jsonschema.Schema:
				ok = c.apply(sub, m.value, nil, true) && ok
			}
		}
		c.leave()
		if evaluated && marks != nil {
			marks[i] = true
		}
	}
	if len(unknown) > 0 {
		return c.fail(&kind.AdditionalProperties{Properties: unknown})
	}
	return ok
}

func (c *check) array(s *jsonschema.Schema, a []any, marks []bool) bool {
	if !c.spend(len(a) / 8) {
		return false
	}
	ok := true
	if s.MinItems != nil && len(a) < *s.MinItems {
		ok = c.fail(&kind.MinItems{Got: len(a), Want: *s.MinItems})
	}
	if s.MaxItems != nil && len(a) > *s.MaxItems {
		ok = c.fail(&kind.MaxItems{Got: len(a), Want: *s.MaxItems})
	}
	if s.UniqueItems && (ok || !c.full()) {
		if i, j, found := c.repeated(a); found {
			ok = c.fail(&kind.UniqueItems{Duplicates: [2]int{i, j}})
		}
	}
	if !ok && c.full() {
		return false
	}
	ok = c.items(s, a, marks) && ok
	return c.contains(s, a, marks) && ok
}

// items checks each item by itself.
func (c *check) items(s *jsonschema.Schema, a []any, marks []bool) bool {
	first, rest := s.PrefixItems, any(nil)
	if s.Items2020 != nil {
		rest = s.Items2020
	}
	if s.DraftVersion < 2020 {
		switch items := s.Items.(type) {
		case *jsonschema.Schema:
			first, rest = nil, items
		case []*jsonschema.Schema:
			first, rest = items, s.AdditionalItems
		}
	}
	ok := true
	for i, item := range a {
		sub, _ := rest.(*jsonschema.Schema)
		if i < len(first) {
			sub = first[i]
		}
		if sub != nil {
			c.enterItem(i)
			ok = c.apply(sub, item, nil, true) && ok
			c.leave()
		}
		if marks != nil && (i < len(first) || rest != nil) {
			marks[i] = true
		}
		if !ok && c.full() || sub == nil && marks == nil {
			break
		}
	}
	if more := len(a) - len(first); rest == false && more > 0 {
		return c.fail(&kind.AdditionalItems{Count: more})
	}
	return ok
}

func (c *check) contains(s *jsonschema.Schema, a []any, marks []bool) bool {
	if s.Contains == nil {
		return true
	}
	before, matched := len(c.issues), 0
	for i, item := range a {
		c.enterItem(i)
		found := c.apply(s.Contains, item, nil, true)
		c.leave()
		if c.err != nil {
			return false
		}
		if found {
			matched++
			if marks != nil && s.DraftVersion >= 2020 {
				marks[i] = true
			}
		}
	}
	least := 1
	if s.MinContains != nil {
		least = *s.MinContains
	}
	switch {
	case matched >= least:
		c.issues = c.issues[:before]
	case matched == len(a): // Otherwise each item has recorded its issue.
		return c.add(fmt.Sprintf("has %d items of a kind, want at least %d", matched, least))
	default:
		return false
	}
	if s.MaxContains != nil && matched > *s.MaxContains {
		return c.add(fmt.Sprintf("has %d items of a kind, want at most %d", matched, *s.MaxContains))
	}
	return true
}

// repeated returns the first item that equals an earlier one.
func (c *check) repeated(a []any) (i, j int, found bool) {
	type hashed struct {
		hash uint64
		i    int
	}
	all := make([]hashed, len(a))
	seed := maphash.MakeSeed()
	for i, item := range a {
		if !c.spend(1) {
			return 0, 0, false
		}
		var h maphash.Hash
		h.SetSeed(seed)
		c.hash(&h, item)
		all[i] = hashed{h.Sum64(), i}
	}
	slices.SortStableFunc(all, func(a, b hashed) int {
		switch {
		case a.hash < b.hash:
			return -1
		case a.hash > b.hash:
			return 1
		}
		return 0
	})
	j = len(a)
	for n := 1; n < len(all); n++ {
		// Items of one hash are in their order; a collision is possible.
		if one, two := all[n-1], all[n]; one.hash == two.hash && two.i < j && same(a[one.i], a[two.i]) {
			i, j, found = one.i, two.i, true
		}
	}
	return i, j, found
}

// hash adds a value to a hash; equal values have equal hashes.
func (c *check) hash(h *maphash.Hash, v any) {
	if !c.spend(1) {
		return
	}
	name, _ := typeOf(v)
	h.WriteString(name)
	switch v := v.(type) {
	case bool:
		maphash.WriteComparable(h, v)
	case json.Number:
		r := rational(v)
		h.Write(r.Num().Bytes())
		h.WriteByte('/')
		h.Write(r.Denom().Bytes())
	case string:
		c.spend(len(v) / 256)
		maphash.WriteComparable(h, v)
	case []any:
		for _, item := range v {
			c.hash(h, item)
		}
	case object:
		for _, m := range v {
			maphash.WriteComparable(h, m.name)
			c.hash(h, m.value)
		}
	}
}

func (c *check) text(s *jsonschema.Schema, text string) bool {
	ok := true
	if s.MinLength != nil || s.MaxLength != nil {
		if !c.spend(len(text) / 256) {
			return false
		}
		n := utf8.RuneCountInString(text)
		if s.MinLength != nil && n < *s.MinLength {
			ok = c.fail(&kind.MinLength{Got: n, Want: *s.MinLength})
		}
		if s.MaxLength != nil && n > *s.MaxLength {
			ok = c.fail(&kind.MaxLength{Got: n, Want: *s.MaxLength})
		}
	}
	if s.Pattern != nil && !c.matches(s.Pattern, text) {
		ok = c.fail(&kind.Pattern{Got: shorten(text), Want: s.Pattern.String()})
	}
	return ok
}

func (c *check) number(s *jsonschema.Schema, n json.Number) bool {
	if s.Minimum == nil && s.Maximum == nil && s.ExclusiveMinimum == nil && s.ExclusiveMaximum == nil && s.MultipleOf == nil {
		return true
	}
	if !c.spend(len(n) / 8) {
		return false
	}
	r, ok := rational(n), true
	if s.Minimum != nil && r.Cmp(s.Minimum) < 0 {
		ok = c.fail(&kind.Minimum{Got: r, Want: s.Minimum})
	}
	if s.Maximum != nil && r.Cmp(s.Maximum) > 0 {
		ok = c.fail(&kind.Maximum{Got: r, Want: s.Maximum})
	}
	if s.ExclusiveMinimum != nil && r.Cmp(s.ExclusiveMinimum) <= 0 {
		ok = c.fail(&kind.ExclusiveMinimum{Got: r, Want: s.ExclusiveMinimum})
	}
	if s.ExclusiveMaximum != nil && r.Cmp(s.ExclusiveMaximum) >= 0 {
		ok = c.fail(&kind.ExclusiveMaximum{Got: r, Want: s.ExclusiveMaximum})
	}
	if s.MultipleOf != nil && !new(big.Rat).Quo(r, s.MultipleOf).IsInt() {
		ok = c.fail(&kind.MultipleOf{Got: r, Want: s.MultipleOf})
	}
	return ok
}

// dynamic resolves dynamic references. [NewSchema] accepts only schemas in which they resolve like
// static ones.
func (c *check) dynamic(s *jsonschema.Schema, v any, marks []bool) bool {
	ok := true
	if s.RecursiveRef != nil {
		ok = c.applySelf(s.RecursiveRef, v, marks)
	}
	if s.DynamicRef != nil {
		ok = c.applySelf(s.DynamicRef.Ref, v, marks) && ok
	}
	return ok
}

func (c *check) conditions(s *jsonschema.Schema, v any, marks []bool) bool {
	ok := true
	if s.Not != nil && c.silent(s.Not, v, nil) {
		ok = c.fail(&kind.Not{})
	}
	for _, sub := range s.AllOf {
		if !ok && c.full() {
			return false
		}
		ok = c.applySelf(sub, v, marks) && ok
	}
	ok = c.anyOf(s, v, marks) && ok
	ok = c.oneOf(s, v, marks) && ok
	if s.If == nil {
		return ok
	}
	branch := s.Then
	if !c.silent(s.If, v, marks) {
		branch = s.Else
	}
	return (branch == nil || c.applySelf(branch, v, marks)) && ok
}

// silent applies a schema without recording issues.
func (c *check) silent(s *jsonschema.Schema, v any, marks []bool) bool {
	c.quiet++
	defer func() { c.quiet-- }()
	return c.applySelf(s, v, marks)
}

func (c *check) anyOf(s *jsonschema.Schema, v any, marks []bool) bool {
	before, matched := len(c.issues), len(s.AnyOf) == 0
	for _, sub := range s.AnyOf {
		if c.applySelf(sub, v, marks) {
			matched = true
			if marks == nil { // Otherwise each matching schema evaluates its part.
				break
			}
		}
	}
	if matched {
		c.issues = c.issues[:before]
	}
	return matched
}

func (c *check) oneOf(s *jsonschema.Schema, v any, marks []bool) bool {
	before, matched := len(c.issues), -1
	for i, sub := range s.OneOf {
		switch {
		case matched < 0 && c.applySelf(sub, v, marks):
			matched = i
			c.issues = c.issues[:before]
		case matched >= 0 && c.silent(sub, v, marks):
			return c.fail(&kind.OneOf{Subschemas: []int{matched, i}})
		}
	}
	return matched >= 0 || len(s.OneOf) == 0
}

// unevaluated checks members and items that no other keyword has evaluated.
func (c *check) unevaluated(s *jsonschema.Schema, v any, marks []bool) bool {
	ok := true
	visit := func(i int, sub *jsonschema.Schema, v any) bool {
		if !marks[i] {
			ok = c.apply(sub, v, nil, true) && ok
			marks[i] = true
		}
		return ok || !c.full()
	}
	switch v := v.(type) {
	case object:
		for i, m := range v {
			if s.UnevaluatedProperties == nil {
				break
			}
			c.enter(m.name)
			more := visit(i, s.UnevaluatedProperties, m.value)
			c.leave()
			if !more {
				break
			}
		}
	case []any:
		for i, item := range v {
			if s.UnevaluatedItems == nil {
				break
			}
			c.enterItem(i)
			more := visit(i, s.UnevaluatedItems, item)
			c.leave()
			if !more {
				break
			}
		}
	}
	return ok
}
