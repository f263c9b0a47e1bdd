package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/agenthost"
)

// Types as authors write them.
type (
	meta  struct{ Author string }
	Meta  struct{ Author string }
	page1 struct {
		Meta  `json:"meta"`
		Title string
	}
	page2 struct {
		*Meta
		Title string `json:"title,omitempty"`
	}
	page3 struct {
		*Meta `json:"meta,omitempty"`
		meta
	}
	page4 struct {
		Meta
		Author string // hides that of Meta
		Named  string `json:"Title"`
		Title  string // hidden by the tag above
	}
	level2  struct{ Name, Both string }
	level2b struct{ Both string }
	page5   struct { // Both is ambiguous and ignored.
		level2
		level2b
		//lint:ignore SA5008 encoding/json takes such a tag for the name "-"
		Level meta   `json:"-,"`
		Out   string `json:"-"`
	}

	uuid  [16]byte
	color int // encoded and decoded as text
	level int // decoded from text, encoded as a number
	named struct{ time.Time }
	day   time.Time
	box   struct{ v string } // methods with pointer receivers
	maybe struct {
		set   bool
		value int
	}
	arm1    struct{ Meta }
	arm2    struct{ Meta }
	diamond struct { // Author occurs twice at one depth and is ignored.
		arm1
		arm2
		Title string
	}
	sealed  struct{ kind string } // its only sample is the text "none"
	either  struct{ v any }
	checked struct {
		Kind string `json:"kind"`
		Size *int   `json:"size,omitempty"`
		Next *checked
	}
	big2[T any] struct{ A, B T }
	defaults    struct {
		Retries int `json:"retries"`
		Name    string
	}

	tree struct {
		Value string           `json:"value"`
		Kids  []tree           `json:"kids"`
		Next  *tree            `json:"next,omitempty"`
		By    map[string]*tree `json:"by,omitempty"`
	}
	left         struct{ Right *right }
	right        struct{ Left []left }
	nest         []nest
	shelf2       map[string]shelf2
	chain[T any] struct {
		Value T
		Rest  *chain[T]
	}
)

func (id uuid) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]), nil
}

func (id *uuid) UnmarshalText(text []byte) error {
	raw := strings.ReplaceAll(string(text), "-", "")
	if len(raw) != 32 {
		return errors.New("no UUID")
	}
	for i := range id {
		if _, err := fmt.Sscanf(raw[2*i:2*i+2], "%02x", &id[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c color) MarshalText() ([]byte, error) { return []byte([]string{"red", "green"}[c]), nil }

func (c *color) UnmarshalText(text []byte) error {
	for *c = range 2 {
		if s, _ := c.MarshalText(); bytes.Equal(s, text) {
			return nil
		}
	}
	return errors.New("no color")
}

func (l *level) UnmarshalText(text []byte) error {
	_, err := fmt.Sscanf(string(text), "level-%d", (*int)(l))
	return err
}

func (d day) MarshalJSON() ([]byte, error) { return json.Marshal(time.Time(d).Format(time.DateOnly)) }

func (d *day) UnmarshalJSON(raw []byte) error {
	at, err := time.Parse(`"`+time.DateOnly+`"`, string(raw))
	*d = day(at)
	return err
}

func (b *box) MarshalJSON() ([]byte, error) { return json.Marshal("box " + b.v) }
func (b *box) UnmarshalJSON(raw []byte) error {
	var s string
	err := json.Unmarshal(raw, &s)
	b.v = strings.TrimPrefix(s, "box ")
	return err
}

func (m maybe) MarshalJSON() ([]byte, error) {
	if !m.set {
		return []byte("null"), nil
	}
	return json.Marshal(m.value)
}

func (m *maybe) UnmarshalJSON(raw []byte) error {
	m.set = string(raw) != "null"
	return json.Unmarshal(raw, &m.value)
}

func (s sealed) MarshalJSON() ([]byte, error) {
	if s.kind == "" {
		return []byte(`"none"`), nil
	}
	return json.Marshal(map[string]string{"kind": s.kind})
}

func (s *sealed) UnmarshalJSON(raw []byte) error {
	if string(raw) == `"none"` {
		return nil
	}
	var o struct{ Kind string }
	err := json.Unmarshal(raw, &o)
	if s.kind = o.Kind; err == nil && o.Kind == "" {
		err = errors.New("no kind")
	}
	return err
}

func (e either) MarshalJSON() ([]byte, error)    { return json.Marshal(e.v) }
func (e *either) UnmarshalJSON(raw []byte) error { return json.Unmarshal(raw, &e.v) }

func (c checked) MarshalJSON() ([]byte, error) {
	type plain checked
	return json.Marshal(plain(c))
}

func (c *checked) UnmarshalJSON(raw []byte) error {
	type plain checked
	return json.Unmarshal(raw, (*plain)(c))
}

func (d *defaults) UnmarshalJSON(raw []byte) error {
	type plain defaults
	d.Retries = 3
	return json.Unmarshal(raw, (*plain)(d))
}

// boxed wraps a value in an object.
type boxed[T any] struct {
	V T `json:"v"`
}

// through passes values through everything with a Go type, and expects them back.
func through[T any](want T, schema string) func(t *testing.T) {
	return func(t *testing.T) {
		ctx := t.Context()
		raw, err := json.Marshal(&want)
		if err != nil {
			t.Fatal(err)
		}
		same := func(name string, got T, err error) {
			t.Helper()
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %+v, %v, want %+v", name, got, err, want)
			}
		}
		s := agent.SchemaFor[T]()
		if schema != "" && string(s.JSON()) != schema {
			t.Errorf("schema\ngot  %s\nwant %s", s.JSON(), schema)
		}
		if err := s.Validate(ctx, raw); err != nil {
			t.Errorf("schema %s rejects %s: %v", s.JSON(), raw, err)
		}
		object, err := json.Marshal(&boxed[T]{want})
		if err != nil {
			t.Fatal(err)
		}
		var received boxed[T]
		tool := agent.NewTool("echo", "Echoes.", func(_ context.Context, in boxed[T]) (boxed[T], error) {
			received = in
			return in, nil
		}, nil)
		out, err := tool.Call(ctx, object)
		same("tool", received.V, err)
		if string(out) != string(object) {
			t.Errorf("output of the tool: got %s, want %s", out, object)
		}

		var input T
		w := agent.NewWorkflow("echo", func(_ context.Context, in T) (T, error) { input = in; return in, nil }, nil)
		a, err := w.Admission("k", want)
		if err == nil {
			err = agenthost.CheckInput(ctx, w.Definition(), json.RawMessage(a.Delivery.Body))
		}
		if err == nil {
			_, err = w.Definition().Tools[0].Run(ctx, json.RawMessage(a.Delivery.Body))
		}
		same("workflow", input, err)

		state := agent.NewState("s", want)
		kept := agenthost.WithState(ctx, newMemoryStore())
		err = state.Set(kept, want)
		got, err2 := state.Get(kept)
		same("state", got, errors.Join(err, err2))

		var data written
		err = agent.NewDataWriter[T]("d", nil).Write(data.context(ctx), want)
		if err != nil || len(data) != 1 || data[0] != "d "+string(raw) {
			t.Errorf("data: got %s, %v, want %s", data, err, raw)
		}

		finish, ok := agent.NewSetup(&agent.Agent{Output: agent.SchemaFor[boxed[T]]()}).Tool(agent.FinishTool)
		out, err = finish.Call(ctx, object)
		var given boxed[T]
		if err == nil && ok {
			err = json.Unmarshal(out, &given)
		}
		same("output", given.V, err)

		got, err = agent.NewInitialData[T](nil).Get(agenthost.WithCall(ctx, agent.Call{InitialData: raw}))
		same("initial data", got, err)
	}
}

func TestTypesOfAuthors(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	id := uuid{1, 2, 3, 250}
	var long *chain[int]
	for i := range 900 {
		long = &chain[int]{i, long}
	}
	for name, test := range map[string]func(t *testing.T){
		"embedded with a name": through(page1{Meta{"Ada"}, "T"},
			`{"type":"object","properties":{"meta":{"type":"object","properties":{"Author":{"type":"string"}},"required":["Author"],"additionalProperties":false},"Title":{"type":"string"}},"required":["meta","Title"],"additionalProperties":false}`),
		"embedded pointer":             through(page2{&Meta{"Ada"}, "T"}, ""),
		"embedded nil pointer":         through(page2{}, `{"type":"object","properties":{"Author":{"type":"string"},"title":{"type":"string"}},"additionalProperties":false}`),
		"embedded pointer with a name": through(page3{&Meta{"Ada"}, meta{"Bob"}}, ""),
		"hidden fields":                through(page4{Author: "Ada", Named: "T"}, ""),
		"ambiguous fields":             through(page5{level2: level2{Name: "n"}, Level: meta{"Ada"}}, ""),

		"text":                    through(id, `{"type":"string","format":"uuid"}`),
		"text, pointer":           through(&id, `{"type":["null","string"],"format":"uuid"}`),
		"text, nil":               through[*uuid](nil, ""),
		"text of an enum":         through(color(1), `{"type":"string"}`),
		"net.IP":                  through(net.ParseIP("10.0.0.1"), `{"type":"string"}`),
		"netip.Addr":              through(netip.MustParseAddr("::1"), `{"type":"string"}`),
		"netip.Addr, zero":        through(netip.Addr{}, ""),
		"netip.Prefix":            through(netip.MustParsePrefix("10.0.0.0/8"), ""),
		"slog.Level":              through(slog.LevelWarn, `{"type":"string"}`),
		"time":                    through(at, `{"type":"string","format":"date-time"}`),
		"time, zero":              through(time.Time{}, ""),
		"embedded time":           through(named{at}, `{"type":"string","format":"date-time"}`),
		"day":                     through(day(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)), `{"type":"string","format":"date"}`),
		"duration":                through(time.Second, `{"type":"integer","description":"duration in nanoseconds"}`),
		"big.Int":                 through(*big.NewInt(7), `{"type":"integer"}`),
		"*big.Int":                through(new(big.Int).Lsh(big.NewInt(1), 90), ""),
		"big.Rat":                 through(big.NewRat(1, 3), ""),
		"json.Number":             through(json.Number("12345678901234567890"), `{"type":"number"}`),
		"json.RawMessage":         through(json.RawMessage(`{"a":[1]}`), `{}`),
		"pointer receiver":        through(box{"a"}, ""),
		"within a slice":          through([]box{{"a"}, {"b"}}, ""),
		"no or a number":          through([]maybe{{}, {true, 7}}, ""),
		"embedded twice":          through(diamond{Title: "T"}, ""),
		"samples do not show all": through([]sealed{{}, {"a"}}, ""),
		"any by method":           through([]either{{"a"}, {true}, {nil}}, ""),
		"defaults":                through(defaults{7, "n"}, `{"type":"object","properties":{"retries":{"type":"integer"},"Name":{"type":"string"}},"required":["retries","Name"],"additionalProperties":false}`),
		"identity methods":        through(checked{"k", nil, &checked{}}, ""),
		"embedded unexported with a name": through(struct {
			meta `json:"meta"`
		}{meta{"Ada"}}, ""),
		"bytes":      through([]byte{1, 2, 250}, `{"type":["null","string"],"contentEncoding":"base64"}`),
		"bytes, nil": through[[]byte](nil, ""),
		"quoted": through(struct {
			N int     `json:"n,string"`
			U *uint8  `json:"u,string"`
			B bool    `json:",string"`
			F float64 `json:"f,string,omitempty"`
			S string  `json:"s,string"`
			//lint:ignore SA5008 encoding/json ignores the option for such a type
			L []int `json:"l,string"`
		}{N: -5, F: 1e30, S: `a"b`}, ""),

		"nil map":       through(struct{ Tags map[string]string }{}, `{"type":"object","properties":{"Tags":{"type":["null","object"],"additionalProperties":{"type":"string"}}},"required":["Tags"],"additionalProperties":false}`),
		"nil map alone": through[map[string]int](nil, ""),
		"nil slice":     through(struct{ Tags []string }{}, ""),
		"int keys":      through(map[int]string{-3: "a", 0: "b"}, `{"type":["null","object"],"additionalProperties":{"type":"string"},"propertyNames":{"pattern":"^(0|-?[1-9][0-9]*)$"}}`),
		"uint8 keys":    through(map[uint8]bool{7: true}, ""),
		"text keys":     through(map[netip.Addr]uuid{netip.MustParseAddr("::1"): id}, ""),
		"enum keys":     through(map[color]int{1: 1}, ""),

		"tree":        through(tree{"a", []tree{{Value: "b"}}, &tree{Value: "c"}, map[string]*tree{"d": nil}}, ""),
		"nil tree":    through[*tree](nil, ""),
		"mutual":      through(left{&right{[]left{{}, {&right{}}}}}, ""),
		"nested list": through(nest{nil, nest{}}, `{"type":["null","array"],"items":{"$ref":"#/$defs/nest"},"$defs":{"nest":{"type":["null","array"],"items":{"$ref":"#/$defs/nest"}}}}`),
		"nested map":  through(shelf2{"a": {"b": nil}}, ""),
		"long chain":  through(long, ""),
		"generic":     through(chain[int]{1, &chain[int]{2, nil}}, ""),
	} {
		t.Run(name, test)
	}
}

// A tool only decodes, and a data writer only encodes.
func TestTypesInOneDirection(t *testing.T) {
	var received boxed[level]
	tool := agent.NewTool("level", "Sets a level.", func(_ context.Context, in boxed[level]) (any, error) { received = in; return nil, nil }, nil)
	if _, err := tool.Call(t.Context(), json.RawMessage(`{"v":"level-4"}`)); err != nil || received.V != 4 {
		t.Errorf("tool that reads text: got %v, %v, want 4", received.V, err)
	}
	var unfit *agent.InputError
	_, err := tool.Call(t.Context(), json.RawMessage(`{"v":"high"}`))
	if !errors.As(err, &unfit) || unfit.Issues[0].Path != "/v" || !strings.Contains(err.Error(), "does not fit agent_test.level") {
		t.Errorf("tool that reads other text: got %v, want an issue at /v", err)
	}
	var data written
	if err := agent.NewDataWriter[odd]("odd", nil).Write(data.context(t.Context()), odd{}); err != nil || data[0] != `odd "odd"` {
		t.Errorf("data written as text: got %s, %v", data, err)
	}
	if err := agent.NewDataWriter[boxed[error]]("e", nil).Write(data.context(t.Context()), boxed[error]{errors.New("x")}); err != nil {
		t.Errorf("data of an interface: %v", err)
	}
}

type (
	//lint:ignore U1000 a type of unexported fields alone
	hidden  struct{ at int }
	stamped struct { // the method of time.Time replaces the struct's fields
		time.Time
		Note string
	}
	torn struct { // two methods hide each other, so neither is used
		time.Time
		big.Int
		Note string
	}
	far        struct{ *hiddenMeta }
	fragile    struct{ A int }
	hiddenMeta struct{ Author string }
)

func (fragile) MarshalJSON() ([]byte, error) { panic("marshal") }
func (*fragile) UnmarshalJSON([]byte) error  { panic("unmarshal") }

// TestTypesAreRefused checks that a type that would lose values panics at construction, with the place
// and the remedy.
func TestTypesAreRefused(t *testing.T) {
	type input[T any] struct {
		Meta struct{ When T }
	}
	for name, tc := range map[string]struct {
		make func()
		want []string
	}{
		"channel":                {func() { agent.SchemaFor[input[chan int]]() }, []string{"input[chan int].Meta.When: chan int has no JSON form", `json:"-"`}},
		"function in a list":     {func() { agent.SchemaFor[input[[]func()]]() }, []string{".Meta.When[]: func() has no JSON form"}},
		"complex in a map":       {func() { agent.SchemaFor[input[map[string]complex128]]() }, []string{".Meta.When[string]: complex128"}},
		"interface":              {func() { agent.SchemaFor[input[error]]() }, []string{".Meta.When: a value of the interface error cannot be read", "use a struct, or any"}},
		"key":                    {func() { agent.SchemaFor[input[map[float64]int]]() }, []string{".Meta.When: float64 is no key", "MarshalText"}},
		"key of a struct":        {func() { agent.NewState("s", map[hidden]int{}) }, []string{"hidden is no key"}},
		"key read as text":       {func() { agent.NewState("s", map[level]int{}) }, []string{"the key agent_test.level has one of MarshalText and UnmarshalText; give it both"}},
		"read as text only":      {func() { agent.NewState("s", input[level]{}) }, []string{"input[level].Meta.When: ", "read by its method UnmarshalText and not written so; add the method MarshalText"}},
		"written as text only":   {func() { agent.NewState("s", input[odd]{}) }, []string{".Meta.When: ", "add the method UnmarshalText"}},
		"unexported fields":      {func() { agent.NewState("s", input[hidden]{}) }, []string{".Meta.When: ", "unexported fields alone", "MarshalJSON"}},
		"field next to a method": {func() { agent.NewState("s", stamped{}) }, []string{"stamped: ", "leave out the field Note", "name the embedded field"}},
		"methods hide":           {func() { agent.SchemaFor[torn]() }, []string{"torn: the embedded time.Time would be lost", "give the field a name"}},
		"unexported pointer":     {func() { agent.SchemaFor[far]() }, []string{"far.hiddenMeta.Author: ", "embedded pointer to the unexported agent_test.hiddenMeta", "export the type"}},
		"pointer receiver":       {func() { agent.NewState("s", map[string]box{}) }, []string{"map[string]agent_test.box[string]: ", "pointer receiver", "use a map of pointers"}},
		"anonymous struct":       {func() { agent.NewState("s", struct{ At struct{ time.Time } }{}) }, []string{"At: the methods by which struct { time.Time } is read ", "give the type a name"}},
		"too large": {func() {
			agent.SchemaFor[big2[big2[big2[big2[big2[big2[big2[[16]big2[big2[big2[big2[struct{ A, B, C, D, E int }]]]]]]]]]]]]()
		}, []string{"has more than 10000 parts"}},
		"quoted enum": {func() {
			agent.SchemaFor[struct {
				C color `json:"c,string"`
			}]()
		}, []string{"C: ", "remove the option"}},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				err, _ := recover().(error)
				for _, want := range tc.want {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("got %v, want a panic about %q", err, want)
					}
				}
			}()
			tc.make()
		})
	}
}

// A method that panics for a sample is detected when a value arrives.
func TestMethodsThatPanic(t *testing.T) {
	s := agent.SchemaFor[boxed[fragile]]()
	var crash *agent.PanicError
	if err := s.Validate(t.Context(), json.RawMessage(`{"v":{}}`)); !errors.As(err, &crash) {
		t.Errorf("got %v, want a PanicError", err)
	}
}

// TestOpenSchemasTakeNoOtherName checks that a member whose name differs in case is unknown, although
// encoding/json matches it.
func TestOpenSchemasTakeNoOtherName(t *testing.T) {
	type inner struct {
		Cents int `json:"cents,omitempty"`
	}
	type order struct {
		Cents int              `json:"cents,omitempty"`
		List  []inner          `json:"list,omitempty"`
		By    map[string]inner `json:"by,omitempty"`
	}
	for _, value := range []string{`{"CENTS":7}`, `{"CENTS":"seven"}`, `{"list":[{"Cents":1}],"LIST":7}`, `{"by":{"CENTS":{"CENTS":1}}}`} {
		tool := agent.NewTool("order", "Orders.", func(_ context.Context, in order) (order, error) { return in, nil }, &agent.ToolOptions{Open: true})
		out, err := tool.Call(t.Context(), json.RawMessage(value))
		if err != nil || bytes.Contains(out, []byte("cents")) {
			t.Errorf("%s: got %s, %v, want no cents", value, out, err)
		}
	}
}

// TestMisfits checks values that conform to a schema but not to the Go type: the issue has their path.
func TestMisfits(t *testing.T) {
	type inner struct {
		At   time.Time  `json:"at,omitzero"`
		Addr netip.Addr `json:"addr,omitzero"`
		N    int64      `json:"n,omitempty"`
		Q    int8       `json:"q,string,omitempty"`
	}
	type outer struct {
		List []*inner       `json:"list,omitempty"`
		By   map[int8]inner `json:"by,omitempty"`
		Raw  []byte         `json:"raw,omitempty"`
	}
	s := agent.SchemaFor[outer]()
	for _, tc := range []struct{ value, want string }{
		{`{"list":[{"n":1},{"at":"soon"}]}`, "/list/1/at: is not a valid date-time; use RFC 3339, such as 2006-01-02T15:04:05Z"},
		{`{"list":[{"at":"2026-01-02T23:59:60Z"}]}`, "/list/0/at: is not a valid date-time; use RFC 3339, such as 2006-01-02T15:04:05Z"},
		{`{"list":[null,{"addr":"here"}]}`, `/list/1/addr: does not fit netip.Addr: ParseAddr("here"): unable to parse IP`},
		{`{"by":{"1":{"n":9223372036854775808}}}`, "/by/1/n: got number 9223372036854775808, which does not fit int64"},
		{`{"by":{"300":{}}}`, "/by/300: got number 300, which does not fit int8"},
		{`{"list":[{"q":"300"}]}`, "/list/0/q: got number 300, which does not fit int8"},
		{`{"raw":"*"}`, "/raw: does not fit []uint8: illegal base64 data at input byte 0"},
	} {
		var unfit *agent.SchemaError
		if err := s.Validate(t.Context(), json.RawMessage(tc.value)); !errors.As(err, &unfit) || err.Error() != tc.want {
			t.Errorf("%s\ngot  %v\nwant %s", tc.value, err, tc.want)
		}
	}
}

func TestSchemaTags(t *testing.T) {
	type order struct {
		Kind  string   `json:"kind" jsonschema:"title=Kind,description=One\\, not both.,enum=new,enum=used"`
		Count *int     `json:"count,omitempty" jsonschema:"minimum=1,exclusiveMaximum=9.5,enum=1,enum=2"`
		Names []string `json:"names,omitempty" jsonschema:"minItems=1,uniqueItems=true,minLength=2,pattern=^a"`
		Link  string   `json:"link,omitempty" jsonschema:"required,format=uri,example=https://example.com" jsonschema_description:"a link, or none"`
		Plain string   `json:"plain,omitempty" jsonschema:"words, with a comma"`
	}
	const want = `{"type":"object","properties":{` +
		`"kind":{"type":"string","title":"Kind","description":"One, not both.","enum":["new","used"]},` +
		`"count":{"type":["null","integer"],"enum":[1,2,null],"exclusiveMaximum":9.5,"minimum":1},` +
		`"names":{"type":["null","array"],"items":{"type":"string","minLength":2,"pattern":"^a"},"minItems":1,"uniqueItems":true},` +
		`"link":{"type":"string","description":"a link, or none","format":"uri","examples":["https://example.com"]},` +
		`"plain":{"type":"string","description":"words, with a comma"}},"required":["kind"],"additionalProperties":false}`
	if got := string(agent.SchemaFor[order]().JSON()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for want, make := range map[string]func(){
		`N: the tag jsonschema has minimum=x, which is no number`: func() {
			agent.SchemaFor[struct {
				N int `jsonschema:"minimum=x"`
			}]()
		},
		`N: the tag jsonschema has minLength=1, which is for the types string; the type of the field is integer`: func() {
			agent.SchemaFor[struct {
				N int `jsonschema:"minLength=1"`
			}]()
		},
		`N: the tag jsonschema has size=1, which is not a keyword; use one of default, description, enum,`: func() {
			agent.SchemaFor[struct {
				N int `jsonschema:"size=1"`
			}]()
		},
		`N: the tag jsonschema has enum=a, which is not of type integer`: func() {
			agent.SchemaFor[struct {
				N int `jsonschema:"enum=a"`
			}]()
		},
		`N: the part " or b" of the tag jsonschema is not keyword=value; write a comma within a value as "\\\\,"`: func() {
			agent.SchemaFor[struct {
				N string `jsonschema:"description=a, or b"`
			}]()
		},
		`N: the tag jsonschema is empty; remove it`: func() {
			agent.SchemaFor[struct {
				N string `jsonschema:""`
			}]()
		},
		`N: the tag jsonschema has pattern=(, which cannot be compiled`: func() {
			agent.SchemaFor[struct {
				N string `jsonschema:"pattern=("`
			}]()
		},
	} {
		func() {
			defer func() {
				if err, _ := recover().(error); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want a panic about %q", err, want)
				}
			}()
			make()
		}()
	}
}
