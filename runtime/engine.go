package runtime

// Engine is one scripting language. Immutable; Compile may be called from any goroutine.
type Engine interface {
	// Language is "js" or "lua".
	Language() string
	// Extensions are the file endings it takes, with the dot.
	Extensions() []string
	// Compile parses a script without running it. A syntax error is a *ScriptError with
	// place and source line.
	Compile(Source) (Program, error)
}

// Source is a script's text and where it came from. Immutable.
type Source struct {
	ID   string // identity: "project/guard.js"
	File string // name as errors show it: "guard.js"
	Dir  string // absolute script folder, links resolved; require never leaves it. "" = no require
	Code []byte
	// Read reads a required file below Dir (absolute path, links resolved) and notes it,
	// so that a change of it counts as a change of the script; one that is missing is
	// noted too, so that its appearing counts. A program gets the same text every time it
	// asks, also when a VM is rebuilt long after. Any goroutine. nil = no require.
	Read func(path string) ([]byte, error)
}

// Program is compiled code, immutable, shared by all VMs made from it.
type Program interface {
	// NewVM makes a virtual machine for in and gives it its globals (ctx = in.Ctx, and
	// the language's own). It runs no script code. On the thread.
	NewVM(in *Instance) (VM, error)
}

// VM is one virtual machine. All methods are called on the thread, unless said.
//
// Every entry is metered: synchronous work is stopped after Limits.Sync, which the
// meter's Who is blamed for. After an interrupt or a stack overflow a VM fails its
// pending calls, and asks its instance to Rebuild it if it is beyond use.
type VM interface {
	// Load runs the top level.
	Load() error
	// Call calls fn and waits until it has settled (JavaScript: the promise it returned).
	// The chain must be able to wait. hook may be nil. When the hook's context ends, a
	// pending JavaScript call is given Limits.Grace to settle and is then given up: what
	// it returns later is ignored. The error is a *ScriptError, or the hook's cause.
	Call(hook *Hook, fn Func, args ...Value) (Value, error)
	// Notify calls fn without waiting for what it promises: a later rejection goes to
	// late, on the thread. Waiting inside is refused. The returned value is ignored.
	Notify(fn Func, late func(error), args ...Value) error
	// Where is the script's line that is running, if any.
	Where() Position
	// Close ends the VM: pending calls fail with ErrUnloaded, parked ones are woken and
	// come back. It is called once, when in.Context() has ended or the VM has been
	// replaced (Instance.Rebuild).
	Close()
}

// Limits bound what a script may use. Set before use.
type Limits struct {
	Sync  int64 // milliseconds of synchronous work per entry; default 2000
	Wall  int64 // milliseconds from a deciding listener's call to its settling; default 30000
	Grace int64 // milliseconds that a cancelled listener has to settle; default 250
}

func (l Limits) withDefaults() Limits {
	if l.Sync == 0 {
		l.Sync = 2000
	}
	if l.Wall == 0 {
		l.Wall = 30000
	}
	if l.Grace == 0 {
		l.Grace = 250
	}
	return l
}
