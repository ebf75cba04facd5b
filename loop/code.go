package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"dshsh/loop/model"
	"dshsh/loop/tool"
	"dshsh/runtime"
)

const (
	codeName    = "run_code"
	codeTimeout = 2 * time.Minute
	codeLongest = 10 * time.Minute
	codeCalls   = 1000    // of tools, by one program
	codePrinted = 1 << 20 // bytes that are kept of what one prints
)

// RunCode is the tool run_code: it runs a program, in JavaScript or TypeScript, whose
// tools.NAME(args) are calls through the same policies as the model's own. The loop runs
// it itself, with the host's engine for .js files; given to a host without one, calls
// of it fail. Any goroutine.
func RunCode() tool.Tool { return codeTool{} }

// codeTool is run_code's description. Immutable.
type codeTool struct{}

// Spec implements tool.Tool.
func (codeTool) Spec() model.ToolSpec {
	return model.ToolSpec{Name: codeName,
		Description: "Runs a JavaScript program that calls other tools: `await tools.NAME({...})` takes the arguments that the tool NAME takes " +
			"(`tools['a-b']` where the name is no identifier); a call that fails or is denied throws. It gives an object: read {content, lines, truncated}, bash {exitCode, output}, " +
			"ls {entries:[{name, ...}]}, glob {paths}, grep {matches, lines, files}; other tools, and results that a policy changed, give text. " +
			"Use it for many calls whose results need not all be read: loops, filters, counts. Independent calls may run side by side: `await Promise.all([...])`. " +
			"The result is what console.log prints and what the program returns (top-level `return` and `await` work). " +
			"There are no modules and no file, process or network access but through tools. TypeScript is accepted. run_code cannot be called from a program.",
		Parameters: json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{`+
			`"code":{"type":"string","minLength":1,"description":"the program"},`+
			`"timeoutMs":{"type":"integer","minimum":1,"maximum":%d,"description":"limit in milliseconds, without the time that calls wait for approval; %d if not given"}`+
			`},"required":["code"],"additionalProperties":false}`, codeLongest.Milliseconds(), codeTimeout.Milliseconds()))}
}

// ReadOnly implements tool.Reader: what a program changes, its calls change.
func (codeTool) ReadOnly(json.RawMessage) bool { return true }

// Execute implements tool.Tool; the loop does not call it.
func (codeTool) Execute(context.Context, json.RawMessage, *tool.Exec) (tool.Result, error) {
	return tool.Result{}, errors.New("run_code runs in the loop alone")
}

// What a program's text stands in: one line, so that the lines are the author's.
const (
	codeHead = "program(async () => {"
	codeTail = "\n});"
)

var errCodeOver = errors.New("the program is over")

// runCode runs a program.
func (c *callee) runCode(a *agent, act *activity, call ToolCall, x *tool.Exec) (tool.Result, error) {
	if err := c.native.schema.Validate(call.Arguments); err != nil {
		return tool.Result{}, err
	}
	args := struct {
		Code      string `json:"code"`
		TimeoutMs int64  `json:"timeoutMs"`
	}{TimeoutMs: codeTimeout.Milliseconds()}
	if err := json.Unmarshal(call.Arguments, &args); err != nil {
		return tool.Result{}, tool.InvalidArgs("%s: %v", codeName, err)
	}
	prog, file, err := a.compileCode(args.Code)
	if err != nil {
		return tool.Result{}, codeError(err, args.Code)
	}
	limit := time.Duration(args.TimeoutMs) * time.Millisecond
	ctx, cancel := context.WithCancelCause(act.ctx)
	defer cancel(errCodeOver)
	p := &codeRun{a: a, root: call, x: x, wake: make(chan struct{}), cancel: cancel}
	sub := *act
	sub.ctx, sub.signal = ctx, runtime.NewSignal(ctx, abortReason)
	sub.clock = newCodeClock(limit, func() {
		cancel(fmt.Errorf("%w after %v, without the time that calls waited for approval", runtime.ErrDeadline, limit))
	})
	defer sub.clock.stop()
	defer context.AfterFunc(ctx, func() { a.h.Thread.Post(sub.signal.Fire) })()
	p.act = &sub
	val, err := p.run(runtime.ScriptFile{ID: codeName, File: file, Program: prog})
	res := tool.Result{}
	text := p.out.String()
	if err != nil {
		if text != "" {
			res.Content = []model.Block{model.Text("\n" + text)}
		}
		if act.aborted() {
			return res, tool.Aborted()
		}
		if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errCodeOver) {
			err = context.Cause(ctx)
		}
		return res, codeError(err, args.Code)
	}
	if val != nil {
		if res.Value, err = runtime.MarshalValue(val); err != nil {
			return res, codeError(fmt.Errorf("what the program returned is no JSON value: %w", err), args.Code)
		}
		text += runtime.Display(val)
	}
	res.Content = []model.Block{model.Text(strings.TrimSuffix(text, "\n"))}
	return res, nil
}

// compileCode compiles a program, as TypeScript where it is no JavaScript.
func (a *agent) compileCode(code string) (prog runtime.Program, file string, err error) {
	werr := a.h.Thread.Away(func() {
		var first error
		for _, file = range []string{codeName + ".js", codeName + ".ts"} {
			var e runtime.Engine
			if e, err = a.h.EngineFor(file); err != nil {
				break
			}
			if prog, err = e.Compile(runtime.Source{ID: codeName, File: file, Code: []byte(codeHead + code + codeTail)}); err == nil {
				return
			}
			if first == nil {
				first = err
			}
		}
		if first != nil {
			err = first
		}
	})
	return prog, file, errors.Join(werr, err)
}

// codeError is a program's failure, with the line of it that failed.
func codeError(err error, code string) error {
	text := runtime.Message(err)
	var se *runtime.ScriptError
	if errors.As(err, &se) {
		text = se.Error()
		if se.Name != "" && se.Name != "Error" && !strings.HasPrefix(se.Message, se.Name) {
			text = strings.TrimSuffix(text, se.Message) + se.Name + ": " + se.Message
		}
		lines := strings.Split(code, "\n")
		if n := se.Pos.Line; n > 0 && n <= len(lines) && path.Base(se.Pos.File) == se.Pos.File {
			text += fmt.Sprintf("\n    %d | %s", n, runtime.Brief(strings.TrimSpace(lines[n-1])))
		}
	}
	// Without a cause: what a failed call was coded with is not the program's.
	return &tool.Error{Name: "ProgramError", Code: "PROGRAM_FAILED", Message: model.Scrub(text)}
}

// codeRun is one run of a program. Used on the host thread.
type codeRun struct {
	a      *agent
	act    *activity // as the turn's, but ends with the program
	root   ToolCall
	x      *tool.Exec
	cancel context.CancelCauseFunc
	out    strings.Builder // what it printed
	cut    bool            // and not all of it

	main    runtime.Func
	calls   int // made so far
	queue   []*codeCall
	flying  []*codeCall
	driving bool
	over    bool          // it takes no more calls
	wake    chan struct{} // closed, and replaced, when a call comes or ends
}

// codeCall is one call that a program makes.
type codeCall struct {
	slot
	rec   CodeStart
	asked bool // whether it may run beside others, which parallel says
	ended chan struct{}
	value runtime.Value
	err   error
}

// run runs the program to its end: until what it returned has settled and its calls have
// ended. Calls that it has not awaited are waited for, unless it failed, which cancels
// them.
func (p *codeRun) run(f runtime.ScriptFile) (runtime.Value, error) {
	th := p.a.h.Thread
	main := &runtime.GoFunc{Name: "program", Fn: func(c *runtime.Call) (runtime.Value, error) {
		if p.main != nil {
			return nil, errors.New("program: it is running already")
		}
		return nil, c.Unpack("fn", &p.main)
	}}
	in, err := p.a.h.LoadSandbox(f, &runtime.Sandbox{
		Globals: map[string]runtime.Value{"program": main, "tools": &codeTools{class: p.toolsClass()}},
		Log:     func(_, text string) { p.print(text) },
		Failed:  func(err error) { p.print("uncaught: " + runtime.ShapeOf(err).Message) },
	})
	if err != nil {
		return nil, err
	}
	defer p.a.h.Unload(in)
	hook := runtime.NewHook(p.act.ctx, p.a, 0)
	defer hook.End()
	val, err := in.VM().Call(hook, p.main)
	if err != nil {
		p.over = true
		p.cancel(errCodeOver)
	}
	old := th.SetHook(nil) // bodies that have begun are waited for, whatever ends
	defer th.SetHook(old)
	for p.driving {
		if werr := th.Wait(p.wake); werr != nil {
			return nil, errors.Join(err, werr)
		}
	}
	p.over = true
	if err == nil && p.act.aborted() {
		err = context.Cause(p.act.ctx)
	}
	return val, err
}

func (p *codeRun) print(text string) {
	if p.cut {
		return
	}
	if p.out.Len()+len(text) > codePrinted {
		p.cut = true
		text = fmt.Sprintf("[what it printed beyond %d bytes is left out]", codePrinted)
	}
	p.out.WriteString(model.Scrub(text))
	p.out.WriteByte('\n')
}

// codeTools is the object "tools" of a program.
type codeTools struct{ class *runtime.Class }

// Class implements runtime.Object.
func (t *codeTools) Class() *runtime.Class { return t.class }

// toolsClass has a method for each tool of the agent.
func (p *codeRun) toolsClass() *runtime.Class {
	c := &runtime.Class{Name: "tools"}
	for name := range p.a.visible(p.act.gen) {
		c.Members = append(c.Members, &runtime.Member{Name: name, Waits: true,
			Fn: func(call *runtime.Call) (runtime.Value, error) { return p.call(name, call.Args) }})
	}
	return c
}

// call is tools.NAME(args).
func (p *codeRun) call(name string, args []runtime.Value) (runtime.Value, error) {
	raw := json.RawMessage("{}")
	switch {
	case name == codeName:
		return nil, errors.New("run_code cannot be called from a program")
	case p.over:
		return nil, errCodeOver
	case p.calls >= codeCalls:
		return nil, fmt.Errorf("a program may call tools %d times", codeCalls)
	case len(args) > 1:
		return nil, fmt.Errorf("tools.%s takes one object of arguments, got %d values", name, len(args))
	case len(args) == 1 && args[0] != nil:
		var err error
		if raw, err = runtime.MarshalValue(args[0]); err != nil {
			return nil, fmt.Errorf("tools.%s: the arguments are no JSON value: %w", name, err)
		}
	}
	p.calls++
	id := fmt.Sprintf("%s.%d", p.root.CallID, p.calls)
	c := &codeCall{ended: make(chan struct{}), rec: CodeStart{RootCallID: p.root.RootCallID, ParentCallID: p.root.CallID, SubCallID: id, Name: name, Arguments: raw}}
	c.block = model.Block{Type: model.BlockToolCall, ID: id, Name: name, Arguments: string(raw)}
	c.done = make(chan struct{})
	p.queue = append(p.queue, c)
	p.bump()
	if !p.driving {
		p.driving = true
		p.a.h.Thread.Start(p.drive)
	}
	if err := p.a.h.Thread.Wait(c.ended); err != nil {
		return nil, err
	}
	return c.value, c.err
}

// bump wakes who waits for a change.
func (p *codeRun) bump() {
	close(p.wake)
	p.wake = make(chan struct{})
}

// drive starts and commits calls by the rules of runCalls, until there are none.
func (p *codeRun) drive() {
	th := p.a.h.Thread
	th.SetHook(nil) // it belongs to no single call
	defer func() {
		p.driving = false
		p.bump()
	}()
	for len(p.queue) > 0 || len(p.flying) > 0 {
		if len(p.queue) > 0 && p.mayStart(p.queue[0]) {
			c := p.queue[0]
			p.queue = p.queue[1:]
			p.start(c)
			continue
		}
		c := p.flying[0]
		select {
		case <-c.done:
			p.flying = p.flying[1:]
			p.commit(c)
		default:
			if err := th.Wait(p.wake); err != nil {
				p.fail(err)
				return
			}
		}
	}
}

// fail ends every call that has not: the thread is closed.
func (p *codeRun) fail(err error) {
	for _, c := range append(p.flying, p.queue...) {
		c.err = err
		close(c.ended)
	}
	p.flying, p.queue = nil, nil
}

func (p *codeRun) mayStart(c *codeCall) bool {
	parallel := len(p.flying) > 0 && p.flying[len(p.flying)-1].parallel
	return mayStart(len(p.flying), p.a.h.parallel, parallel, func() bool { return p.safe(c) })
}

// safe asks once whether a call may run beside others.
func (p *codeRun) safe(c *codeCall) bool {
	if !c.asked {
		c.asked, c.parallel = true, p.a.concurrencySafe(p.act, c.block)
	}
	return c.parallel
}

// start records a call, has it judged, and begins its body.
func (p *codeRun) start(c *codeCall) {
	p.safe(c)
	p.flying = append(p.flying, c)
	if _, c.err = p.a.append(RecCodeStart, c.rec); c.err != nil {
		close(c.done)
		return
	}
	c.judged = p.a.judgeCall(p.act, ToolCall{Agent: p.a, Turn: p.act.turn, Step: p.act.step, CallID: c.rec.SubCallID, RootCallID: c.rec.RootCallID,
		Name: c.rec.Name, Arguments: c.rec.Arguments, Signal: p.act.signal})
	if !c.judged.run {
		close(c.done)
		return
	}
	p.a.h.Thread.Start(func() {
		defer p.bump()
		defer close(c.done)
		c.judged.res, c.started = p.a.runBody(p.act, c.judged.call, c.judged.tool)
	})
}

// commit takes a call whose body has ended to its outcome, records it, and hands it to the
// program.
func (p *codeRun) commit(c *codeCall) {
	defer close(c.ended)
	if c.err != nil {
		return
	}
	a, call := p.a, c.judged.call
	body := c.judged.res
	res := a.finish(p.act, c.judged, c.started)
	ToolsResult.Fire(a.h.Host, a.callTarget(call), PostPayload{ToolCall: call, Result: res})
	rec := CodeDispatch{CodeStart: c.rec, IsError: res.IsError, Content: p.logged(call, res)}
	if _, c.err = a.append(RecCodeDispatch, rec); c.err != nil {
		return
	}
	for _, m := range res.AdditionalContexts {
		if m.Source.Kind == "" || m.Source.Kind == model.SourceUser {
			m.Source = model.Source{Kind: model.SourcePlugin, Plugin: c.rec.Name}
		}
		p.x.DeferContext(m)
	}
	if res.IsError {
		c.err = callError(res)
		return
	}
	if res.ConcludesTurn {
		p.x.ConcludeTurn()
	}
	if res.Value != nil && sameContent(body.Content, res.Content) {
		// A copy of its own: programs sort and change what they get.
		c.err = json.Unmarshal(res.Value, &c.value)
		return
	}
	// What a policy made of the content holds for the program too.
	c.value = model.PlainText(res.Content)
}

// logged is the copy of a result that the log keeps.
func (p *codeRun) logged(call ToolCall, res ToolResult) []model.Block {
	content := Content(res.Content)
	if content == nil {
		content = Content{}
	}
	out, err := CodeLog.Run(p.a.h.Host, p.a.callAwaiting(p.act, call), CodeLogPayload{ToolCall: call, IsError: res.IsError, Content: content},
		func(c CodeLogPayload) (LoggedCopy, error) { return LoggedCopy{Content: c.Content}, nil })
	if err != nil || out.Content == nil {
		return content
	}
	return out.Content
}

func callError(res ToolResult) error {
	// The content, not the error: it is what policies have let through.
	e := &runtime.ScriptError{Name: "ToolError", Message: strings.TrimPrefix(model.PlainText(res.Content), "Error: ")}
	if res.Error != nil && res.Error.Info != nil {
		e.Name, e.Code = res.Error.Info.Name, res.Error.Info.Code
	}
	return e
}

func sameContent(a, b []model.Block) bool {
	x, err1 := marshal(a)
	y, err2 := marshal(b)
	return err1 == nil && err2 == nil && string(x) == string(y)
}

// codeClock is the wall limit of a program. It stands while calls wait for approval. Used
// on the host thread; nil is no limit.
type codeClock struct {
	left   time.Duration
	since  time.Time
	timer  *time.Timer
	paused int
	expire func()
}

func newCodeClock(limit time.Duration, expire func()) *codeClock {
	return &codeClock{left: limit, since: time.Now(), timer: time.AfterFunc(limit, expire), expire: expire}
}

func (c *codeClock) stop() { c.timer.Stop() }

// pause stops the clock until what it returns is called.
func (c *codeClock) pause() (resume func()) {
	if c == nil {
		return func() {}
	}
	if c.paused++; c.paused == 1 {
		c.timer.Stop()
		c.left -= time.Since(c.since)
	}
	return func() {
		if c.paused--; c.paused == 0 {
			c.since = time.Now()
			c.timer = time.AfterFunc(max(c.left, 0), c.expire)
		}
	}
}
