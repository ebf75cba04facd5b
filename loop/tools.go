package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"dshsh/loop/model"
	"dshsh/loop/policy"
	"dshsh/loop/tool"
	"dshsh/runtime"
)

// Policy judges tool calls from Go. Its methods are called on the thread and do no
// blocking work.
type Policy interface {
	// Default is the innermost answer of tools/pre-execute.
	Default(policy.Call) policy.Decision
	// Guard runs last, on the final arguments, and cannot be skipped; its zero value has no
	// objection.
	Guard(policy.Call) policy.Decision
}

// Question is an ask that wants an answer. Immutable.
type Question struct {
	Call   ToolCall
	Reason string
	// Judged is the call as policies see it, for rules.
	Judged policy.Call
	// Guarded says that a guard asks: only a person may answer, no rule.
	Guarded bool

	preview func(ctx context.Context) (string, error)
}

// Diff is what the call would change, as a unified diff, or why it would fail; "" where the
// tool does not tell. It reads files: call it off the thread.
func (q Question) Diff(ctx context.Context) (string, error) {
	if q.preview == nil {
		return "", nil
	}
	return q.preview(ctx)
}

// Answer is an answer to a Question.
type Answer struct {
	Allow  bool
	Reason string // of a denial
	// Rule is the rule that decided, in words; "" when a person did.
	Rule string
}

// ErrNobody is what Config.Approve returns when nobody can be asked.
var ErrNobody = errors.New("nobody is there to approve it")

// parseArguments: nothing is {}, text that is no JSON is passed as a string.
func parseArguments(raw string) json.RawMessage {
	if strings.TrimSpace(raw) == "" {
		return json.RawMessage("{}")
	}
	if json.Valid([]byte(raw)) {
		return json.RawMessage(raw)
	}
	s, _ := json.Marshal(raw)
	return s
}

func (a *agent) callTarget(c ToolCall) runtime.Target {
	t := a.target()
	t.CallID = c.CallID
	return t
}

func (a *agent) callAwaiting(act *activity, c ToolCall) runtime.Target {
	t := a.awaiting(act)
	t.CallID = c.CallID
	return t
}

// errorResult is what the model sees of a failure.
func errorResult(err error) ToolResult {
	r := ToolResult{IsError: true, Error: &ToolFailure{Message: runtime.Message(err)}}
	var te *tool.Error
	if errors.As(err, &te) {
		r.Error.Info = &ErrorInfo{Name: te.Name, Code: te.Code}
	} else if code := runtime.CodeOf(err); code != "" {
		r.Error.Info = &ErrorInfo{Name: runtime.ShapeOf(err).Name, Code: code}
	}
	r.Content = []model.Block{model.Text("Error: " + r.Error.Message)}
	return r
}

// scriptResult is errorResult for what came out of a dispatch or a script's tool: a
// script's failure says which script and line.
func scriptResult(err error) ToolResult {
	r := errorResult(err)
	var se *runtime.ScriptError
	if errors.As(err, &se) {
		r.Error.Message = se.Error()
		r.Content = []model.Block{model.Text("Error: " + r.Error.Message)}
	}
	return r
}

// judged is a call on its way: either it may run, or it has its result already.
type judged struct {
	call ToolCall
	tool *callee
	res  ToolResult // of a call that does not run
	run  bool
}

// judgeCall takes a call as far as its body: policies, approval, guards. It never fails:
// what goes wrong is a result that the model sees.
func (a *agent) judgeCall(act *activity, call ToolCall) judged {
	j := judged{call: call, tool: a.findTool(act, call.Name)}
	j.res, j.run = a.permit(act, &j.call, j.tool)
	return j
}

// finish takes a call from its body's result to its outcome. started says that the body
// had started.
func (a *agent) finish(act *activity, j judged, started bool) ToolResult {
	res := a.settleResult(act, j, started)
	if j.tool.native != nil {
		if f, ok := j.tool.native.Tool.(tool.Finalizer); ok {
			return finalize(f, res)
		}
	}
	return res
}

// finalize lets the tool put the last hand to what the model sees. It is called once,
// whatever the outcome was.
func finalize(f tool.Finalizer, res ToolResult) (out ToolResult) {
	defer func() {
		if v := recover(); v != nil {
			out = errorResult(fmt.Errorf("internal error: %v", v))
		}
	}()
	content, err := f.FinalizeContent(res.Content, res.IsError)
	if err != nil {
		failed := errorResult(err)
		failed.AdditionalContexts = res.AdditionalContexts
		return failed
	}
	if content != nil {
		res.Content = content
	}
	return res
}

func (a *agent) settleResult(act *activity, j judged, started bool) ToolResult {
	if j.res.final {
		return j.res
	}
	res := a.postExecute(act, j.call, j.res)
	if act.aborted() && !res.IsError {
		// Also where a wrapper answered for the body: the listeners behind it have not all
		// seen the result.
		aborted := errorResult(tool.AbortedBeforeDispatch())
		if started {
			aborted = errorResult(tool.Aborted())
		}
		aborted.AdditionalContexts = res.AdditionalContexts
		return aborted
	}
	return res
}

// permit judges a call. Without permission it gives the result that the call gets.
func (a *agent) permit(act *activity, call *ToolCall, found *callee) (res ToolResult, run bool) {
	if failed := act.gen.Failed(); len(failed) > 0 {
		in := failed[0]
		return errorResult(fmt.Errorf("denied: the policy %s could not be loaded (%v); mend it, or switch it off with `/scripts off %s`", in.ID, in.Failed(), in.File)), false
	}
	j, rw, err := a.judge(act, *call, found)
	if act.aborted() {
		res := errorResult(tool.AbortedBeforeDispatch())
		res.final = true
		return res, false
	}
	if err != nil {
		res := errorResult(err)
		res.Error.Message = deniedBy(err)
		res.Content = []model.Block{model.Text("Error: " + res.Error.Message)}
		res.final = true
		return res, false
	}
	if j.Arguments != nil {
		call.Arguments = j.Arguments
		if _, err := a.append(RecToolRewritten, ToolRewritten{CallID: call.CallID, Arguments: j.Arguments, By: rw.names}); err != nil {
			return errorResult(err), false
		}
	}
	guarded := false
	if a.h.cfg.Policy != nil {
		// The guards look at the final arguments, whatever was said of them before.
		d := a.h.cfg.Policy.Guard(found.policyCall(*call))
		guarded = d.Kind == Ask
		if strictness(d.Kind) > strictness(j.Kind) {
			j.Kind, j.Reason = d.Kind, d.Reason
		}
	}
	if j.Kind == Ask && call.By == ByUser && !guarded {
		j.Kind = Allow // who would be asked is who asks for it
	}
	if j.Kind == Ask {
		j = a.approve(act, *call, found, j.Reason, guarded)
	}
	if act.aborted() {
		return errorResult(tool.AbortedBeforeDispatch()), false
	}
	if j.Kind == Deny {
		return errorResult(errors.New(orDefault(j.Reason, "denied"))), false
	}
	return ToolResult{}, true
}

// deniedBy says which script, line and why.
func deniedBy(err error) string {
	var se *runtime.ScriptError
	if errors.As(err, &se) {
		return "denied, because a policy failed: " + se.Error()
	}
	return "denied, because a policy failed: " + runtime.Message(err)
}

func orDefault(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

// judge runs tools/pre-execute, a second time on arguments that were rewritten, only to
// judge them. The stricter of both passes stands.
func (a *agent) judge(act *activity, call ToolCall, found *callee) (Judgement, *rewrites, error) {
	rw := &rewrites{by: map[*runtime.Listener]bool{}}
	run := func(p PreExecutePayload) (Judgement, error) {
		return PreExecute.Run(a.h.Host, a.callAwaiting(act, call), p, func(p PreExecutePayload) (Judgement, error) {
			j := Judgement{Kind: Allow}
			if pol := a.h.cfg.Policy; pol != nil {
				d := pol.Default(found.policyCall(p.ToolCall))
				j.Kind, j.Reason = d.Kind, d.Reason
			}
			if p.changed {
				j.Arguments = p.Arguments
			}
			return j, nil
		})
	}
	first, err := run(PreExecutePayload{ToolCall: call, Pass: 1, rewrites: rw})
	if err != nil || first.Kind == Deny || first.Arguments == nil {
		return first, rw, err
	}
	call.Arguments = first.Arguments
	second, err := run(PreExecutePayload{ToolCall: call, Pass: 2, rewrites: rw})
	if err != nil {
		return second, rw, err
	}
	if strictness(first.Kind) > strictness(second.Kind) {
		// What was to be asked about the original arguments is asked about the final ones.
		second.Kind, second.Reason = first.Kind, first.Reason
	}
	second.Arguments = first.Arguments
	return second, rw, nil
}

// approve puts an ask to approval/request, and innermost to a person, who alone answers
// what a guard asks.
func (a *agent) approve(act *activity, call ToolCall, found *callee, reason string, guarded bool) Judgement {
	id := a.newID("ask-")
	if _, err := a.append(RecApprovalAsked, ApprovalAsked{ID: id, ToolName: call.Name, CallID: call.CallID, Reason: reason}); err != nil {
		return Judgement{Kind: Deny, Reason: err.Error()}
	}
	t := a.callAwaiting(act, call)
	defer act.clock.pause()()
	ap, err := ApprovalRequest.Run(a.h.Host, t, ApprovalPayload{ToolCall: call, Reason: reason, guarded: guarded}, func(p ApprovalPayload) (Approval, error) {
		return a.askPerson(act, p, found)
	})
	switch {
	case act.aborted():
		ap = Approval{Kind: Deny, Reason: "cancelled while it waited for approval", outcome: "cancelled"}
	case err != nil:
		ap = Approval{Kind: Deny, Reason: deniedBy(err), outcome: "unavailable"}
	case ap.Kind == Deny && ap.outcome == "":
		ap.outcome = "rejected"
	case ap.Kind == Allow:
		ap.outcome = "allowed-once"
	}
	if _, err := a.append(RecApprovalDecided, ApprovalDecided{ID: id, Outcome: ap.outcome, Reason: ap.Reason, Rule: ap.rule}); err != nil {
		return Judgement{Kind: Deny, Reason: err.Error()}
	}
	return Judgement{Kind: ap.Kind, Reason: ap.Reason}
}

func (a *agent) askPerson(act *activity, p ApprovalPayload, found *callee) (Approval, error) {
	why := orDefault(p.Reason, p.Name+" requires approval")
	if a.h.cfg.Approve == nil {
		return Approval{Kind: Deny, Reason: why + " (" + ErrNobody.Error() + ")", outcome: "unavailable"}, nil
	}
	q := Question{Call: p.ToolCall, Reason: p.Reason, Judged: found.policyCall(p.ToolCall), Guarded: p.guarded}
	if pv, ok := q.Judged.Tool.(tool.Previewer); ok {
		x := &tool.Exec{CallID: p.CallID, AgentID: a.id, SavedDirs: q.Judged.SavedDirs}
		q.preview = func(ctx context.Context) (string, error) { return pv.Preview(ctx, p.Arguments, x) }
	}
	ans, err := a.h.cfg.Approve(act.ctx, q)
	switch {
	case errors.Is(err, ErrNobody):
		return Approval{Kind: Deny, Reason: why + " (" + runtime.Message(err) + ")", outcome: "unavailable"}, nil
	case err != nil:
		return Approval{}, err
	case ans.Allow:
		return Approval{Kind: Allow, rule: ans.Rule}, nil
	}
	return Approval{Kind: Deny, rule: ans.Rule, Reason: orDefault(ans.Reason, "the user said no"), outcome: "rejected"}, nil
}

// runBody runs the tool inside tools/execute. The log is synced first where the tool may
// change things.
func (a *agent) runBody(act *activity, call ToolCall, found *callee) (res ToolResult, ran bool) {
	body := errorResult(tool.Aborted()) // until it has ended
	res, err := ToolsExecute.Run(a.h.Host, a.callAwaiting(act, call), call, func(c ToolCall) (ToolResult, error) {
		if act.aborted() {
			return errorResult(tool.AbortedBeforeDispatch()), nil
		}
		ran = true
		body = found.run(a, act, call)
		return body, nil
	})
	switch {
	case err != nil && act.aborted() && ran:
		return body, ran // the dispatch ended with the turn; what the body came to is true
	case err != nil && act.aborted():
		return errorResult(tool.AbortedBeforeDispatch()), ran
	case err != nil:
		return scriptResult(err), ran
	}
	return res, ran
}

// unseen is the result of a cancelled call that tools/post-execute was to look at and did
// not: of a failure only the message is kept, without what had been printed, since a
// redactor fails closed.
func (a *agent) unseen(t runtime.Target, res ToolResult) ToolResult {
	if res.IsError && len(res.Content) > 1 && PostExecute.Heard(a.h.Host, t) {
		res.Content = res.Content[:1:1]
	}
	return res
}

// postExecute offers the result to tools/post-execute.
func (a *agent) postExecute(act *activity, call ToolCall, res ToolResult) ToolResult {
	t := a.callAwaiting(act, call)
	if act.aborted() {
		return a.unseen(t, res)
	}
	d, err := PostExecute.Run(a.h.Host, t, PostPayload{ToolCall: call, Result: res}, func(p PostPayload) (PostDecision, error) {
		return PostDecision{Kind: "accept", Content: p.Result.Content}, nil
	})
	if err != nil {
		if act.aborted() {
			return a.unseen(t, res)
		}
		failed := scriptResult(err)
		failed.AdditionalContexts = res.AdditionalContexts
		return failed
	}
	if d.Kind == "block" {
		blocked := ToolResult{IsError: true, Content: d.Feedback, AdditionalContexts: d.AdditionalContexts}
		msg := model.PlainText(d.Feedback)
		if msg == "" {
			msg = "the result was blocked by a policy"
			blocked.Content = []model.Block{model.Text("Error: " + msg)}
		}
		blocked.Error = &ToolFailure{Message: msg}
		return blocked
	}
	if d.Content != nil {
		res.Content = d.Content
	}
	if d.Value != nil {
		res.Value = d.Value
		res.Content = []model.Block{model.Text(string(d.Value))}
	}
	res.AdditionalContexts = append(res.AdditionalContexts, d.AdditionalContexts...)
	return res
}

func (c *callee) policyCall(call ToolCall) policy.Call {
	pc := policy.Call{Name: call.Name, Args: call.Arguments, AgentID: call.Agent.ID(), ScriptTool: c.script != nil, SavedDirs: call.Agent.(*agent).saved}
	if c.native != nil {
		pc.Tool = c.native.Tool
	}
	return pc
}

// run checks the arguments and runs the body: Go's off the thread, a script's on it.
func (c *callee) run(a *agent, act *activity, call ToolCall) ToolResult {
	x := &tool.Exec{CallID: call.CallID, AgentID: a.id, FilesDir: filesDir(a.log.Path()), SavedDirs: a.saved}
	a.watchFiles(act, call, x)
	var res tool.Result
	var err error
	switch {
	case c.script != nil:
		res, err = c.script.execute(a, act, call, x)
	case c.native != nil && c.native.Tool == RunCode():
		res, err = c.runCode(a, act, call, x)
	case c.native != nil:
		res, err = c.runNative(a, act, call, x)
	default:
		err = tool.UnknownTool(call.Name, c.known)
	}
	if err == nil {
		err = checkOutput(call.Name, res)
	}
	if todos, ok := x.Todos(); ok && err == nil {
		_, err = a.append(RecTodos, Todos{todos})
	}
	var out ToolResult
	if err != nil {
		out = scriptResult(err)
		out.Content = append(out.Content, res.Content...)
	} else {
		out = ToolResult{Content: res.Content, Value: res.Value}
	}
	if exceeds(out.Content) {
		// It is written to the disk. Where the thread is closed nobody gets the result any more.
		_ = a.h.Thread.Away(func() { out.Content = boundContent(out.Content, x) })
	}
	out.Meta = res.Meta
	out.AdditionalContexts = x.Deferred()
	out.ConcludesTurn = x.Concluded()
	return out
}

// checkOutput refuses what cannot be recorded.
func checkOutput(name string, res tool.Result) error {
	if res.Value != nil && !json.Valid(res.Value) || res.Meta != nil && !json.Valid(res.Meta) {
		return tool.InvalidOutput("the tool %s returned what is no JSON value", name)
	}
	if _, err := marshal(res.Content); err != nil {
		return tool.InvalidOutput("the tool %s returned content that is no JSON: %v", name, err)
	}
	for i := range res.Content {
		res.Content[i].Text = model.Scrub(res.Content[i].Text)
	}
	return nil
}

func (c *callee) runNative(a *agent, act *activity, call ToolCall, x *tool.Exec) (res tool.Result, err error) {
	t := c.native.Tool
	if err := c.native.schema.Validate(call.Arguments); err != nil {
		return res, err
	}
	ctx := act.ctx
	if to, ok := t.(tool.Timeouter); ok {
		if d := to.Timeout(call.Arguments); d > 0 {
			c, cancel := context.WithTimeoutCause(ctx, d, fmt.Errorf("%s: %w after %v", call.Name, context.DeadlineExceeded, d))
			defer cancel()
			ctx = c
		}
	}
	reads := false
	if r, ok := t.(tool.Reader); ok {
		reads = r.ReadOnly(call.Arguments)
	}
	werr := a.h.Thread.Away(func() {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("internal error in tool %s: %v", call.Name, v)
			}
		}()
		if !reads {
			// Before something may change the record of why must be on disk.
			if err = a.log.Sync(); err != nil {
				return
			}
		}
		res, err = t.Execute(ctx, call.Arguments, x)
	})
	if werr != nil {
		return res, werr
	}
	return res, err
}

// nativeTool is a Go tool with its compiled parameters. Immutable.
type nativeTool struct {
	tool.Tool
	schema *tool.Schema
}

func newNativeTool(t tool.Tool) (*nativeTool, error) {
	spec := t.Spec()
	s, err := tool.CompileSchema(spec.Name, spec.Parameters)
	return &nativeTool{t, s}, err
}

// filesDir is the folder beside a log, which is made when something is put into it.
func filesDir(path string) string {
	if path == "" {
		return ""
	}
	return strings.TrimSuffix(path, ".jsonl") + ".files"
}
