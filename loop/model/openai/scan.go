package openai

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"dshsh/loop/model"
)

// decode reads a frame into f, whose slices it reuses.
//
// Frames come by the thousand, 300 bytes each, of which a delta of a few is wanted. The
// scanner below steps over the rest in one pass, several times faster than
// encoding/json, which gets every frame that the scanner does not understand; so the
// scanner need not know every way to write JSON, and errors are encoding/json's.
func (f *frame) decode(data []byte) error {
	choices := f.Choices[:0]
	*f = frame{Choices: choices}
	s := scanner{b: data}
	if s.frame(f) && s.end() {
		return nil
	}
	*f = frame{}
	return json.Unmarshal(data, f)
}

// scanner reads JSON from b at i. Its methods return false at whatever they do not
// expect, and then i is of no more use. It is used on one goroutine.
type scanner struct {
	b []byte
	i int
}

func (s *scanner) frame(f *frame) bool {
	return s.object(func(key []byte) bool {
		switch string(key) {
		case "object":
			return s.string(&f.Object)
		case "choices":
			return s.null() || s.array(func() bool {
				f.Choices = append(f.Choices, choice{})
				return s.choice(&f.Choices[len(f.Choices)-1])
			})
		case "usage":
			return s.null() || s.other(&f.Usage)
		case "error":
			return s.null() || s.other(&f.Error)
		}
		return s.skip()
	})
}

func (s *scanner) choice(c *choice) bool {
	return s.object(func(key []byte) bool {
		switch string(key) {
		case "index":
			return s.int(&c.Index)
		case "delta":
			return s.null() || s.delta(&c.Delta)
		case "finish_reason":
			return s.null() || s.string(&c.FinishReason)
		case "usage":
			return s.null() || s.other(&c.Usage)
		case "error":
			return s.null() || s.other(&c.Error)
		case "message":
			return false
		}
		return s.skip()
	})
}

func (s *scanner) delta(d *delta) bool {
	return s.object(func(key []byte) bool {
		switch string(key) {
		case "content":
			return s.null() || s.string(&d.Content.text) || s.other(&d.Content)
		case "reasoning_content":
			return s.null() || s.string(&d.ReasoningContent)
		case "reasoning":
			return s.null() || s.string((*string)(&d.Reasoning))
		case "refusal":
			return s.null() || s.string(&d.Refusal)
		case "tool_calls":
			return s.null() || s.array(func() bool {
				d.ToolCalls = append(d.ToolCalls, fragment{})
				return s.fragment(&d.ToolCalls[len(d.ToolCalls)-1])
			})
		}
		return s.skip()
	})
}

func (s *scanner) fragment(f *fragment) bool {
	return s.object(func(key []byte) bool {
		switch string(key) {
		case "index":
			var n int
			if s.null() {
				return true
			}
			if !s.int(&n) {
				return false
			}
			f.Index = model.At(n)
			return true
		case "id":
			return s.null() || s.string(&f.ID)
		case "function":
			return s.null() || s.object(func(key []byte) bool {
				switch string(key) {
				case "name":
					return s.null() || s.string(&f.Function.Name)
				case "arguments":
					return s.null() || s.string((*string)(&f.Function.Arguments)) || s.other(&f.Function.Arguments)
				}
				return s.skip()
			})
		}
		return s.skip()
	})
}

// space steps over white space.
func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// next steps over white space and then over c, if it is there.
func (s *scanner) next(c byte) bool {
	s.space()
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

// end reports whether nothing but white space is left.
func (s *scanner) end() bool {
	s.space()
	return s.i == len(s.b)
}

// null steps over null, if it is there.
func (s *scanner) null() bool {
	s.space()
	if bytes.HasPrefix(s.b[s.i:], []byte("null")) {
		s.i += len("null")
		return true
	}
	return false
}

// object reads an object, calling value at each value.
func (s *scanner) object(value func(key []byte) bool) bool {
	if !s.next('{') {
		return false
	}
	if s.next('}') {
		return true
	}
	for {
		s.space()
		key, plain, ok := s.quoted()
		if !ok || !plain || !s.next(':') || !value(key[1:len(key)-1]) {
			return false
		}
		if s.next('}') {
			return true
		}
		if !s.next(',') {
			return false
		}
	}
}

// array reads an array, calling value at each value.
func (s *scanner) array(value func() bool) bool {
	if !s.next('[') {
		return false
	}
	if s.next(']') {
		return true
	}
	for {
		if !value() {
			return false
		}
		if s.next(']') {
			return true
		}
		if !s.next(',') {
			return false
		}
	}
}

// quoted reads a string, quotes included; plain says that it stands for itself.
func (s *scanner) quoted() (raw []byte, plain, ok bool) {
	if s.i >= len(s.b) || s.b[s.i] != '"' {
		return nil, false, false
	}
	start := s.i
	plain = true
	for i := start + 1; i < len(s.b); i++ {
		switch c := s.b[i]; {
		case c == '"':
			s.i = i + 1
			return s.b[start:s.i], plain, true
		case c == '\\':
			plain = false
			i++
		case c < ' ':
			return nil, false, false
		}
	}
	return nil, false, false
}

// string reads a string into v, if there is one.
func (s *scanner) string(v *string) bool {
	s.space()
	raw, plain, ok := s.quoted()
	if !ok {
		return false
	}
	if plain && utf8.Valid(raw) {
		*v = string(raw[1 : len(raw)-1])
		return true
	}
	return json.Unmarshal(raw, v) == nil
}

// int reads a small number that is written without sign, point or exponent.
func (s *scanner) int(v *int) bool {
	s.space()
	start, n := s.i, 0
	for s.i < len(s.b) && '0' <= s.b[s.i] && s.b[s.i] <= '9' && s.i-start < 9 {
		n = 10*n + int(s.b[s.i]-'0')
		s.i++
	}
	*v = n
	return s.i > start
}

// other reads any value into v with encoding/json.
func (s *scanner) other(v any) bool {
	s.space()
	start := s.i
	return s.skip() && json.Unmarshal(s.b[start:s.i], v) == nil
}

// skip steps over one value. Of numbers and literals it only sees where they end.
func (s *scanner) skip() bool {
	depth := 0
	for {
		s.space()
		if s.i >= len(s.b) {
			return false
		}
		switch c := s.b[s.i]; c {
		case '"':
			if _, _, ok := s.quoted(); !ok {
				return false
			}
		case '{', '[':
			depth++
			s.i++
			continue
		case '}', ']':
			depth--
			s.i++
		case ',', ':':
			if depth == 0 {
				return false
			}
			s.i++
			continue
		default:
			start := s.i
			for s.i < len(s.b) && word(s.b[s.i]) {
				s.i++
			}
			if s.i == start {
				return false
			}
		}
		if depth <= 0 {
			return depth == 0
		}
	}
}

// word reports whether c can be part of a number or of true, false and null.
func word(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'E'
}
