package openai_test

import (
	"fmt"
	"strings"
	"testing"

	"dshsh/loop/model/modeltest"
)

// TestR072_Fragments has the ways in which services cut tool calls into fragments. Each
// frame is the tool_calls list of one delta.
func TestR072_Fragments(t *testing.T) {
	for _, tc := range []struct {
		name   string
		frames []string
		want   string
	}{
		{"as specified", []string{
			`[{"index":0,"id":"a","type":"function","function":{"name":"ls","arguments":""}}]`,
			`[{"index":0,"function":{"arguments":"{\"p\""}}]`,
			`[{"index":0,"function":{"arguments":":1}"}}]`,
			`[{"index":1,"id":"b","type":"function","function":{"name":"cat","arguments":""}}]`,
			`[{"index":1,"function":{"arguments":"{}"}}]`,
		}, `a ls {"p":1} | b cat {}`},
		{"interleaved", []string{
			`[{"index":0,"id":"a","function":{"name":"ls","arguments":"{"}},{"index":1,"id":"b","function":{"name":"cat","arguments":"["}}]`,
			`[{"index":1,"function":{"arguments":"]"}},{"index":0,"function":{"arguments":"}"}}]`,
		}, `a ls {} | b cat []`},
		{"no index, two calls in one chunk", []string{
			`[{"id":"a","function":{"name":"ls","arguments":"{\"p\":1}"}},{"id":"b","function":{"name":"ls","arguments":"{\"p\":2}"}}]`,
		}, `a ls {"p":1} | b ls {"p":2}`},
		{"no index, two calls in two chunks", []string{
			`[{"id":"a","function":{"name":"ls","arguments":"{\"p\":1}"}}]`,
			`[{"id":"b","function":{"name":"ls","arguments":"{\"p\":2}"}}]`,
		}, `a ls {"p":1} | b ls {"p":2}`},
		{"no index, three fragments, only the first with an id", []string{
			`[{"id":"a","function":{"name":"ls","arguments":"{\"p\""}}]`,
			`[{"function":{"arguments":":"}}]`,
			`[{"function":{"arguments":"1}"}}]`,
		}, `a ls {"p":1}`},
		{"no index, the id in each fragment", []string{
			`[{"id":"a","function":{"name":"ls","arguments":"{\"p\""}}]`,
			`[{"id":"b","function":{"name":"cat","arguments":"{"}}]`,
			`[{"id":"a","function":{"arguments":":1}"}}]`,
			`[{"id":"b","function":{"arguments":"}"}}]`,
		}, `a ls {"p":1} | b cat {}`},
		{"null index", []string{
			`[{"index":null,"id":"a","function":{"name":"ls","arguments":"{}"}}]`,
			`[{"index":null,"id":"b","function":{"name":"ls","arguments":"{}"}}]`,
		}, `a ls {} | b ls {}`},
		{"every call has index 0", []string{
			`[{"index":0,"id":"a","function":{"name":"ls","arguments":"{}"}}]`,
			`[{"index":0,"id":"b","function":{"name":"cat","arguments":"{"}}]`,
			`[{"index":0,"function":{"arguments":"}"}}]`,
		}, `a ls {} | b cat {}`},
		{"index 0 for all and no ids", []string{
			`[{"index":0,"function":{"name":"ls","arguments":"{\"p\":1}"}}]`,
			`[{"index":0,"function":{"name":"ls","arguments":"{\"p\":2}"}}]`,
			`[{"index":0,"function":{"name":"cat","arguments":"{}"}}]`,
		}, `(new) ls {"p":1} | (new) ls {"p":2} | (new) cat {}`},
		{"no index and no ids", []string{
			`[{"function":{"name":"ls","arguments":"{}"}},{"function":{"name":"ls","arguments":"{}"}}]`,
		}, `(new) ls {} | (new) ls {}`},
		{"an id of its own for each fragment", []string{
			`[{"index":0,"id":"x1","function":{"name":"ls","arguments":""}}]`,
			`[{"index":0,"id":"x2","function":{"arguments":"{"}}]`,
			`[{"index":0,"id":"x3","function":{"arguments":"}"}}]`,
		}, `x1 ls {}`},
		{"the name in each fragment", []string{
			`[{"index":0,"id":"a","function":{"name":"ls","arguments":"{\"p\""}}]`,
			`[{"index":0,"function":{"name":"ls","arguments":":1}"}}]`,
			`[{"index":0,"function":{"name":"ls","arguments":""}}]`,
		}, `a ls {"p":1}`},
		{"the name in pieces", []string{
			`[{"index":0,"id":"a","function":{"name":"read_"}}]`,
			`[{"index":0,"function":{"name":"file"}}]`,
			`[{"index":0,"function":{"arguments":"{}"}}]`,
		}, `a read_file {}`},
		{"the id late", []string{
			`[{"index":0,"function":{"name":"ls","arguments":"{"}}]`,
			`[{"index":0,"id":"a","function":{"arguments":"}"}}]`,
		}, `a ls {}`},
		{"the name late", []string{
			`[{"index":0,"id":"a","function":{"arguments":""}}]`,
			`[{"index":0,"function":{"name":"ls","arguments":"{}"}}]`,
		}, `a ls {}`},
		{"numbered from the second fragment on", []string{
			`[{"id":"a","function":{"name":"ls","arguments":"{"}}]`,
			`[{"index":0,"function":{"arguments":"}"}}]`,
		}, `a ls {}`},
		{"numbered from 1", []string{
			`[{"index":1,"id":"a","function":{"name":"ls","arguments":"{}"}}]`,
			`[{"index":2,"id":"b","function":{"name":"ls","arguments":"{}"}}]`,
		}, `a ls {} | b ls {}`},
		{"one id for two calls", []string{
			`[{"index":0,"id":"a","function":{"name":"ls","arguments":"{}"}}]`,
			`[{"index":1,"id":"a","function":{"name":"cat","arguments":"{}"}}]`,
		}, `a ls {} | (new) cat {}`},
		{"empty ids", []string{
			`[{"index":0,"id":"","function":{"name":"ls","arguments":"{}"}}]`,
			`[{"index":1,"id":"","function":{"name":"ls","arguments":"{}"}}]`,
		}, `(new) ls {} | (new) ls {}`},
		{"arguments as an object", []string{
			`[{"index":0,"id":"a","function":{"name":"ls","arguments":{"p":[1]}}}]`,
		}, `a ls {"p":[1]}`},
		{"arguments null, then none", []string{
			`[{"index":0,"id":"a","function":{"name":"ls","arguments":null}}]`,
			`[]`,
		}, `a ls `},
		{"no name at all", []string{
			`[{"index":0,"id":"a","function":{"arguments":"{}"}}]`,
		}, `a  {}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var steps []modeltest.Step
			for _, f := range tc.frames {
				steps = append(steps, modeltest.Delta(`{"tool_calls":`+f+`}`))
			}
			var want []string
			for _, c := range strings.Split(tc.want, " | ") {
				want = append(want, fmt.Sprintf("call %s\n", c))
			}
			subject.Check(t, shape("reply", modeltest.Steps(steps...).Then(modeltest.Finish("tool_calls")...), strings.Join(want, "")+"tool-calls", ""))
		})
	}
}
