package runtimetest

import (
	"fmt"

	"dshsh/runtime"
)

// The toy catalogue: one event of each mode, and a second waterfall whose result is its
// payload.
var (
	// Notice is an emit.
	Notice = runtime.NewEmit[NoticePayload]("toy/notice", "Something happened.", runtime.Sample{})
	// Check is a serial event.
	Check = runtime.NewSerial[CheckPayload]("toy/check", "Something is about to happen.", runtime.Sample{})
	// Decide is a waterfall that fails closed: a quarantined script denies.
	Decide = runtime.NewWaterfall[CallPayload, Decision]("toy/decide", "May this call run?", runtime.Sample{}, runtime.Rules[CallPayload, Decision]{
		Outcome: func(d Decision) string { return d.Kind },
		Next: func(p CallPayload, _ *runtime.Listener, v runtime.Value) (CallPayload, error) {
			var change struct {
				Arguments map[string]any `json:"arguments"`
			}
			err := runtime.Decode(v, &change)
			p.Arguments = change.Arguments
			return p, err
		},
		Quarantine: func(script string) (Decision, error) {
			return Decision{Kind: "deny", Reason: script + " is in quarantine"}, nil
		},
	})
	// Rewrite is a waterfall with the default rules.
	Rewrite = runtime.NewWaterfall[Text, Text]("toy/rewrite", "What shall the text be?", runtime.Sample{}, runtime.Rules[Text, Text]{})
	// Flush is a parallel event.
	Flush = runtime.NewParallel[NoticePayload]("toy/flush", "Write what is not written.", runtime.Sample{})
)

// Catalogue holds the five events.
func Catalogue() *runtime.Catalogue {
	return runtime.NewCatalogue(Notice.Event, Check.Event, Decide.Event, Rewrite.Event, Flush.Event)
}

// NoticePayload is the payload of Notice and Flush.
type NoticePayload struct {
	Agent *Agent `json:"agent,omitempty"`
	Text  string `json:"text"`
}

// CheckPayload is the payload of Check.
type CheckPayload struct {
	Agent  *Agent          `json:"agent,omitempty"`
	Text   string          `json:"text"`
	Signal *runtime.Signal `json:"signal,omitempty"`
}

// CallPayload is the payload of Decide: a tool call.
type CallPayload struct {
	Agent     *Agent         `json:"agent,omitempty"`
	Tool      string         `json:"tool"`
	Arguments map[string]any `json:"arguments"`
}

// ToolName implements runtime.ToolPayload.
func (p CallPayload) ToolName() string { return p.Tool }

// ToolArgument implements runtime.ToolPayload.
func (p CallPayload) ToolArgument(name string) (string, bool) {
	v, ok := p.Arguments[name]
	return fmt.Sprint(v), ok
}

// Decision is the result of Decide.
type Decision struct {
	Kind   string `json:"kind" enum:"allow|deny|ask"`
	Reason string `json:"reason,omitempty"`
}

// Text is the payload and the result of Rewrite.
type Text struct {
	Text  string   `json:"text"`
	Lines []string `json:"lines,omitempty"`
}

// Agent is an owner that can be waited for. Used on the thread, but for Idle, which any
// goroutine may close.
type Agent struct {
	Name string
	Idle chan struct{} // closed when it is idle
	host *runtime.Host
}

// Agent makes a busy agent of the host.
func (h *Host) Agent(name string) *Agent {
	return &Agent{Name: name, Idle: make(chan struct{}), host: h.Host}
}

// Target is a dispatch that concerns the agent.
func (a *Agent) Target() runtime.Target { return runtime.Target{Scope: a, AgentID: a.Name} }

// WhenIdle waits until the agent is idle, unless that could never be.
func (a *Agent) WhenIdle() error {
	return a.host.WaitFor(a, func(o any) string { return o.(*Agent).Name }, func() error {
		return a.host.Thread.Wait(a.Idle)
	})
}

// Class implements runtime.Object.
func (*Agent) Class() *runtime.Class { return agentClass }

var agentClass = &runtime.Class{Name: "agent", Members: []*runtime.Member{
	{Name: "id", Get: func(o runtime.Object) (runtime.Value, error) { return o.(*Agent).Name, nil }},
	{Name: "ctx", GetFor: func(o runtime.Object, in *runtime.Instance) (runtime.Value, error) { return in.Ctx(o), nil }},
	{Name: "whenIdle", Waits: true, Fn: func(c *runtime.Call) (runtime.Value, error) { return nil, c.Self.(*Agent).WhenIdle() }},
}}
