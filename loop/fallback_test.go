package loop_test

import (
	"fmt"
	"strings"
	"testing"

	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
)

// withFallback adds the provider "other" and makes models fall back, in order.
func withFallback(other *modeltest.Provider, routes ...loop.Route) func(*loop.Config) {
	return func(c *loop.Config) {
		other.ProviderName = "other"
		c.Providers = append(c.Providers, other)
		c.Fallback = routes
		c.Retry = func(string) *loop.RetryPolicy { return nil }
	}
}

// routes lists the fallbacks as "from to CODE" and the contexts as "= provider model".
func (w *world) routes() string {
	var out []string
	for _, r := range w.records() {
		if d, ok := decoded[loop.Fallback](r, loop.RecFallback); ok {
			out = append(out, fmt.Sprintf("%s/%s %s/%s %s", d.From.Provider, d.From.Model, d.To.Provider, d.To.Model, d.Failure.Code))
		}
		if d, ok := decoded[loop.RequestContext](r, loop.RecRequestContext); ok {
			out = append(out, "= "+d.Provider+" "+d.Model)
		}
	}
	return strings.Join(out, "\n")
}

func TestFallbackAnswersForTheRestOfTheTurn(t *testing.T) {
	other := modeltest.New(modeltest.Fail("QUOTA", "empty"), modeltest.Tool("c", "echo", "{}"), modeltest.Text("from other"))
	w := newWorld(t, modeltest.New(modeltest.Fail("INVALID_CREDENTIAL", "who?"), modeltest.Text("back")), withTools(echo{}),
		withFallback(other, loop.Route{Provider: "fake", Model: "m"}, loop.Route{Provider: "other", Model: "x"}, loop.Route{Provider: "other", Model: "y"})).create()
	w.prompt("one")
	w.prompt("two")
	w.check(w.turns(), "turn/start 1\nllm/fallback\nllm/fallback\nturn/end 1 completed\nturn/start 2\nturn/end 2 completed")
	w.check(w.routes(), "= fake m\nfake/m other/x INVALID_CREDENTIAL\n= other x\nother/x other/y QUOTA\n= other y\n= fake m")
	if n, m := len(other.Requests()), len(w.model.Requests()); n != 3 || m != 2 {
		t.Errorf("%d and %d requests", n, m)
	}
	if w.model.Last().Model != "m" {
		t.Error(w.model.Last().Model)
	}
}

// TestFallbackKeepsTheSettingsOfTheFirstModel: what a listener set sticks (B092) across a
// turn that another model answered.
func TestFallbackKeepsTheSettingsOfTheFirstModel(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Text("a"), modeltest.Fail("SERVER", "down"), modeltest.Text("c")),
		withFallback(modeltest.New(modeltest.Text("b")), loop.Route{Provider: "other", Model: "x"})).create()
	half := 0.5
	off := w.onRequest(func(p loop.StepPayload, next cfgNext) (model.Config, error) {
		c, err := next(p)
		c.Temperature = &half
		return c, err
	})
	w.prompt("1")
	w.do(off)
	w.prompt("2")
	w.prompt("3")
	if r := w.model.Last(); len(w.model.Requests()) != 3 || r.Temperature == nil || *r.Temperature != 0.5 {
		t.Errorf("%d requests, %+v", len(w.model.Requests()), r.Config)
	}
}

func TestFallbackFollowsTheRetries(t *testing.T) {
	other := modeltest.New(modeltest.Text("ok"))
	w := newWorld(t, modeltest.New(modeltest.Fail("RATE_LIMIT", "1"), modeltest.Fail("RATE_LIMIT", "2")), withFallback(other, loop.Route{Provider: "other", Model: "x"}),
		func(c *loop.Config) {
			c.Retry = func(string) *loop.RetryPolicy { return &loop.RetryPolicy{MaxRetries: 1, Codes: []string{"RATE_LIMIT"}} }
		}).create()
	w.prompt("hi")
	if w.logged(loop.RecRetry) != 1 || len(w.model.Requests()) != 2 || len(other.Requests()) != 1 {
		t.Error(w.skeleton())
	}
}

func TestNoFallback(t *testing.T) {
	for name, a := range map[string]modeltest.Answer{
		"what is wrong everywhere": modeltest.Fail("CONTENT_FILTER", "no"),
		"an unknown failure":       modeltest.Fail("UNKNOWN", "no"),
		"an abort":                 modeltest.Fail("ABORTED", "no"),
		"too long":                 modeltest.Fail("CONTEXT_WINDOW_EXCEEDED", "no"),
	} {
		t.Run(name, func(t *testing.T) {
			other := modeltest.New().Otherwise(modeltest.Text("ok"))
			w := newWorld(t, modeltest.New().Otherwise(a), withFallback(other, loop.Route{Provider: "other", Model: "x"})).create()
			w.prompt("hi")
			if len(other.Requests()) != 0 || w.logged(loop.RecFallback) != 0 {
				t.Error(w.skeleton())
			}
		})
	}
	t.Run("a cancel", func(t *testing.T) {
		other := modeltest.New().Otherwise(modeltest.Text("ok"))
		w := newWorld(t, modeltest.New(modeltest.Fail("SERVER", "down")), withFallback(other, loop.Route{Provider: "other", Model: "x"})).create()
		w.onFailure(func(loop.RequestErrorPayload, recNext) (loop.Recovery, error) {
			w.a.Cancel(byUser, loop.CancelOptions{})
			return loop.Recovery{}, nil
		})
		w.prompt("hi")
		if len(other.Requests()) != 0 || w.logged(loop.RecFallback) != 0 {
			t.Error(w.skeleton())
		}
	})
}
