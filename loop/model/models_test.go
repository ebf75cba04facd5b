package model_test

import (
	"strings"
	"testing"

	"dshsh/loop/model"
)

func TestKnownModels(t *testing.T) {
	for _, tc := range []struct {
		provider, id string
		window, out  int
		reasoning    string
	}{
		{"openai", "gpt-4o-mini", 128_000, 16_384, ""},
		{"openai", "gpt-5.2", 400_000, 128_000, model.ReasoningEffort},
		{"openai", "openai/GPT-5.2", 400_000, 128_000, model.ReasoningEffort},
		{"openai", "gpt-5.4-mini", 400_000, 128_000, model.ReasoningEffort},
		{"openai", "gpt-5.4", 1_050_000, 128_000, model.ReasoningEffort},
		{"openai", "llama3.1:8b", 131_072, 0, ""},
		{"deepseek", "deepseek-v4-pro", 1_000_000, 384_000, model.ReasoningEffort},
		{"anthropic", "deepseek-flash", 1_000_000, 384_000, model.ReasoningEffort},
		{"anthropic", "claude-sonnet-4-5-20250929", 200_000, 64_000, model.ReasoningBudget},
		{"anthropic", "claude-opus-4-7", 1_000_000, 128_000, model.ReasoningAdaptive},
		{"anthropic", "claude-opus-4-1", 200_000, 32_000, model.ReasoningBudget},
		{"anthropic", "claude-opus-5-5", 1_000_000, 128_000, model.ReasoningAlways},
		{"anthropic", "claude-opus-5", 1_000_000, 128_000, model.ReasoningAdaptive},
		{"anthropic", "claude-of-tomorrow", 200_000, 64_000, model.ReasoningAlways},
		{"deepseek", "gpt-5", 0, 0, ""},
		{"openai", "never-heard-of", 0, 0, ""},
	} {
		k := model.KnownModels().Lookup(tc.provider, tc.id)
		if k.ContextWindow != tc.window || k.MaxOutput != tc.out || k.Reasoning != tc.reasoning {
			t.Errorf("%s/%s: got %+v", tc.provider, tc.id, k)
		}
	}
}

func TestModels_With(t *testing.T) {
	own, err := model.KnownModels().With([]byte(`[
		{"provider": "*", "id": "local-*", "contextWindow": 16384},
		{"provider": "openai", "id": "gpt-4o*", "contextWindow": 5}
	]`))
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]int{"local-a": 16_384, "gpt-4o-mini": 5, "gpt-5.2": 400_000} {
		if got := own.Lookup("openai", id).ContextWindow; got != want {
			t.Errorf("%s: got %d, want %d", id, got, want)
		}
	}
	if model.KnownModels().Lookup("openai", "gpt-4o").ContextWindow != 128_000 {
		t.Error("the list that was extended has changed")
	}
	for raw, says := range map[string]string{
		`{}`:                                     "want a JSON array",
		`[{"provider":"*","id":"a"}] x`:          "nothing behind it",
		`[{"id":"a"}]`:                           `entry 1 ("a"): provider`,
		`[{"provider":"*"}]`:                     "id: is empty",
		`[{"provider":"*","id":"[a"}]`:           "syntax error in pattern",
		`[{"provider":"*","id":"a","window":1}]`: "window",
		`[{"provider":"*","id":"a","contextWindow":-1}]`: "positive",
		`[{"provider":"*","id":"a","reasoning":"deep"}]`: `"deep", want one of effort`,
	} {
		if _, err := model.KnownModels().With([]byte(raw)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want it to say %q", raw, err, says)
		}
	}
}
