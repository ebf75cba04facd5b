package runtime

// Sandbox says what a program finds that is run once and is no script: no ctx, no modules
// and nothing to register with. Log and Failed are called on the thread and may not wait.
type Sandbox struct {
	// Globals are what it finds beside what the language itself has.
	Globals map[string]Value
	// Log is told what it prints; the levels are those of Observer.Logged.
	Log func(level, text string)
	// Failed is told of what failed with nobody waiting for it, such as a promise.
	Failed func(err error)
}

// LoadSandbox runs the top level of a program that no generation ever contains, under the
// limits of scripts. What it calls of its Globals while its top level runs must be a
// *GoFunc; objects are for later. Its timers run until Unload, which must be called, also
// when the VM was lost: there is no second one.
func (h *Host) LoadSandbox(f ScriptFile, s *Sandbox) (*Instance, error) {
	in := h.newInstance(f)
	in.sandbox = s
	if err := in.load(); err != nil {
		in.dispose()
		return nil, err
	}
	in.hold() // what it spawns releases what it held
	in.state = stateLoaded
	in.activate()
	return in, nil
}

// Unload ends a program of LoadSandbox.
func (h *Host) Unload(in *Instance) { in.dispose() }

// Sandbox is what a program finds that is no script; nil for a script.
func (in *Instance) Sandbox() *Sandbox { return in.sandbox }
