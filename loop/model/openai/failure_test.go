package openai_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"dshsh/loop/model"
	"dshsh/loop/model/openai"
)

func TestEndpoint(t *testing.T) {
	var got string
	client := &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		got = r.URL.String()
		return answer(strings.NewReader("")), nil
	})}
	for base, want := range map[string]string{
		"":                           "https://api.openai.com/v1/chat/completions",
		"http://localhost:11434/v1":  "http://localhost:11434/v1/chat/completions",
		"http://localhost:11434/v1/": "http://localhost:11434/v1/chat/completions",
		"http://localhost":           "http://localhost/chat/completions",
		"https://x.example/openai/deployments/m/chat/completions?api-version=1": "https://x.example/openai/deployments/m/chat/completions?api-version=1",
		"https://x.example/v1?api-version=1":                                    "https://x.example/v1/chat/completions?api-version=1",
	} {
		s, err := openai.New(openai.Options{BaseURL: base, HTTPClient: client}).Stream(context.Background(), request())
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		if got != want {
			t.Errorf("%s becomes %s, want %s", base, got, want)
		}
	}
}

func TestInfoAndNames(t *testing.T) {
	o, d := openai.New(openai.Options{}), openai.DeepSeek(openai.Options{})
	if o.Name() != "openai" || d.Name() != "deepseek" || openai.New(openai.Options{Name: "ollama"}).Name() != "ollama" {
		t.Errorf("names %s, %s", o.Name(), d.Name())
	}
	for name, window := range map[string]int{"gpt-4o-mini": 128_000, "gpt-4.1-nano": 1_047_576, "deepseek-v4-flash": 1_000_000, "unheard-of": 0} {
		if got := o.Info(name).ContextWindow; got != window {
			t.Errorf("%s: %d", name, got)
		}
	}
	list, err := model.KnownModels().With([]byte(`[{"provider": "ollama", "id": "*", "contextWindow": 5}]`))
	if err != nil {
		t.Fatal(err)
	}
	own := openai.New(openai.Options{Name: "ollama", Models: list})
	other := openai.New(openai.Options{Name: "router", Models: list})
	if own.Info("x").ContextWindow != 5 || other.Info("openai/gpt-4o").ContextWindow != 128_000 {
		t.Error("Options.Models is not asked, or not by the name")
	}
}
