package runtime

import "sync"

// Object is a live thing that scripts hold: the agent, a session, a signal, ctx itself.
// Bindings know nothing of it but its class; they wrap one object once per VM, so that
// the same object is the same value to a script. Implementations are pointers and are
// used on the thread only.
type Object interface{ Class() *Class }

// Bag is an Object that also holds data by name, which a script reads, assigns and deletes
// like properties of its own, such as agent.state. A name of the class's members means the
// member. Bindings write through Instance.Assign.
type Bag interface {
	Object
	// Keys lists the names, sorted.
	Keys() []string
	// Get reads; false = there is none.
	Get(key string) (Value, bool)
	// Set writes, and Delete removes; what is not there is removed without an error.
	Set(key string, v Value) error
	Delete(key string) error
}

// Class is an object's members. Immutable once built; shared by all VMs.
type Class struct {
	Name    string
	Doc     string
	Members []*Member // in the order of their declaration

	once   sync.Once
	byName map[string]*Member
}

// Member is one property or method of a Class. Exactly one of Get, GetFor and Fn is set.
type Member struct {
	Name string
	Doc  string
	// Signature is how the typings write a method's parameters and result, or a
	// property's type, in TypeScript's notation.
	Signature string
	// Get reads a property of self; GetFor is the same where the answer depends on who
	// asks. Bindings read properties with Instance.Property.
	Get    func(self Object) (Value, error)
	GetFor func(self Object, in *Instance) (Value, error)
	// Fn is a method; Call.Self is the object.
	Fn func(*Call) (Value, error)
	// Waits says that Fn may leave the thread: JavaScript gets a promise (by Start),
	// Lua blocks.
	Waits bool
	// Load says that Fn may be called while the script's top level runs: it registers or
	// reads. Everything else throws "not while loading".
	Load bool
}

// IsProperty tells a property from a method.
func (m *Member) IsProperty() bool { return m.Fn == nil }

// Lookup finds a member by name. Lua also asks for the snake_case form of a camelCase
// name.
func (c *Class) Lookup(name string) *Member {
	c.once.Do(func() {
		c.byName = make(map[string]*Member, 2*len(c.Members))
		for _, m := range c.Members {
			c.byName[m.Name] = m
		}
		for _, m := range c.Members {
			if s := snake(m.Name); c.byName[s] == nil {
				c.byName[s] = m
			}
		}
	})
	return c.byName[name]
}

// snake turns whenIdle into when_idle.
func snake(s string) string {
	out := make([]byte, 0, len(s)+4)
	for i := range len(s) {
		ch := s[i]
		if ch >= 'A' && ch <= 'Z' {
			out = append(out, '_', ch+'a'-'A')
			continue
		}
		out = append(out, ch)
	}
	return string(out)
}
