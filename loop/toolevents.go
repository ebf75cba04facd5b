package loop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"dshsh/loop/model"
	"dshsh/runtime"
)

// ToolCall is one call as the tools/* events show it.
type ToolCall struct {
	Agent      Agent           `json:"agent"`
	Turn       int             `json:"turn"`
	Step       int             `json:"step"`
	CallID     string          `json:"callId"`
	RootCallID string          `json:"rootCallId"`
	Name       string          `json:"name"`
	Arguments  json.RawMessage `json:"arguments"` // parsed; a string when the model's text was no JSON
	Signal     *runtime.Signal `json:"signal"`
	By         string          `json:"by,omitempty"` // ByUser: the person at the prompt asks for it, not the model
}

// ByUser is ToolCall.By of a call that a person has typed.
const ByUser = "user"

// ToolName implements runtime.ToolPayload.
func (c ToolCall) ToolName() string { return c.Name }

// ToolArgument gives the text of a top-level argument: a string as it is, the rest as
// JSON.
func (c ToolCall) ToolArgument(name string) (string, bool) {
	var args map[string]json.RawMessage
	if json.Unmarshal(c.Arguments, &args) != nil {
		return "", false
	}
	raw, ok := args[name]
	if !ok {
		return "", false
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s, true
	}
	return string(raw), true
}

func (c ToolCall) decisionInput() []byte { return c.Arguments }

// PreExecutePayload is the payload of tools/pre-execute. Pass 2 judges rewritten
// arguments.
type PreExecutePayload struct {
	ToolCall
	Pass int `json:"pass"`

	rewrites *rewrites // shared by the layers and passes of one call
	changed  bool      // Arguments are not those that the model asked for
}

// rewrites notes who changed a call's arguments.
type rewrites struct {
	by    map[*runtime.Listener]bool // in pass 1
	names []string
}

func (r *rewrites) note(l *runtime.Listener) {
	if !r.by[l] {
		r.by[l] = true
		r.names = append(r.names, l.Instance.ID)
	}
}

// Judgement is the result of tools/pre-execute. Arguments, when set, are the whole new
// arguments.
type Judgement struct {
	Kind      string          `json:"kind" enum:"allow|deny|ask"`
	Reason    string          `json:"reason,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// Kinds of a Judgement.
const (
	Allow = "allow"
	Deny  = "deny"
	Ask   = "ask"
)

func strictness(kind string) int {
	switch kind {
	case Deny:
		return 2
	case Ask:
		return 1
	}
	return 0
}

// ApprovalPayload is the payload of approval/request.
type ApprovalPayload struct {
	ToolCall
	Reason string `json:"reason,omitempty"`

	guarded bool // a guard asks: only a person may answer
}

// Approval is the result of approval/request; no answer is a denial.
type Approval struct {
	Kind   string `json:"kind" enum:"allow|deny"`
	Reason string `json:"reason,omitempty"`

	outcome string // what the record says
	rule    string // that decided, in words
}

// ToolResult is what a call came to, as listeners read it.
type ToolResult struct {
	IsError            bool            `json:"isError"`
	Content            []model.Block   `json:"content"`
	Value              json.RawMessage `json:"value,omitempty"`
	Error              *ToolFailure    `json:"error,omitempty"`
	Meta               json.RawMessage `json:"meta,omitempty"`
	AdditionalContexts []model.Message `json:"additionalContexts,omitempty"`
	ConcludesTurn      bool            `json:"concludesTurn,omitempty"`

	final bool // a failing pre-execute: post-execute is skipped
}

// ToolFailure is why a call failed; Info when the failure is coded.
type ToolFailure struct {
	Message string     `json:"message"`
	Info    *ErrorInfo `json:"info,omitempty"`
}

// PostPayload is the payload of tools/post-execute and tools/result.
type PostPayload struct {
	ToolCall
	Result ToolResult `json:"result"`
}

// PostDecision is the result of tools/post-execute.
type PostDecision struct {
	Kind               string          `json:"kind" enum:"accept|block"`
	Content            Content         `json:"content,omitempty"`
	Value              json.RawMessage `json:"value,omitempty"`
	Feedback           Content         `json:"feedback,omitempty"`
	AdditionalContexts []model.Message `json:"additionalContexts,omitempty"`
}

var (
	PreExecute = runtime.NewWaterfall[PreExecutePayload, Judgement]("tools/pre-execute",
		"Judges every tool call before it runs: allow, allow with new arguments, deny or ask. The strictest answer of all layers stands; a throw denies.",
		runtime.Sample{
			JS:  "ctx.on('tools/pre-execute', { filter: { tool: 'bash' } }, (call) => {\n  if (/\\brm\\b/.test(call.arguments.command)) return { kind: 'ask', reason: 'removes files' };\n});",
			Lua: "ctx.on('tools/pre-execute', { filter = { tool = 'bash' } }, function(call)\n  if call.arguments.command:match('rm ') then return { kind = 'ask', reason = 'removes files' } end\nend)",
		}, runtime.Rules[PreExecutePayload, Judgement]{
			Next: nextArguments, Merge: mergeJudgements,
			Outcome: func(j Judgement) string { return j.Kind },
			Quarantine: func(script string) (Judgement, error) {
				return Judgement{Kind: Deny, Reason: quarantined(script)}, nil
			},
		})
	ApprovalRequest = runtime.NewWaterfall[ApprovalPayload, Approval]("approval/request",
		"Somebody must answer an ask. The first answer decides; none, or a throw, is a denial.",
		runtime.Sample{
			JS:  "ctx.on('approval/request', ({ name }) => { if (name === 'write') return { kind: 'deny', reason: 'not today' }; });",
			Lua: "ctx.on('approval/request', function(e) if e.name == 'write' then return { kind = 'deny', reason = 'not today' } end end)",
		}, runtime.Rules[ApprovalPayload, Approval]{
			Outcome: func(a Approval) string { return a.Kind },
			Merge:   mergeApprovals,
			Quarantine: func(script string) (Approval, error) {
				return Approval{Kind: Deny, Reason: quarantined(script)}, nil
			},
		})
	ToolsExecute = runtime.NewWaterfall[ToolCall, ToolResult]("tools/execute",
		"Wraps the tool's body: pass on, replace the result, or answer without running it. Not the arguments.",
		runtime.Sample{
			JS:  "ctx.on('tools/execute', async (call, next) => next());",
			Lua: "ctx.on('tools/execute', function(call, next) return next() end)",
		}, runtime.Rules[ToolCall, ToolResult]{Decode: decodeToolResult, Outcome: func(ToolResult) string { return "replaced" }})
	PostExecute = runtime.NewWaterfall[PostPayload, PostDecision]("tools/post-execute",
		"Sees every result before the model does: accept, replace its content, or block it. next() gives what the inner layers make of it, its content too; an answer without next() leaves them out. What they block stays blocked. A throw makes an error result.",
		runtime.Sample{
			JS: "ctx.on('tools/post-execute', async (call, next) => {\n  const { content } = await next();\n  const cut = (text) => text.replaceAll('SECRET', '[cut]');\n" +
				"  return { kind: 'accept', content: content.map((b) => (b.text ? { ...b, text: cut(b.text) } : b)) };\n});",
			Lua: "ctx.on('tools/post-execute', function(call, next)\n  local content = {}\n  for i, b in ipairs(next().content) do\n" +
				"    content[i] = b.text and { type = 'text', text = (b.text:gsub('SECRET', '[cut]')) } or b\n  end\n  return { kind = 'accept', content = content }\nend)",
		}, runtime.Rules[PostPayload, PostDecision]{Decode: decodePost, Merge: mergePosts, View: viewPost,
			Outcome: func(d PostDecision) string { return d.Kind }})
	ToolsResult = runtime.NewEmit[PostPayload]("tools/result",
		"The final outcome of every executed call, just before it is recorded.",
		emitSample("tools/result", "e.name"))
)

// quarantined is why a script in quarantine denies, with the ways out.
func quarantined(script string) string {
	return fmt.Sprintf("%s is quarantined: mend and save it, or `/scripts on %[1]s`, or `/scripts off %[1]s`", script)
}

// nextArguments: next({arguments}) hands the inner layers the whole new arguments.
func nextArguments(p PreExecutePayload, l *runtime.Listener, v runtime.Value) (PreExecutePayload, error) {
	var shape struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := runtime.Decode(v, &shape); err != nil {
		return p, err
	}
	if shape.Arguments == nil {
		return p, fmt.Errorf("missing field %q", "arguments")
	}
	if !sameRaw(shape.Arguments, p.Arguments) {
		if ignored, err := p.mayRewrite(l); ignored || err != nil {
			return p, err
		}
		p.rewrites.note(l)
		p.Arguments, p.changed = shape.Arguments, true
	}
	return p, nil
}

// mayRewrite applies pass 2's rule: what a listener rewrote in pass 1 is not rewritten
// again, and another's rewrite is a denial.
func (p PreExecutePayload) mayRewrite(l *runtime.Listener) (ignored bool, err error) {
	if p.Pass < 2 {
		return false, nil
	}
	if p.rewrites.by[l] {
		return true, nil
	}
	return false, fmt.Errorf("%s: rewrites arguments that have already been judged", l.Instance.ID)
}

func sameRaw(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, err1 := runtime.MarshalValue(runtime.ValueOf(a))
	y, err2 := runtime.MarshalValue(runtime.ValueOf(b))
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// mergeJudgements keeps the stricter of a layer's own answer and the inner one's. An
// allow says "no objection" and runs the inner layers all the same; an answer without
// arguments keeps their rewrite.
func mergeJudgements(m runtime.Merging[PreExecutePayload, Judgement]) (Judgement, error) {
	if m.Err != nil {
		return m.Own, m.Err
	}
	if !m.Answered {
		return m.Inner()
	}
	own := m.Own
	own.Reason = runtime.Brief(own.Reason)
	if own.Arguments != nil {
		if sameRaw(own.Arguments, m.Payload.Arguments) {
			own.Arguments = nil
		} else if ignored, err := m.Payload.mayRewrite(m.Listener); err != nil {
			return Judgement{Kind: Deny, Reason: err.Error()}, nil
		} else if ignored {
			own.Arguments = nil
		} else {
			m.Payload.rewrites.note(m.Listener)
		}
	}
	if own.Kind == Deny {
		return own, nil
	}
	inner, err := m.Inner()
	if err != nil {
		return inner, err
	}
	if own.Arguments == nil {
		own.Arguments = inner.Arguments
	}
	if own.Kind == Allow && inner.Kind == Ask {
		if approves(m.Listener, m.Payload.Name) {
			m.Listener.Instance.NoteUse(runtime.NeedApprove, m.Payload.Name, true)
			return own, nil
		}
		m.Payload.Agent.(*agent).vainAllow(m.Listener.Instance, m.Payload.Name)
	}
	if strictness(inner.Kind) >= strictness(own.Kind) && own.Kind == Allow || strictness(inner.Kind) > strictness(own.Kind) {
		own.Kind, own.Reason = inner.Kind, inner.Reason
	}
	return own, nil
}

// mergeApprovals: a script's denial decides; its allow does with the grant "approve",
// unless it is a guard that asks.
func mergeApprovals(m runtime.Merging[ApprovalPayload, Approval]) (Approval, error) {
	m.Own.Reason = runtime.Brief(m.Own.Reason)
	if m.Err != nil || m.Answered && m.Own.Kind == Deny {
		return m.Own, m.Err
	}
	if m.Answered {
		may := !m.Payload.guarded && approves(m.Listener, m.Payload.Name)
		m.Listener.Instance.NoteUse(runtime.NeedApprove, m.Payload.Name, may)
		if may {
			m.Own.Reason = orDefault(m.Own.Reason, "allowed by "+m.Listener.Instance.ID)
			return m.Own, nil
		}
		if !m.Payload.guarded && m.Own.Kind == Allow {
			m.Payload.Agent.(*agent).vainAllow(m.Listener.Instance, m.Payload.Name)
		}
	}
	return m.Inner()
}

// mergePosts: what an answer leaves out stays as the inner layers made it, if it asked
// them, and what they blocked stays blocked. One that did not ask them leaves them out,
// which is told.
func mergePosts(m runtime.Merging[PostPayload, PostDecision]) (PostDecision, error) {
	switch {
	case m.Err != nil:
		return m.Own, m.Err
	case !m.Answered:
		return m.Inner()
	case m.Own.Kind == "block":
		return m.Own, nil
	case !m.Called:
		for _, l := range m.Within() {
			m.Payload.Agent.(*agent).leftOut(m.Listener.Instance, l.Instance, m.Payload.Name)
		}
		return m.Own.over(PostDecision{Content: m.Payload.Result.Content}), nil
	}
	inner, err := m.Inner()
	if err != nil || inner.Kind == "block" {
		return inner, err
	}
	return m.Own.over(inner), nil
}

// over is d with what it does not say as in inner.
func (d PostDecision) over(inner PostDecision) PostDecision {
	if d.Content == nil && d.Value == nil {
		d.Content, d.Value = inner.Content, inner.Value
	}
	if d.AdditionalContexts == nil {
		d.AdditionalContexts = inner.AdditionalContexts
	}
	return d
}

// viewPost is what next gives: with the content that the model would see, whatever was
// decided.
func viewPost(d PostDecision) runtime.Value {
	switch {
	case d.Kind == "block":
		d.Content = d.Feedback
	case d.Value != nil:
		d.Content = Content{model.Text(string(d.Value))}
	}
	if d.Content == nil {
		d.Content = Content{}
	}
	return runtime.ValueOf(d)
}

// leftOut says once that a script's answer kept another from seeing results.
func (a *agent) leftOut(by, in *runtime.Instance, tool string) {
	a.hint(by, in.ID, fmt.Sprintf("answered tools/post-execute without next(): %s did not see the result of %s", in.File, tool))
}

// vainAllow says once why a script's allow does not answer what is asked.
func (a *agent) vainAllow(in *runtime.Instance, tool string) {
	how := fmt.Sprintf("without ctx.need({approve: [%q]})", tool)
	if strings.HasSuffix(in.File, ".lua") {
		how = fmt.Sprintf("without ctx.need({approve = {%q}})", tool)
	}
	if slices.ContainsFunc(in.Needs(), func(n runtime.Need) bool { return n.MatchName(tool) }) {
		how = "until you grant what the script needs"
	}
	a.hint(in, "allow", "allow has no effect on what is asked "+how)
}

// hint warns of a script once in this agent's life; about tells its hints apart.
func (a *agent) hint(in *runtime.Instance, about, text string) {
	key := [2]string{in.ID, about}
	if a.hinted[key] {
		return
	}
	if a.hinted == nil {
		a.hinted = map[[2]string]bool{}
	}
	a.hinted[key] = true
	a.h.cfg.Notices.Logged(in, "warn", text)
}

// resultShape is a result as scripts write it.
type resultShape struct {
	Content Content         `json:"content"`
	Value   json.RawMessage `json:"value,omitempty"`
	IsError bool            `json:"isError,omitempty"`
}

func decodeToolResult(_ ToolCall, _ *runtime.Listener, v runtime.Value) (ToolResult, error) {
	if view, ok := v.(*runtime.View); ok {
		if r, ok := view.Source().(ToolResult); ok {
			return r, nil
		}
	}
	var s resultShape
	if text, ok := v.(string); ok {
		s.Content = Content{model.Text(text)}
	} else if err := runtime.Decode(v, &s); err != nil {
		return ToolResult{}, err
	}
	r := ToolResult{IsError: s.IsError, Content: s.Content, Value: s.Value}
	if r.IsError {
		r.Error = &ToolFailure{Message: model.PlainText(r.Content)}
	}
	return r, nil
}

func decodePost(p PostPayload, l *runtime.Listener, v runtime.Value) (PostDecision, error) {
	var s struct {
		Kind               string          `json:"kind" enum:"accept|block"`
		Content            *Content        `json:"content,omitempty"`
		Value              json.RawMessage `json:"value,omitempty"`
		Feedback           *Content        `json:"feedback,omitempty"`
		AdditionalContexts any             `json:"additionalContexts,omitempty"`
	}
	if err := runtime.Decode(v, &s); err != nil {
		return PostDecision{}, err
	}
	d := PostDecision{Kind: s.Kind, Value: s.Value}
	switch {
	case s.Kind == "accept" && s.Feedback != nil:
		return d, fmt.Errorf(`"feedback" belongs to {kind:"block"}`)
	case s.Kind == "block" && (s.Content != nil || s.Value != nil):
		return d, fmt.Errorf(`{kind:"block"} takes "feedback", not content`)
	case s.Content != nil && s.Value != nil:
		return d, fmt.Errorf("content and value exclude each other")
	case s.Value != nil && p.Result.IsError:
		return d, fmt.Errorf("a failed result has no value to replace")
	}
	if s.Content != nil {
		d.Content = *s.Content
		if d.Content == nil {
			d.Content = Content{}
		}
	}
	if s.Feedback != nil {
		d.Feedback = *s.Feedback
	}
	var err error
	if s.AdditionalContexts != nil {
		d.AdditionalContexts, err = newMessages(s.AdditionalContexts, p.Agent.(*agent), l.Instance, "additionalContexts")
	}
	return d, err
}
