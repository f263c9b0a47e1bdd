package providers_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
)

func TestCompatReadsAndWritesItsJSON(t *testing.T) {
	for _, text := range []string{
		`{}`,
		`{"supportsStore":false,"maxTokensField":"max_tokens","supportsDeveloperRole":true}`,
		`{"chatTemplateArgs":{"enable_thinking":{"$var":"thinking.enabled"}},"forceAdaptiveThinking":true}`,
	} {
		var c providers.Compat
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		got, err := json.Marshal(c)
		if err != nil || string(got) != text {
			t.Errorf("%s became %s, %v", text, got, err)
		}
	}
	var c providers.Compat
	if err := json.Unmarshal([]byte(`{"supportsStore":null,"chatTemplateArgs":null,"openRouterRouting":{"zdr": true}}`), &c); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(providers.Compat{OpenRouterRouting: `{"zdr":true}`}, c); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{`{"supportsStore":1}`, `{"openRouterRouting":[]}`, `{"openRouterRouting":""}`} {
		if err := json.Unmarshal([]byte(bad), &c); err == nil {
			t.Errorf("%s: got no error", bad)
		}
	}
}

// TestCompatOver sets every field by reflection, to include future fields.
// covers: providers/43
func TestCompatOver(t *testing.T) {
	var full providers.Compat
	v := reflect.ValueOf(&full).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString("{}")
		default:
			f.SetInt(int64(providers.FlagOff))
		}
	}
	if got := full.Over(providers.Compat{}); got != full {
		t.Errorf("over nothing: %+v", got)
	}
	if got := (providers.Compat{}).Over(full); got != full {
		t.Errorf("nothing over it: %+v", got)
	}
	got := providers.Compat{SupportsStore: providers.FlagOn}.Over(full)
	full.SupportsStore = providers.FlagOn
	if got != full {
		t.Errorf("one field over it: %+v", got)
	}
}

// covers: providers/177
func TestThinkingMap(t *testing.T) {
	most := providers.ThinkingMap{"off": nil, "minimal": nil, "low": new("low"), "medium": nil, "high": new("HIGH"), "max": new("max")}
	tests := []struct {
		m           providers.ThinkingMap
		level, want providers.ThinkingLevel
	}{
		{nil, "", ""},
		{nil, "off", "off"},
		{nil, "high", "high"},
		{nil, "xhigh", "high"},
		{nil, "max", "high"},
		{most, "off", "low"},
		{most, "minimal", "low"},
		{most, "medium", "high"},
		{most, "xhigh", "max"},
		{providers.ThinkingMap{"high": nil, "medium": nil}, "high", "low"},
		{providers.ThinkingMap{"minimal": nil, "low": nil, "medium": nil, "high": nil}, "medium", "off"},
		{providers.ThinkingMap{"off": nil, "minimal": nil, "low": nil, "medium": nil, "high": nil}, "off", "off"},
	}
	for _, tt := range tests {
		if got := tt.m.Clamp(tt.level); got != tt.want {
			t.Errorf("%v: %q becomes %q, want %q", tt.m, tt.level, got, tt.want)
		}
	}
	if w, ok := most.Word("high"); w != "HIGH" || !ok {
		t.Errorf("high: got %q, %v", w, ok)
	}
	if w, ok := most.Word("off"); w != "" || ok {
		t.Errorf("off: got %q, %v", w, ok)
	}
	if w, ok := most.Word("xhigh"); w != "xhigh" || !ok {
		t.Errorf("xhigh: got %q, %v", w, ok)
	}
	for _, l := range append(providers.ThinkingLevels(), "") {
		if !l.Valid() {
			t.Errorf("%q: got invalid", l)
		}
	}
	if providers.ThinkingLevel("most").Valid() {
		t.Error("unknown level: got valid")
	}
}
