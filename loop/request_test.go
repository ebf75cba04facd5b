package loop_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
)

type cfgNext = func(loop.StepPayload) (model.Config, error)

// onRequest adds a Go listener to agent/request.
func (w *world) onRequest(fn func(p loop.StepPayload, next cfgNext) (model.Config, error)) (off func()) {
	w.do(func() { off = loop.AgentRequest.On(w.h.Host, fn) })
	return off
}

// headers lists the request headers as "reason model".
func (w *world) headers() string {
	var out []string
	for _, r := range w.records() {
		if d, ok := decoded[loop.RequestHeader](r, loop.RecRequestHeader); ok {
			out = append(out, d.Reason+" "+d.Header.Config.Model)
		}
	}
	return strings.Join(out, "\n")
}

func TestB090_AListenerReplacesTheConfig(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.onRequest(func(p loop.StepPayload, next cfgNext) (model.Config, error) {
		c, err := next(p)
		c.Model = "other"
		return c, err
	})
	w.prompt("hi")
	if w.model.Last().Model != "other" || w.headers() != "initial other" {
		t.Error(w.model.Last().Model, w.headers())
	}
	w = newWorld(t, always("ok"), withEngines)
	w.script("f.js", `ctx.on('agent/request', async (p, next) => { const c = await next(); try { c.model = 'x' } catch (e) { ctx.log(e.name) } return { ...c, model: 'js' } })`)
	w.create().prompt("hi")
	if w.model.Last().Model != "js" || w.noted() != "TypeError" {
		t.Error(w.model.Last().Model, w.noted())
	}
}

func TestB091_B092_Seeds(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	half := 0.5
	off := w.onRequest(func(p loop.StepPayload, next cfgNext) (model.Config, error) {
		c, err := next(p)
		if p.Turn == 2 {
			c.Temperature = &half
		}
		return c, err
	})
	w.prompt("1")
	w.prompt("2")
	w.do(off)
	w.prompt("3")
	rs := w.model.Requests()
	if rs[0].Temperature != nil || rs[1].Temperature == nil || rs[2].Temperature == nil || *rs[2].Temperature != 0.5 {
		t.Errorf("%v %v %v", rs[0].Temperature, rs[1].Temperature, rs[2].Temperature)
	}
	w.do(func() { w.a.SetModel(w.model.Name(), "m2") })
	w.prompt("4")
	if r := w.model.Last(); r.Model != "m2" || r.Temperature != nil {
		t.Errorf("after a switch: %+v", r.Config)
	}
}

func TestB093_NoRoute(t *testing.T) {
	w := newWorld(t, always("ok"))
	w.do(func() { w.a, _ = w.h.Create(loop.CreateOptions{}) })
	w.prompt("hi")
	if got := w.turns(); !strings.Contains(got, "UNKNOWN") || !strings.Contains(got, "agent/request") || len(w.model.Requests()) != 0 {
		t.Error(got)
	}
	w.onRequest(func(loop.StepPayload, cfgNext) (model.Config, error) {
		return model.Config{Provider: w.model.Name(), Model: "given"}, nil
	})
	w.prompt("again")
	if w.model.Last().Model != "given" {
		t.Error(w.turns())
	}
}

func TestB094_B096_HeadersAreLoggedWhenTheyChange(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Tool("c", "echo", "{}")).Otherwise(modeltest.Text("ok")), withTools(echo{})).create()
	w.prompt("1")
	w.prompt("2")
	off := w.onRequest(func(p loop.StepPayload, next cfgNext) (model.Config, error) {
		c, err := next(p)
		c.Model = "other"
		return c, err
	})
	w.prompt("3")
	w.do(off)
	w.prompt("4")
	w.check(w.headers(), "initial m\nchange other")
	for _, r := range w.records() {
		if r.Type == loop.RecRequestHeader && strings.Contains(string(r.Data), "null") {
			t.Errorf("not canonical: %s", r.Data)
		}
	}
	bare := newWorld(t, always("ok")).create()
	bare.prompt("1")
	for _, r := range bare.records() {
		if r.Type == loop.RecRequestHeader && string(r.Data) != `{"header":{"config":{"provider":"fake","model":"m"}},"reason":"initial"}` {
			t.Errorf("%s", r.Data)
		}
	}
}

func TestB095_HeaderOnResume(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.prompt("1")
	w2 := newWorld(t, always("ok"))
	w2.reopen(w)
	w2.prompt("2")
	w2.prompt("3")
	w2.check(w2.headers(), "initial m\nresume m")
}

func TestB097_RequestContext(t *testing.T) {
	p := always("ok")
	p.ModelInfo = model.Info{ContextWindow: 1000}
	w := newWorld(t, p).create()
	w.prompt("1")
	w.prompt("2")
	w.do(func() { w.a.SetModel(p.Name(), "m2") })
	w.prompt("3")
	var got []string
	for _, r := range w.records() {
		if d, ok := decoded[loop.RequestContext](r, loop.RecRequestContext); ok {
			got = append(got, fmt.Sprintf("%s %s %d", d.Provider, d.Model, d.ContextWindow))
		}
	}
	w.check(strings.Join(got, "\n"), "fake m 1000\nfake m2 1000")
}

func TestB098_B099_B100_RequestsExtendEachOtherAndAreInTheLog(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Tool("c1", "echo", `{"text":"a"}`), modeltest.Tool("c2", "echo", `{"text":"b"}`), modeltest.Text("x"), modeltest.Text("y")), withTools(echo{}),
		withContext(func() string { return "now" }))
	w.h.Stop()
	w = newWorld(t, w.model, withTools(echo{}), withContext(func() string { return "now" })).create()
	w.prompt("go")
	w.prompt("more")
	rs := w.model.Requests()
	for i, r := range rs {
		if r.SessionID != w.a.ID() || len(r.Tools) != 1 {
			t.Errorf("request %d: %+v", i, r)
		}
		if i > 0 && !reflect.DeepEqual(r.Messages[:len(rs[i-1].Messages)], rs[i-1].Messages) {
			t.Errorf("request %d does not extend the one before", i)
		}
	}
	w.reconstruct()
}

// reconstruct checks that the log holds what the model was sent.
func (w *world) reconstruct() {
	w.t.Helper()
	built, err := loop.Reconstruct(w.records())
	if err != nil {
		w.t.Fatal(err)
	}
	sent := w.model.Requests()
	if len(built) != len(sent) {
		w.t.Fatalf("%d requests in the log, %d sent", len(built), len(sent))
	}
	for i := range sent {
		built[i].SessionID = w.a.ID()
		a, _ := json.Marshal(built[i])
		b, _ := json.Marshal(sent[i])
		if string(a) != string(b) {
			w.t.Errorf("request %d:\nlog  %s\nsent %s", i, a, b)
		}
	}
}

func TestB101_InjectDuringAgentRequestMissesThisRequest(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	first := true
	w.onRequest(func(p loop.StepPayload, next cfgNext) (model.Config, error) {
		if first {
			first = false
			_ = w.a.Inject(msg("c"))
		}
		return next(p)
	})
	w.prompt("p")
	if w.sent(1) != "p" || w.sent(2) != "p|ok|c" || w.logged(loop.RecTurnStart) != 1 {
		t.Error(w.sent(1), w.sent(2))
	}
}

func TestB102_AdapterDefaultsAreLogged(t *testing.T) {
	p := always("ok")
	p.ModelInfo = model.Info{ReasoningEffort: "high", MaxTokens: 100}
	q := always("ok")
	q.ProviderName, q.ModelInfo = "other", model.Info{MaxTokens: 7}
	w := newWorld(t, p, func(c *loop.Config) { c.Providers = append(c.Providers, q) }).create()
	w.prompt("1")
	if r := p.Last(); r.ReasoningEffort != "high" || r.MaxTokens != 100 {
		t.Errorf("%+v", r.Config)
	}
	w.onRequest(func(p loop.StepPayload, next cfgNext) (model.Config, error) {
		c, err := next(p)
		c.Provider = "other"
		return c, err
	})
	w.prompt("2")
	if r := q.Last(); r.ReasoningEffort != "" || r.MaxTokens != 7 {
		t.Errorf("after a switch: %+v", r.Config)
	}
	for _, r := range w.records() {
		if d, ok := decoded[loop.RequestHeader](r, loop.RecRequestHeader); ok && d.Header.AdapterDefaults == nil {
			t.Errorf("not marked: %s", r.Data)
		}
	}
}

func TestB103_InvalidMaxTokens(t *testing.T) {
	w := newWorld(t, always("ok"))
	w.do(func() {
		if _, err := w.h.Create(loop.CreateOptions{Options: loop.Options{MaxTokens: -1}}); err == nil || len(w.h.Agents()) != 0 {
			t.Error(err)
		}
	})
}

func TestB104_AnUnknownRouteThatAListenerServes(t *testing.T) {
	w := newWorld(t, always("ok"), withEngines)
	w.script("f.js", `ctx.on('llm/stream', ({ request }) => request.provider === 'nowhere' ? { text: 'canned' } : undefined)`)
	w.do(func() {
		w.a, _ = w.h.Create(loop.CreateOptions{Options: loop.Options{Provider: "nowhere", Model: "x"}})
	})
	w.prompt("hi")
	if got := texts(w.a.Session().Messages()); got != "hi|canned" {
		t.Error(got)
	}
	w2 := newWorld(t, always("ok"))
	w2.do(func() {
		w2.a, _ = w2.h.Create(loop.CreateOptions{Options: loop.Options{Provider: "nowhere", Model: "x"}})
	})
	w2.prompt("hi")
	if got := w2.turns(); !strings.Contains(got, model.CodeNoAdapter) {
		t.Error(got)
	}
}

// The way to a model is chosen by agent/request, so this is where choosing can fail.
func TestB105_ModelResolutionFailure(t *testing.T) {
	for _, c := range []struct {
		name, want string
		resolve    func(loop.StepPayload, cfgNext) (model.Config, error)
	}{
		{"coded", "NO_QUOTA", func(loop.StepPayload, cfgNext) (model.Config, error) {
			return model.Config{}, &model.Failure{Message: "none left", Code: "NO_QUOTA"}
		}},
		{"plain", "UNKNOWN", func(loop.StepPayload, cfgNext) (model.Config, error) { return model.Config{}, errors.New("no route") }},
		{"none", "UNKNOWN", func(loop.StepPayload, cfgNext) (model.Config, error) { return model.Config{}, nil }},
	} {
		p := always("ok")
		w := newWorld(t, p).create()
		w.onRequest(c.resolve)
		offered := 0
		w.do(func() {
			loop.RequestError.On(w.h.Host, func(e loop.RequestErrorPayload, next func(loop.RequestErrorPayload) (loop.Recovery, error)) (loop.Recovery, error) {
				offered++
				return next(e)
			})
		})
		w.prompt("hi")
		if got := w.turns(); !strings.Contains(got, c.want) || w.logged(loop.RecRequestHeader) != 0 || len(p.Requests()) != 0 || offered != 0 {
			t.Errorf("%s: %s; %d headers, %d requests, offered %d times", c.name, got, w.logged(loop.RecRequestHeader), len(p.Requests()), offered)
		}
	}
}

func TestB106_SystemPromptRendering(t *testing.T) {
	sections := func(s ...loop.PromptSection) func(*loop.Config) {
		return func(c *loop.Config) { c.Sections = s }
	}
	w := newWorld(t, always("ok"), sections(
		loop.PromptSection{Name: "late", Text: "last", Order: 9},
		loop.PromptSection{Name: "persona", Text: "You are {{model}} of {{ provider }}."},
		loop.PromptSection{Name: "file", Text: "keep {{this}}", Literal: true})).create()
	w.prompt("hi")
	if got := w.model.Last().System; got != "You are m of fake.\n\nkeep {{this}}\n\nlast" {
		t.Errorf("%q", got)
	}
	for _, bad := range []string{"{{nope}}", "{{ open"} {
		w := newWorld(t, always("ok"), sections(loop.PromptSection{Name: "p", Text: bad})).create()
		w.prompt("hi")
		if got := w.skeleton("agent/inbox", "user"); !strings.HasPrefix(got, "turn/start 1\nstep/start 1.1\nstep/end 1.1\nturn/end 1 error UNKNOWN") {
			t.Error(got)
		}
	}
	w = newWorld(t, always("ok")).create()
	w.prompt("hi")
	if w.model.Last().System != "" {
		t.Error("a system field without sections")
	}
}

// named is a tool that does nothing under a name.
type named struct {
	echo
	name string
}

func (n named) Spec() model.ToolSpec {
	s := n.echo.Spec()
	s.Name = n.name
	return s
}

func TestB107_ToolOrder(t *testing.T) {
	order := func(names ...string) string {
		w := newWorld(t, always("ok"), withTools(named{name: "c"}, named{name: "a"}, named{name: "B"}), func(c *loop.Config) { c.ToolOrder = names }).create()
		w.prompt("hi")
		if w.model.Last() == nil {
			return w.skeleton("agent/inbox")
		}
		var got []string
		for _, s := range w.model.Last().Tools {
			got = append(got, s.Name)
		}
		return strings.Join(got, " ")
	}
	if got := order(); got != "B a c" {
		t.Error(got)
	}
	if got := order("c", "*", "B"); got != "c a B" {
		t.Error(got)
	}
	if got := order("typo"); !strings.HasPrefix(got, "turn/start 1\nturn/end 1 error UNKNOWN") {
		t.Error(got)
	}
}

func TestB108_RawChunks(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Text("abc"))).create()
	var live []model.Chunk
	w.do(func() {
		loop.StreamChunk.On(w.h.Host, func(p loop.ChunksPayload) error { live = append(live, p.Chunks...); return nil })
	})
	w.prompt("hi")
	var got []string
	for _, r := range w.records() {
		if d, ok := decoded[loop.ChunkRecord](r, loop.RecChunk); ok {
			got = append(got, d.Chunk.Type)
		}
	}
	if strings.Join(got, " ") != "block-start text-delta text-delta text-delta block-end usage finish" {
		t.Error(got)
	}
	if len(live) != 7 {
		t.Errorf("%d live chunks", len(live))
	}
}

func TestNoChunkOfALongReplyIsLost(t *testing.T) {
	long := strings.Repeat("0123456789", 100) // a chunk a letter
	w := newWorld(t, modeltest.New(modeltest.Text(long))).create()
	w.prompt("hi")
	var streamed strings.Builder
	for _, r := range w.records() {
		if d, ok := decoded[loop.ChunkRecord](r, loop.RecChunk); ok {
			streamed.WriteString(d.Chunk.Text)
		}
	}
	if streamed.String() != long {
		t.Errorf("%d of %d letters", streamed.Len(), len(long))
	}
}

func TestB110_EmptyCompletion(t *testing.T) {
	for name, p := range map[string]*modeltest.Provider{
		"only a finish": modeltest.New(modeltest.Reply(model.NewFinish(model.FinishStop))),
		"nothing":       modeltest.New(modeltest.Play()),
	} {
		w := newWorld(t, p).create()
		w.prompt("hi")
		for _, r := range w.records() {
			if d, ok := decoded[loop.AssistantMessage](r, loop.RecAssistant); ok {
				if len(d.Message.Content) != 0 || d.Usage != nil || r.SourceEventSeqs == nil || len(r.SourceEventSeqs) != w.logged(loop.RecChunk) {
					t.Errorf("%s: %s %v", name, r.Data, r.SourceEventSeqs)
				}
			}
		}
		if got := texts(w.a.Session().Messages()); got != "hi" {
			t.Errorf("%s: %s %s", name, got, w.turns())
		}
	}
}

func TestB111_SourceAndReplayState(t *testing.T) {
	fin := model.NewFinish(model.FinishStop)
	fin.ReplayState = json.RawMessage(`{"sig":1}`)
	w := newWorld(t, modeltest.New(modeltest.Reply(model.NewTextDelta(0, "x"), fin), modeltest.Text("y"))).create()
	w.prompt("hi")
	w.prompt("more")
	s := w.model.Last().Messages[1].Source
	if s.Kind != model.SourceModel || s.Provider != "fake" || s.Model != "m" || string(s.ReplayState) != `{"sig":1}` {
		t.Errorf("%+v", s)
	}
}

func TestB112_B113_MaxTokens(t *testing.T) {
	cut := func(cs ...model.Chunk) modeltest.Answer {
		return modeltest.Reply(append(cs, model.NewFinish(model.FinishMaxTokens))...)
	}
	w := newWorld(t, modeltest.New(cut(model.NewTextDelta(0, "cut"))), withTools(echo{})).create()
	w.prompt("hi")
	w.check(w.turns(), "turn/start 1\nturn/end 1 max-tokens")
	w = newWorld(t, modeltest.New(cut(model.NewToolCallDelta(0, "c", "echo", `{"text":`))), withTools(echo{})).create()
	w.prompt("hi")
	w.check(w.skeleton("agent/inbox", "user"), "turn/start 1\nstep/start 1.1\nassistant/message\nstep/end 1.1\nturn/end 1 max-tokens")
}

// steerAtStops steers at the first n natural stops.
func (w *world) steerAtStops(n int) {
	w.do(func() {
		loop.TurnStopping.On(w.h.Host, func(loop.TurnPayload) error {
			if n--; n >= 0 {
				return w.a.Steer(msg("more"))
			}
			return nil
		})
	})
}

func TestB114_MaxTokensIsSticky(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Truncated("cut"), modeltest.Text("ok"), modeltest.Text("next"))).create()
	w.steerAtStops(1)
	w.prompt("hi")
	w.prompt("again")
	w.check(w.turns(), "turn/start 1\nturn/end 1 max-tokens\nturn/start 2\nturn/end 2 completed")
}

func TestB115_B116_AToolCallStepOwesItsFollowUp(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Truncated("cut"), modeltest.Tool("c", "echo", "{}"), modeltest.Text("done")), withTools(echo{})).create()
	w.steerAtStops(1)
	w.prompt("hi")
	if n := len(w.model.Requests()); n != 3 {
		t.Errorf("%d requests", n)
	}
	w.check(w.turns(), "turn/start 1\nturn/end 1 max-tokens")
	w = newWorld(t, modeltest.New(modeltest.Text("one"), modeltest.Tool("c", "echo", "{}"), modeltest.Text("done")), withTools(echo{})).create()
	w.steerAtStops(1)
	w.prompt("hi")
	if n := len(w.model.Requests()); n != 3 {
		t.Errorf("%d requests", n)
	}
	w.check(w.turns(), "turn/start 1\nturn/end 1 completed")
}
