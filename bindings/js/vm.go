package js

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/dop251/goja"
	"github.com/dop251/goja/parser"

	"dshsh/runtime"
)

// maxStack is how deep calls may nest. Beyond it goja raises an error that the script
// cannot catch.
const maxStack = 2000

// vm is one script's virtual machine. Used on the host thread only.
type vm struct {
	rt   *goja.Runtime
	in   *runtime.Instance
	th   *runtime.Thread
	prog *program

	depth   int   // entries open, over all goroutines: they are nested strictly
	cur     *call // on whose account script code runs; follows awaits
	curs    []saved
	pending map[*call]struct{} // calls whose promise has not settled
	loading bool
	closed  bool // Close was called
	dead    bool // no microtask runs in it any more
	wounds  []wound
	after   []func()   // run at the outermost exit, on the thread, with no frame open
	loose   []rejected // promises

	objects         objectCache
	overdue         atomic.Bool // an interrupt is under way
	replaceOriginal goja.Callable
	joining         []*goja.Object // lists that are being made texts of, outermost first

	errKey     *goja.Symbol  // keys the Go error behind an Error object
	guards     guardSet      // installed
	noFunction *goja.Object  // stands for Function
	awaiter    goja.Callable // made when first needed
	noop       goja.Callable
	modules    map[string]*goja.Object // required files, by path
	running    map[string]bool         // those that have not run to their end
	misses     runtime.Misses
	main       *goja.Object // the script's own module object
	preludeObj *goja.Object
	timers     map[int64]*timer // that have not fired, or are repeated
	timerN     int64
	due        []func()  // timers of hooks that run next, in order
	since      time.Time // what timers that are set in this stay count from; zero = not asked yet

	visits  []*visit
	blank   runtime.Meter // what the meter of a visit starts from
	clearFn func()
}

// wound is an interrupt, a stack overflow or a panic of Go that has gone through goja and
// has yet to be dealt with.
type wound struct {
	guilty *call // who is to be told, or nil
	told   bool  // the caller of the entry has been
	err    error
}

// NewVM implements runtime.Program.
func (p *program) NewVM(in *runtime.Instance) (runtime.VM, error) {
	v := &vm{
		rt: goja.New(), in: in, th: in.Host().Thread, prog: p,
		pending: map[*call]struct{}{},
	}
	v.blank = *in.NewMeter(func() {
		v.overdue.Store(true)
		v.rt.Interrupt(runtime.ErrDeadline)
	})
	v.clearFn = func() {
		if v.depth == 0 {
			v.overdue.Store(false)
			v.rt.ClearInterrupt()
		}
	}
	v.rt.SetMaxCallStackSize(maxStack)
	v.rt.SetAsyncContextTracker((*tracker)(v))
	v.rt.SetPromiseRejectionTracker(v.rejection)
	v.rt.SetTimeSource(in.Host().Now)
	v.rt.SetRandSource(in.Random)
	v.rt.SetParserOptions(parser.WithDisableSourceMaps)
	if err := v.protect(func() error { v.globals(); v.installGuards(p.main.guards); return nil }); err != nil {
		return nil, fmt.Errorf("%s: preparing the virtual machine: %w", in.ID, err)
	}
	return v, nil
}

// Load implements runtime.VM.
func (v *vm) Load() error {
	v.loading = true
	defer func() { v.loading = false }()
	err := v.enter(&call{}, func() error {
		return v.runFile(v.prog.main, v.mainModule())
	})
	if err == nil && len(v.loose) > 0 {
		// Nothing can wait while loading, so nobody will ever look at it.
		err = v.enter(nil, func() error { return v.errorOfValue(v.loose[0].p.Result(), nil) })
	}
	v.loose = nil
	return err
}

// Where implements runtime.VM.
func (v *vm) Where() runtime.Position {
	if v.depth == 0 {
		return runtime.Position{}
	}
	var buf [4]goja.StackFrame
	for _, f := range v.rt.CaptureCallStack(len(buf), buf[:0]) {
		if p, ok := framePos(f); ok {
			return p
		}
	}
	for _, f := range v.rt.CaptureCallStack(0, nil) {
		if p, ok := framePos(f); ok {
			return p
		}
	}
	return runtime.Position{}
}

// Close implements runtime.VM.
func (v *vm) Close() {
	v.closed = true
	for c := range v.pending {
		c.late = nil // an observer that is cut off by the end of its script has not failed
	}
	v.failPending(runtime.ErrUnloaded)
	for _, t := range v.timers {
		t.stop()
	}
	v.timers, v.loose = nil, nil
}

// enter runs fn, which calls into the Runtime, as one stay in the VM on account of c (nil
// = nobody's). The error is nil, or a *runtime.ScriptError, or wraps one of the runtime's
// causes.
func (v *vm) enter(c *call, fn func() error) error {
	switch {
	case v.closed:
		return runtime.ErrUnloaded
	case v.dead:
		return runtime.ErrLost
	}
	return v.stay(c, true, fn)
}

// resume is enter for what nobody waits for: the settling of a promise. Its failure is
// told to the call that goes on, or reported.
func (v *vm) resume(c *call, fn func() error) {
	if v.closed || v.dead {
		return // nobody is there to hear it
	}
	if err := v.stay(c, false, fn); err != nil {
		v.report("script", err)
	}
}

// stay is enter and resume. With tell set the caller is told of an interrupt; without,
// whoever it hit is.
func (v *vm) stay(c *call, tell bool, fn func() error) error {
	e := v.entry()
	v.th.Enter(e)
	if v.depth == 0 {
		v.since = time.Time{}
	}
	v.depth++
	curs := len(v.curs)
	v.push(c)
	err := v.protect(fn)
	_, panicked := err.(*hostPanic)
	fatal := panicked || isFatal(err)
	if !fatal {
		err = v.scriptError(err) // reads what was thrown, which may be script code
		fatal = isFatal(err)
	}
	guilty := v.cur
	v.curs = v.curs[:curs+1] // an interrupt skips the tracker's Exited
	v.pop()
	v.depth--
	v.th.Exit(e, v.clearFn)
	if fatal {
		serr := v.scriptError(err)
		if errors.Is(v.th.Cause(e.Meter), runtime.ErrMemory) {
			serr = v.outOfMemory(serr)
		}
		v.wounds = append(v.wounds, wound{guilty, tell && guilty == c, serr})
		if v.depth > 0 {
			// The stack below is in a state that goja did not foresee: it ends as well.
			v.rt.Interrupt(runtime.ErrLost)
		}
		switch {
		case !tell:
			err = nil
		case guilty == c:
			err = serr
		default:
			err = runtime.ErrLost
		}
	}
	if v.depth == 0 {
		v.outermost()
	}
	return err
}

// visit is an entry with its meter, kept for the next stay at the same depth.
type visit struct {
	entry runtime.Entry
	meter runtime.Meter
}

func (v *vm) entry() *runtime.Entry {
	if v.depth == len(v.visits) {
		v.visits = append(v.visits, &visit{})
	}
	x := v.visits[v.depth]
	x.meter = v.blank
	x.entry = runtime.Entry{VM: v, NoWait: true, Meter: &x.meter}
	return &x.entry
}

// outermost does what has to wait until no frame is open.
func (v *vm) outermost() {
	if len(v.wounds) > 0 {
		v.heal()
	}
	for v.depth == 0 && (len(v.after) > 0 || len(v.loose) > 0 && !v.loading && !v.closed) {
		v.runAfter()
		if !v.loading {
			v.reportLoose()
		}
	}
}

func (v *vm) runAfter() {
	after := v.after
	v.after = nil
	for _, fn := range after {
		fn()
	}
}

// heal follows an interrupt or a stack overflow: goja has dropped its queue of jobs, so
// every pending call is lost; and if that happened inside an async function no job will
// ever run again, and the script needs a new VM.
func (v *vm) heal() {
	w := v.wounds
	v.wounds, v.loose = nil, nil
	for _, x := range w {
		switch {
		case x.told:
		case x.guilty != nil && !x.guilty.over:
			x.guilty.settle(v, nil, x.err)
		default:
			v.after = append(v.after, func() { v.report("script", x.err) })
		}
	}
	v.failPending(runtime.ErrLost)
	v.runAfter()
	if v.loading || v.closed || v.answers() {
		return
	}
	v.dead = true
	v.in.Rebuild(w[0].err)
}

// answers probes whether microtasks still run.
func (v *vm) answers() bool {
	ok := false
	_ = v.protect(func() error {
		probe, err := v.helper(laterProgram)
		if err != nil {
			return err
		}
		_, err = probe(goja.Undefined(), v.rt.ToValue(func(goja.FunctionCall) goja.Value {
			ok = true
			return goja.Undefined()
		}))
		return err
	})
	v.rt.ClearInterrupt()
	return ok
}

// hostPanic is a panic of Go code that has gone through goja, which is not made for it:
// whether the VM still works has to be tried.
type hostPanic struct{ p *runtime.PanicError }

func (h *hostPanic) Error() string { return h.p.Error() }
func (h *hostPanic) Unwrap() error { return h.p }

// protect turns what goja and host code panic with into errors.
func (v *vm) protect(fn func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *goja.Exception:
			err = p
		case *goja.InterruptedError:
			err = p
		case *goja.StackOverflowError:
			err = p
		case goja.Value:
			err = v.errorOfValue(p, nil)
		default:
			if e, ok := p.(error); ok && isFatal(e) {
				err = e
				return
			}
			err = &hostPanic{&runtime.PanicError{Value: p, Stack: debug.Stack()}}
		}
	}()
	return fn()
}

// guardNative is deferred by every Go function that goja calls: a panic of host code
// becomes a JavaScript exception; goja's own go on.
func (v *vm) guardNative() {
	switch p := recover().(type) {
	case nil:
	case goja.Value, *goja.Exception, *goja.InterruptedError, *goja.StackOverflowError:
		panic(p)
	case error:
		if isFatal(p) {
			panic(p)
		}
		v.nativePanic(p)
	default:
		v.nativePanic(p)
	}
}

func (v *vm) nativePanic(p any) {
	pe := &runtime.PanicError{Value: p, Stack: debug.Stack()}
	v.report("script", pe)
	panic(v.throwable(pe))
}

// isFatal tells an interrupt or a stack overflow, which no script can catch.
func isFatal(err error) bool {
	if _, thrown := err.(*goja.Exception); thrown || err == nil {
		return false // and its Unwrap may run script code
	}
	var ie *goja.InterruptedError
	var so *goja.StackOverflowError
	return errors.As(err, &ie) || errors.As(err, &so)
}

func (v *vm) report(what string, err error) {
	v.in.Host().Report(runtime.Failure{Instance: v.in, What: what, Err: err})
}

func (v *vm) syncLimit() time.Duration {
	return time.Duration(v.in.Host().Limits().Sync) * time.Millisecond
}
