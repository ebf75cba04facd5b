package bindingstest

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"dshsh/runtime"
)

// observer is the bench as the host's observer. On the thread.
type observer bench

// Failed implements runtime.Observer.
func (o *observer) Failed(f runtime.Failure) {
	b := (*bench)(o)
	b.saw(f.Err)
	what := f.What
	if f.Event != nil {
		what = f.Event.Name
	}
	b.add("failures", what+": "+plain(f.Err.Error()))
}

// Decided implements runtime.Observer.
func (o *observer) Decided(d runtime.Decision) {
	var s strings.Builder
	fmt.Fprintf(&s, "%s:", d.Event.Name)
	for _, l := range d.Layers {
		fmt.Fprintf(&s, " %s=%s", plain(strings.TrimPrefix(l.Script, "project/")), l.Outcome)
	}
	fmt.Fprintf(&s, " -> %s", d.Decided)
	(*bench)(o).add("decisions", s.String())
}

// Quarantined implements runtime.Observer.
func (o *observer) Quarantined(in *runtime.Instance, reason error) {
	b := (*bench)(o)
	b.saw(reason)
	b.add("failures", "quarantined "+plain(in.File)+": "+plain(reason.Error()))
}

// Rebuilt implements runtime.Observer.
func (o *observer) Rebuilt(in *runtime.Instance) {
	(*bench)(o).add("failures", "rebuilt "+plain(in.File))
}

// Logged implements runtime.Observer.
func (o *observer) Logged(in *runtime.Instance, level, text string) {
	(*bench)(o).add("logs", level+" "+text)
}

func (b *bench) addTrace(args []runtime.Value) {
	parts := make([]string, len(args))
	for i, a := range args {
		parts[i] = runtime.Display(a)
	}
	b.add("trace", strings.Join(parts, " "))
}

func (b *bench) add(section, line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got[section] = append(b.got[section], line)
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

func (b *bench) count(section string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.got[section])
}

// slot reserves the next line of answers.
func (b *bench) slot() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got["answers"] = append(b.got["answers"], "")
	return len(b.got["answers"]) - 1
}

func (b *bench) set(slot int, err error, text string) {
	if err != nil {
		b.saw(err)
		text = "error: " + plain(err.Error())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got["answers"][slot] = text
}

// saw notes an error for the marks.
func (b *bench) saw(err error) {
	var se *runtime.ScriptError
	if errors.As(err, &se) {
		b.mu.Lock()
		b.errs = append(b.errs, se)
		b.mu.Unlock()
	}
}

var placeText = regexp.MustCompile(`\b([A-Za-z_]+)\.(?:js|lua)\b(:\d+)?(:\d+)?`)

// plain cuts what differs between the languages out of a text: endings and lines.
func plain(text string) string { return placeText.ReplaceAllString(text, "$1") }

func (b *bench) compare() {
	b.t.Helper()
	for _, name := range []string{"load", "trace", "answers", "failures", "decisions", "logs"} {
		wantText, given := b.c.sections[name]
		got := b.got[name]
		if !given {
			switch name {
			case "answers":
				for _, line := range got {
					if strings.HasPrefix(line, "error: ") {
						b.t.Errorf("answers: %s", line)
					}
				}
				continue
			case "decisions", "logs":
				continue
			}
		}
		if want := lines(wantText); !match(got, want) {
			b.t.Errorf("%s:\n  %s\nwant:\n  %s", name, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
	}
	for _, m := range b.c.marks {
		var near []string
		for _, e := range b.errs {
			if e.Pos.File == m.file && e.Pos.Line == m.line && m.rx.MatchString(e.Error()) {
				m.hit = true
			}
			near = append(near, fmt.Sprintf("%s:%d: %s", e.Pos.File, e.Pos.Line, e.Error()))
		}
		if !m.hit {
			b.t.Errorf("%s:%d: no error here matches %q; errors were:\n  %s", m.file, m.line, m.rx, strings.Join(near, "\n  "))
		}
	}
}

func match(got, want []string) bool {
	if len(got) != len(want) {
		return false
	}
	for i, w := range want {
		if rx, ok := strings.CutPrefix(w, "~ "); ok {
			if !regexp.MustCompile("^(?:" + rx + ")$").MatchString(got[i]) {
				return false
			}
		} else if got[i] != w {
			return false
		}
	}
	return true
}
