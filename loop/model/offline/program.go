package offline

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A program is a message that offline obeys, cut into replies: one assistant message
// each. It is immutable.
type program []reply

// reply is one assistant message: what is thought and said, and how it ends. With
// neither calls nor hang nor fail it ends the turn.
type reply struct {
	says  []say
	calls []call
	hang  bool
	fail  string // a failure code
}

// say is a piece of text or reasoning.
type say struct {
	think bool
	text  string
}

// call is a tool call; arguments is the JSON text as it was written.
type call struct{ name, arguments string }

// lineError says what is wrong with one line of a program.
type lineError struct {
	number int // from 1, blank lines counted
	line   string
	why    string
}

func (e *lineError) Error() string {
	return fmt.Sprintf("line %d, `%s`: %s", e.number, shorten(e.line, 80), e.why)
}

// isProgram reports whether text begins with a command. Then it is meant as a program,
// even if it turns out to be a faulty one.
func isProgram(text string) bool {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	word, rest := cutWord(line)
	switch word {
	case "call", "calls", "say", "think", "fail":
		return true
	case "hang":
		return rest == "" // "hang on a second" is somebody talking
	}
	return false
}

// parse reads a program. Think and say lines belong to the reply that the next call,
// calls, hang or fail line ends, so that a model which explains itself before it acts
// can be played; those that stand last make a reply of their own.
func parse(text string) (program, *lineError) {
	var p program
	var r reply
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		ends, err := r.add(line)
		if err != nil {
			return nil, &lineError{number: i + 1, line: line, why: err.Error()}
		}
		if ends {
			p = append(p, r)
			r = reply{}
		}
	}
	if len(r.says) > 0 {
		p = append(p, r)
	}
	return p, nil
}

// add puts one line into the reply and reports whether that ends it.
func (r *reply) add(line string) (ends bool, err error) {
	word, rest := cutWord(line)
	switch word {
	case "say", "think":
		if rest == "" {
			return false, errors.New("the text is missing")
		}
		r.say(word == "think", rest)
		return false, nil
	case "call":
		c, after, err := parseCall(rest)
		if err != nil {
			return false, err
		}
		if after != "" {
			return false, fmt.Errorf("`%s` stands behind the JSON; several calls in one message are written calls NAME JSON | NAME JSON", shorten(after, 40))
		}
		r.calls = []call{c}
		return true, nil
	case "calls":
		r.calls, err = parseCalls(rest)
		return true, err
	case "hang":
		if rest != "" {
			return false, errors.New("hang stands alone on its line")
		}
		r.hang = true
		return true, nil
	case "fail":
		if !isCode(rest) {
			return false, errors.New("a failure code is one word in capitals, such as RATE_LIMIT or SERVER")
		}
		r.fail = rest
		return true, nil
	}
	return false, errors.New("a line begins with call, calls, say, think, hang or fail")
}

// say adds text; neighbours of the same kind become one block of several lines.
func (r *reply) say(think bool, text string) {
	if n := len(r.says); n > 0 && r.says[n-1].think == think {
		r.says[n-1].text += "\n" + text
		return
	}
	r.says = append(r.says, say{think, text})
}

func parseCalls(s string) ([]call, error) {
	var calls []call
	for {
		c, after, err := parseCall(s)
		if err != nil {
			return nil, fmt.Errorf("call %d: %w", len(calls)+1, err)
		}
		calls = append(calls, c)
		if after == "" {
			return calls, nil
		}
		next, found := strings.CutPrefix(after, "|")
		if !found {
			return nil, fmt.Errorf("call %d: `%s` stands behind the JSON, where | and the next call, or nothing, is expected", len(calls), shorten(after, 40))
		}
		s = strings.TrimSpace(next)
	}
}

// parseCall reads NAME JSON and returns what stands behind it. The JSON, {} when it is
// left out, may be of any kind, so that a tool's answer to odd arguments can be seen.
func parseCall(s string) (c call, after string, err error) {
	name, rest := cutWord(s)
	if name == "" || name == "|" {
		return call{}, "", errors.New("the tool's name is missing")
	}
	if rest == "" || rest[0] == '|' {
		return call{name, "{}"}, rest, nil
	}
	d := json.NewDecoder(strings.NewReader(rest))
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		why := err.Error()
		if errors.Is(err, io.ErrUnexpectedEOF) {
			why = "it ends too early"
		}
		return call{}, "", fmt.Errorf("the JSON of %s is not whole or not right: %s", name, why)
	}
	return call{name, string(raw)}, strings.TrimSpace(rest[d.InputOffset():]), nil
}

func isCode(s string) bool {
	for i := range len(s) {
		if c := s[i]; !('A' <= c && c <= 'Z' || i > 0 && (c == '_' || '0' <= c && c <= '9')) {
			return false
		}
	}
	return s != ""
}

// cutWord returns the first word of s and the rest without the space around it.
func cutWord(s string) (word, rest string) {
	s = strings.TrimSpace(s)
	if i := strings.IndexAny(s, " \t"); i >= 0 {
		return s[:i], strings.TrimSpace(s[i:])
	}
	return s, ""
}

// shorten cuts s to n characters and shows the cut.
func shorten(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i] + "..."
		}
		n--
	}
	return s
}
