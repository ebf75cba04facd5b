package app

import (
	"context"

	"dshsh/runtime"
)

// Ask implements runtime.UI: scripts ask the person at the prompt, if there is one.
func (s *sh) Ask(ctx context.Context, q runtime.Question) (runtime.Answer, error) {
	if s.person == nil {
		return runtime.Answer{}, runtime.ErrNobody
	}
	return s.person(ctx, q)
}

// Notify implements runtime.UI.
func (s *sh) Notify(in *runtime.Instance, text string) { s.Logged(in, "log", text) }
