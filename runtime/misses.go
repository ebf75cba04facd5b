package runtime

import "fmt"

// Misses remembers the members of host objects that a script has read last and that there
// are not, so that an error which follows on the same line can name them: engines say of
// a call of what is not there little more than that it is none. Used on the host thread.
type Misses struct {
	at   Position // of all of them; the column does not count
	list []missing
}

type missing struct {
	class *Class
	key   string
}

// maxMisses is how many of one line are kept.
const maxMisses = 8

// Note is told of a member that was read and is not there.
func (m *Misses) Note(c *Class, key string, at Position) {
	if !sameLine(m.at, at) {
		m.at, m.list = at, m.list[:0]
	}
	for _, x := range m.list {
		if x.class == c && x.key == key {
			return
		}
	}
	if len(m.list) < maxMisses {
		m.list = append(m.list, missing{c, key})
	}
}

// Only describes the one that was missed in the line, "" for none or several.
func (m *Misses) Only(at Position) string {
	if len(m.list) != 1 || !sameLine(m.at, at) {
		return ""
	}
	return m.list[0].String()
}

// Named describes the one of that name that was missed in the line, "" for none.
func (m *Misses) Named(at Position, key string) string {
	if sameLine(m.at, at) {
		for _, x := range m.list {
			if x.key == key {
				return x.String()
			}
		}
	}
	return ""
}

func sameLine(a, b Position) bool { return a.Line > 0 && a.Line == b.Line && a.File == b.File }

// String is "ctx has no onn (did you mean on?)".
func (x missing) String() string {
	names := make([]string, len(x.class.Members))
	for i, m := range x.class.Members {
		names[i] = m.Name
	}
	text := fmt.Sprintf("%s has no %s", x.class.Name, x.key)
	if near := Nearest(x.key, names); near != "" {
		text += fmt.Sprintf(" (did you mean %s?)", near)
	}
	return text
}
