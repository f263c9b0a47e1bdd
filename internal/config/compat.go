package config

import (
	"reflect"
	"strings"

	"github.com/parleyrun/parley/providers"
)

// thinking reads the vendor's names for levels of thinking.
func (r *reader) thinking(dst *providers.ThinkingMap) func(value) {
	return func(v value) {
		names := providers.ThinkingMap{}
		var levels []field
		for _, level := range providers.ThinkingLevels() {
			levels = append(levels, field{name: string(level), example: string(level), read: func(v value) {
				if v.node.kind == null {
					names[level] = nil
					return
				}
				if word, ok := r.checked(v); ok {
					names[level] = &word
				}
			}})
		}
		r.fields(v, levels)
		*dst = names
	}
}

// compat reads the differences of a server from others of its format: the fields of
// [providers.Compat], by their names in JSON.
func (r *reader) compat(dst *providers.Compat) func(value) {
	return func(v value) {
		var fields []field
		into := reflect.ValueOf(dst).Elem()
		for i := range into.NumField() {
			name, _, _ := strings.Cut(into.Type().Field(i).Tag.Get("json"), ",")
			f := field{name: name}
			switch to := into.Field(i).Addr().Interface().(type) {
			case *providers.Flag:
				f.example, f.read = "true", r.truth(func(t bool) { *to = providers.FlagOf(t) })
			case *providers.Object:
				f.example, f.read = "{}", r.object(to)
			case *string:
				f.example, f.read = names()[name][0], r.text(to, oneOf(name, names()[name]...))
			}
			fields = append(fields, f)
		}
		r.fields(v, fields)
	}
}

// names returns the valid texts of fields of [providers.Compat].
func names() map[string][]string {
	var dialects []string
	for _, d := range providers.SchemaDialects() {
		dialects = append(dialects, string(d))
	}
	return map[string][]string{
		"toolSchemas":    dialects,
		"maxTokensField": {"max_tokens", "max_completion_tokens"},
		"thinkingFormat": {
			"openai", "openrouter", "deepseek", "zai", "qwen", "qwen-chat-template", "chat-template", "baseten", "together", "ant-ling", "string-thinking",
		},
		"thinkingTokenBudgetField": {"thinking_budget", "thinking_budget_tokens", "thinking_token_budget"},
		"cacheControlFormat":       {"anthropic"},
		"sessionAffinityFormat":    {"openai", "openai-nosession", "openrouter"},
		"promptCacheKeyMode":       {"auto", "enabled", "disabled"},
	}
}

// object reads an object that is sent unchanged.
func (r *reader) object(dst *providers.Object) func(value) {
	return func(v value) {
		if !r.is(v, mapping) {
			return
		}
		src, wrong, f := appendJSON(nil, v)
		if wrong != nil {
			if f != (fault{}) {
				r.blame(*wrong, f)
			}
			return
		}
		*dst = providers.Object(src)
	}
}
