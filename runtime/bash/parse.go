package bash

import "fmt"

// Command is what a command amounts to, as data for scripts.
type Command struct {
	// Programs are those that would run, in the order of the text. What a wrapper runs
	// stands for the wrapper.
	Programs []Call `json:"programs"`
	// Redirects are all redirections that name a file.
	Redirects []File `json:"redirects"`
	// Dynamic says that something is run that the text does not tell.
	Dynamic bool `json:"dynamic"`
	// Error is why the text was not read to its end, if it was not.
	Error string `json:"error,omitempty"`
}

// Call is one program of a Command. What only running would tell is null.
type Call struct {
	Name      *string   `json:"name"`           // without the folder
	Path      string    `json:"path,omitempty"` // as it is written, where that names a folder
	Args      []*string `json:"args"`
	Via       []string  `json:"via"` // what runs it, outermost first
	Redirects []File    `json:"redirects"`
}

// File is a redirection.
type File struct {
	Op   string  `json:"op"`
	Path *string `json:"path"`
	FD   string  `json:"fd,omitempty"` // before the operator
}

// Parse reads a command. It never fails: what cannot be read is said in the result.
func Parse(src string) Command {
	c := &collector{Command{Programs: []Call{}, Redirects: []File{}}}
	if err := Walk(src, map[string]string{"HOME": "~"}, c); err != nil {
		c.Error, c.Dynamic = err.Error(), true
	}
	return c.Command
}

// maxPrograms is how many programs and redirections a Command has.
const maxPrograms = 5000

// collector implements Visitor.
type collector struct{ Command }

func (c *collector) Open()          {}
func (c *collector) Close()         {}
func (c *collector) Assign(string)  {}
func (c *collector) Mention(string) {}
func (c *collector) Unknown(string) { c.Dynamic = true }

func (c *collector) Program(p *Program) {
	if p.Wraps || !c.room(len(c.Programs)) {
		return
	}
	out := Call{Args: []*string{}, Via: append([]string{}, p.Via...), Redirects: []File{}}
	if first := p.Words[0]; !first.Opaque && first.Pattern == "" {
		name := p.Name()
		if out.Name = &name; name != first.Text {
			out.Path = first.Text
		}
	}
	for _, a := range p.Words[1:] {
		out.Args = append(out.Args, literal(a))
	}
	for _, r := range p.Redirects {
		if f, ok := file(r); ok {
			out.Redirects = append(out.Redirects, f)
		}
	}
	c.Programs = append(c.Programs, out)
}

func (c *collector) Redirect(r Redirect) {
	if f, ok := file(r); ok && c.room(len(c.Redirects)) {
		c.Redirects = append(c.Redirects, f)
	}
}

func (c *collector) room(n int) bool {
	if n < maxPrograms {
		return true
	}
	c.Dynamic, c.Error = true, fmt.Sprintf("more than %d programs or redirections", maxPrograms)
	return false
}

func file(r Redirect) (File, bool) {
	return File{Op: r.Op, Path: literal(r.Target), FD: r.FD}, !r.duplicates()
}

// literal is a word's text, nil when only running would tell it.
func literal(w Word) *string {
	if w.Opaque {
		return nil
	}
	return &w.Text
}
