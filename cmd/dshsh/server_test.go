package main_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
)

// playing is the model server of a script.
type playing struct{ *modeltest.Server }

// playbook turns lines into the replies of a model server, one for each request:
//
//	text WORDS                       an answer, a word a frame
//	tool ID NAME JSON [| ID ...]     tool calls, their arguments in fragments
//	thinktool ID NAME JSON           the same of one call, after some reasoning
//	length WORDS                     an answer cut by the token limit
//	cut WORDS                        the connection breaks after them
//	cuttool ID NAME PIECE            ... in the middle of a call's arguments
//	early WORDS                      the stream ends without a finish
//	hang WORDS                       nothing more comes after them
//	status CODE BODY                 no stream at all
func playbook(text string) ([]modeltest.Wire, error) {
	var out []modeltest.Wire
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		w, err := reply(line)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		out = append(out, w)
	}
	return out, nil
}

func reply(line string) (modeltest.Wire, error) {
	verb, rest, _ := strings.Cut(line, " ")
	begin := modeltest.Steps(modeltest.Begin(), modeltest.TextDelta(rest))
	switch verb {
	case "text":
		return modeltest.WireText(rest), nil
	case "length":
		return begin.Then(modeltest.Finish("length")...), nil
	case "cut":
		return begin.Then(modeltest.Cut()), nil
	case "early":
		return begin, nil
	case "hang":
		return begin.Then(modeltest.Silence()), nil
	case "cuttool":
		f := strings.SplitN(rest, " ", 3)
		if len(f) != 3 {
			return modeltest.Wire{}, fmt.Errorf("want ID NAME PIECE")
		}
		return modeltest.Steps(modeltest.ToolDelta(0, f[0], f[1], f[2]), modeltest.Cut()), nil
	case "thinktool":
		f := strings.SplitN(rest, " ", 3)
		if len(f) != 3 {
			return modeltest.Wire{}, fmt.Errorf("want ID NAME JSON")
		}
		return modeltest.Steps(modeltest.ReasoningDelta("So I think."), modeltest.ToolDelta(0, f[0], f[1], f[2])).
			Then(modeltest.Finish("tool_calls")...), nil
	case "status":
		code, body, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(code)
		return modeltest.Status(n, nil, body), err
	case "tool":
		var calls []modeltest.Call
		for part := range strings.SplitSeq(rest, " | ") {
			f := strings.SplitN(strings.TrimSpace(part), " ", 3)
			if len(f) != 3 {
				return modeltest.Wire{}, fmt.Errorf("want ID NAME JSON")
			}
			calls = append(calls, modeltest.Call{ID: f[0], Name: f[1], Arguments: f[2]})
		}
		return modeltest.WireTools(calls...), nil
	}
	return modeltest.Wire{}, fmt.Errorf("unknown reply %q", verb)
}

func cmdModel(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 1, "model FILE")
	replies, err := playbook(ts.ReadFile(args[0]))
	ts.Check(err)
	s, err := modeltest.StartServer(replies...)
	ts.Check(err)
	ts.Defer(s.Close)
	state(ts).server = &playing{s}
	ts.Setenv("OPENAI_BASE_URL", s.URL)
	ts.Setenv("OPENAI_API_KEY", "sk-test")
}

func server(ts *testscript.TestScript) *playing {
	s := state(ts).server
	usage(ts, s != nil, "model FILE comes first")
	return s
}

func cmdSent(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) == 2, "[!] sent N PATTERN")
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	reqs := server(ts).Requests()
	if n < 1 || n > len(reqs) {
		ts.Fatalf("the server got %d requests", len(reqs))
	}
	if regexp.MustCompile(args[1]).Match(reqs[n-1].Body) == neg {
		ts.Fatalf("request %d: %s", n, reqs[n-1].Body)
	}
}

// cmdReplays checks that the log rebuilds what the model saw: the messages before the
// first chunk of a step are those of its request.
func cmdReplays(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 0, "replays")
	recs := records(ts)
	var histories [][]model.Message
	for i, r := range recs {
		if r.Type == loop.RecChunk && recs[i-1].Type != loop.RecChunk {
			histories = append(histories, loop.DeriveMessages(recs[:i]))
		}
	}
	reqs := server(ts).Requests()
	if len(histories) != len(reqs) {
		ts.Fatalf("the log has %d requests, the server got %d", len(histories), len(reqs))
	}
	for i, req := range reqs {
		var body struct {
			Messages []wireMessage `json:"messages"`
		}
		ts.Check(json.Unmarshal(req.Body, &body))
		if len(body.Messages) > 0 && body.Messages[0].Role == "system" {
			body.Messages = body.Messages[1:]
		}
		if want := wireOf(histories[i]); !reflect.DeepEqual(body.Messages, want) {
			ts.Fatalf("request %d differs from the log:\n sent %+v\n log  %+v", i+1, body.Messages, want)
		}
	}
}

// wireMessage is a message as the wire has it, as far as text and tools go.
type wireMessage struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	ToolCallID string     `json:"tool_call_id"`
	ToolCalls  []wireCall `json:"tool_calls"`
}

type wireCall struct {
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// wireOf is written from the format's description, not from the adapter that it checks.
func wireOf(messages []model.Message) []wireMessage {
	var out []wireMessage
	for _, m := range messages {
		w := wireMessage{Role: m.Role}
		for _, b := range m.Content {
			switch b.Type {
			case model.BlockText:
				w.Content += b.Text
			case model.BlockToolCall:
				c := wireCall{ID: b.ID}
				c.Function.Name, c.Function.Arguments = b.Name, b.Arguments
				w.ToolCalls = append(w.ToolCalls, c)
			case model.BlockToolResult:
				out = append(out, wireMessage{Role: "tool", ToolCallID: b.ToolCallID, Content: model.PlainText(b.Content)})
			}
		}
		if w.Content != "" || w.ToolCalls != nil {
			out = append(out, w)
		}
	}
	return out
}
