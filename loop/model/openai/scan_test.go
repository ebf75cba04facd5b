package openai

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

var frames = []string{
	`{"id":"x","object":"chat.completion.chunk","created":175,"choices":[{"index":0,"delta":{"role":"assistant","content":"wo\u00e9rd"},"logprobs":null,"finish_reason":null}],"usage":null}`,
	`{"choices":[{"index":0,"delta":{"content":null,"reasoning_content":"hm\n"},"finish_reason":"stop"},{"index":1,"delta":{}}]}`,
	`{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"a","type":"function","function":{"name":"ls","arguments":"{\"a\":[1]}"}},{"index":null,"function":{"arguments":{"a":1}}}]}}]}`,
	`{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":3}}}`,
	`{"error":{"message":"x","code":5}}`,
	`{"choices":[{"message":{"content":"hi"},"finish_reason":"stop","usage":{"prompt_tokens":1}}]}`,
	`{"choices":[{"delta":{"content":[{"type":"text","text":"a"},{"type":"thinking","thinking":[{"text":"b"}]}]}}]}`,
	` { "choices" : [ { "delta" : { "content" : "a" , "x" : [ { } , [ ] , "]" , -1.5e+3 , true ] } } ] } `,
	`{"choices":null,"error":null,"usage":null,"object":"error"}`,
	`{"choices":[{"delta":{"content":"\ud83d","refusal":"no","reasoning":"r"},"error":{"a":1}}]}`,
	`{"ob\u006aect":"x"}`,
	`{"choices":[{"index":-1}]}`,
	`{"choices":[{"index":1e0}]}`,
	`{"a":}`, `{"a":1,}`, `[`, ``, `null`, `{"choices":[{"delta":{"content":"a"}}]} x`, `{"object":5}`,
	"{\"choices\":[{\"delta\":{\"content\":\"\xff\"}}]}",
}

// TestDecode_ByScanner says which frames must not need encoding/json.
func TestDecode_ByScanner(t *testing.T) {
	for _, in := range frames[:5] {
		s := scanner{b: []byte(in)}
		if !s.frame(&frame{}) || !s.end() {
			t.Errorf("the scanner stops at %d of %s", s.i, in)
		}
	}
}

// FuzzDecode compares with encoding/json. The scanner does not look closely at what it
// skips, so it may take a frame that encoding/json does not.
func FuzzDecode(f *testing.F) {
	for _, in := range frames {
		f.Add(in)
	}
	reused := frame{Choices: make([]choice, 3)}
	f.Fuzz(func(t *testing.T, in string) {
		var want frame
		if json.Unmarshal([]byte(in), &want) != nil || duplicates(in) {
			t.Skip("encoding/json takes it otherwise: there is nothing to compare with")
		}
		if err := reused.decode([]byte(in)); err != nil {
			t.Fatalf("decode: %v", err)
		}
		// Null, empty and not there are the same.
		for _, f := range []*frame{&reused, &want} {
			f.Error = notNull(f.Error)
			for i := range f.Choices {
				c := &f.Choices[i]
				c.Error = notNull(c.Error)
				if len(c.Delta.ToolCalls) == 0 {
					c.Delta.ToolCalls = nil
				}
				if len(c.Message.ToolCalls) == 0 {
					c.Message.ToolCalls = nil
				}
			}
		}
		if len(reused.Choices) == 0 && len(want.Choices) == 0 {
			want.Choices = reused.Choices
		}
		if !reflect.DeepEqual(reused, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", in, reused, want)
		}
	})
}

func notNull(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// duplicates reports whether an object has a key twice, or one that is not in lower case:
// encoding/json merges and matches those in ways of its own.
func duplicates(in string) bool {
	d := json.NewDecoder(strings.NewReader(in))
	type level struct {
		object, value bool // value: a key was read
		keys          map[string]bool
	}
	var stack []level
	for {
		t, err := d.Token()
		if err != nil {
			return false
		}
		var top *level
		if len(stack) > 0 {
			top = &stack[len(stack)-1]
		}
		switch t := t.(type) {
		case json.Delim:
			if t == '}' || t == ']' {
				stack = stack[:len(stack)-1]
				continue
			}
			if top != nil {
				top.value = false
			}
			stack = append(stack, level{object: t == '{', keys: map[string]bool{}})
			continue
		case string:
			if top != nil && top.object && !top.value {
				if top.keys[t] || strings.ToLower(t) != t {
					return true
				}
				top.keys[t], top.value = true, true
				continue
			}
		}
		if top != nil {
			top.value = false
		}
	}
}
