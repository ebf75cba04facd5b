package main_test

import (
	"testing"

	"dshsh/cmd/dshsh/internal/repl/repltest"
)

// TestModelCommand: /model lists what is known and switches within the session.
func TestModelCommand(t *testing.T) {
	t.Parallel()
	s := opened(t, place{rows: 60, cols: 110, env: []string{"OPENAI_API_KEY=k", "ANTHROPIC_API_KEY=k"}})
	s.enter("/model")
	s.WaitMatch(`(?m)^model: openai/gpt-\S+, a window of \d+ tokens$`)
	s.WaitMatch(`(?m)^  anthropic/claude-sonnet-4\* +a window of 200000 tokens$`)
	s.enter("/model antropic/claude-sonnet-4-5")
	s.WaitFor("there is no provider antropic: did you mean anthropic?")
	s.enter("/model anthropic/claude-sonnet-4-5")
	s.WaitFor("model: anthropic/claude-sonnet-4-5, a window of 200000 tokens")
	s.enter("/model my-own")
	s.WaitFor("model: anthropic/my-own, its window is not known")
	s.Type("/model openai/gpt-4o", repltest.Tab)
	s.WaitFor("> /model openai/gpt-4o")
	s.Type(repltest.Enter)
	s.WaitFor("model: openai/gpt-4o, a window of 128000 tokens")
	s.enter("/model offline")
	s.WaitFor("model: offline\n")
	s.enter("say here")
	s.WaitMatch(`(?m)^here$`)
	s.ready()
	s.quit()
}
