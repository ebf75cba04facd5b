package offline_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"dshsh/loop/model"
	"dshsh/loop/model/internal/wiretest"
	"dshsh/loop/model/offline"
)

func user(text string) model.Message {
	return model.Message{Role: model.RoleUser, Content: []model.Block{model.Text(text)}, Source: model.Source{Kind: model.SourceUser}}
}

func plugin(form, text string) model.Message {
	m := user(text)
	m.Source = model.Source{Kind: model.SourcePlugin, Plugin: "project/x.js", Form: form}
	return m
}

func assistant(blocks ...model.Block) model.Message {
	return model.Message{Role: model.RoleAssistant, Content: blocks, Source: model.Source{Kind: model.SourceModel}}
}

func result(id string, isError bool, text string) model.Message {
	return model.Message{
		Role: model.RoleUser, Source: model.Source{Kind: model.SourceTool, CallID: id},
		Content: []model.Block{model.ToolResult(id, isError, model.Text(text))},
	}
}

// ask returns the chunks of the reply and what ended it, nil for the finish chunk.
func ask(t *testing.T, req *model.Request) ([]model.Chunk, error) {
	t.Helper()
	return wiretest.Read(t.Context(), offline.New(), req)
}

// show renders a reply on a few lines: text bare, "(think) ...", "[name id arguments]",
// and how it ended.
func show(chunks []model.Chunk, err error) string {
	a := wiretest.Fold(chunks)
	var lines []string
	for _, b := range a.Blocks() {
		switch b.Type {
		case model.BlockText:
			lines = append(lines, b.Text)
		case model.BlockReasoning:
			lines = append(lines, "(think) "+b.Text)
		case model.BlockToolCall:
			lines = append(lines, fmt.Sprintf("[%s %s %s]", b.Name, b.ID, b.Arguments))
		}
	}
	if err != nil {
		lines = append(lines, "error: "+err.Error())
	} else if k := a.Finish().Kind; k != model.FinishStop {
		lines = append(lines, "-> "+k)
	}
	return strings.Join(lines, "\n")
}

// play runs a whole exchange as the loop would, answering each call with run.
func play(t *testing.T, text string, run func(call model.Block) model.Message) string {
	t.Helper()
	messages := []model.Message{user(text)}
	var out []string
	for range 20 {
		chunks, err := ask(t, &model.Request{Messages: messages})
		out = append(out, show(chunks, err))
		a := wiretest.Fold(chunks)
		m := a.Message("m", model.Config{})
		messages = append(messages, m)
		if err != nil || a.Finish().Kind == model.FinishStop {
			return strings.Join(out, "\n--\n")
		}
		for _, c := range m.ToolCalls() {
			messages = append(messages, run(c))
		}
	}
	t.Fatal("no end after 20 steps")
	return ""
}

const end = "\n\nThat was the last line of your message. (The offline provider only reports; it understands nothing of this.)"

func TestPrograms(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"say", "say hello there", "hello there"},
		{"neighbouring lines are one text", "say a\n\n  say b", "a\nb"},
		{"call, then the summary", `call ls {"path":"."}`,
			"[ls offline-1 {\"path\":\".\"}]\n-> tool-calls\n--\nls answered:\n\n    one\n    two" + end},
		{"call without JSON", "call ls", "[ls offline-1 {}]\n-> tool-calls\n--\nls answered:\n\n    one\n    two" + end},
		{"the JSON is kept as written", `call ls { "n" : 9007199254740993 }`,
			"[ls offline-1 { \"n\" : 9007199254740993 }]\n-> tool-calls\n--\nls answered:\n\n    one\n    two" + end},
		{"an error", "call bad", "[bad offline-1 {}]\n-> tool-calls\n--\nbad gave an error:\n\n    denied by guard.js" + end},
		{"an empty result", "call empty", "[empty offline-1 {}]\n-> tool-calls\n--\nempty answered nothing." + end},
		{"a long result", "call long", "[long offline-1 {}]\n-> tool-calls\n--\nlong answered:\n\n" + strings.Repeat("    x\n", 8) + "    (and 92 more lines)" + end},
		{"calls", `calls ls {"a":"|"} | ls | bad {}`,
			"[ls offline-1 {\"a\":\"|\"}]\n[ls offline-2 {}]\n[bad offline-3 {}]\n-> tool-calls\n--\n" +
				"3 calls ran:\n\n- ls answered: one (and 1 more)\n- ls answered: one (and 1 more)\n- bad gave an error: denied by guard.js" + end},
		{"steps in order, and the model has the last word", "call ls\ncall bad\nsay done",
			"[ls offline-1 {}]\n-> tool-calls\n--\n[bad offline-2 {}]\n-> tool-calls\n--\ndone"},
		{"words in front of a call are in its message", "think hmm\nsay I look.\ncall ls\nsay ok",
			"(think) hmm\nI look.\n[ls offline-1 {}]\n-> tool-calls\n--\nok"},
		{"only a thought", "think deep", "(think) deep\n(That was reasoning only; a say line gives an answer to read.)"},
		{"fail", "say so far\nfail RATE_LIMIT", "so far\nerror: the offline provider failed with RATE_LIMIT, as the message asked"},
		{"Windows line ends", "call ls\r\nsay done\r\n", "[ls offline-1 {}]\n-> tool-calls\n--\ndone"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := play(t, tc.text, func(c model.Block) model.Message {
				switch c.Name {
				case "bad":
					return result(c.ID, true, "denied by guard.js")
				case "empty":
					return result(c.ID, false, " \n")
				case "long":
					return result(c.ID, false, strings.Repeat("x\n", 100))
				}
				return result(c.ID, false, "one\ntwo\n")
			})
			if got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

func TestFaultyLines(t *testing.T) {
	const none = "None of your lines was run, because one of them is not right. "
	for text, want := range map[string]string{
		`call ls {"path":`:           "Line 1, `call ls {\"path\":`: the JSON of ls is not whole or not right: it ends too early.",
		"call me maybe":              "Line 1, `call me maybe`: the JSON of me is not whole or not right: invalid character 'm' looking for beginning of value.",
		"call":                       "Line 1, `call`: the tool's name is missing.",
		"say a\n\ncall ls {} {}":     "Line 3, `call ls {} {}`: `{}` stands behind the JSON; several calls in one message are written calls NAME JSON | NAME JSON.",
		"calls ls {} |":              "Line 1, `calls ls {} |`: call 2: the tool's name is missing.",
		"calls ls {} read {}":        "Line 1, `calls ls {} read {}`: call 1: `read {}` stands behind the JSON, where | and the next call, or nothing, is expected.",
		"say":                        "Line 1, `say`: the text is missing.",
		"fail softly":                "Line 1, `fail softly`: a failure code is one word in capitals, such as RATE_LIMIT or SERVER.",
		"fail":                       "Line 1, `fail`: a failure code is one word in capitals, such as RATE_LIMIT or SERVER.",
		"call ls {}\nand then?":      "Line 2, `and then?`: a line begins with call, calls, say, think, hang or fail.",
		"call ls {}\nhang on a bit.": "Line 2, `hang on a bit.`: hang stands alone on its line.",
	} {
		chunks, err := ask(t, &model.Request{Messages: []model.Message{user(text)}})
		got := show(chunks, err)
		if !strings.HasPrefix(got, none+want+"\n\nI am the offline provider") || !strings.Contains(got, "    call bash") {
			t.Errorf("%q is answered\n%s\nwant it to begin\n%s", text, got, none+want)
		}
	}
}

func TestAnythingElse(t *testing.T) {
	for _, text := range []string{"hello", "hang on a second", "", "please call ls {}", "saying nothing"} {
		chunks, err := ask(t, &model.Request{
			Messages: []model.Message{user(text)},
			Tools:    []model.ToolSpec{{Name: "bash"}, {Name: "ls"}},
		})
		got := show(chunks, err)
		for _, want := range []string{
			"I am the offline provider", "I am no language model", "call NAME", "calls read", "say ", "think ", "hang\n", "fail RATE_LIMIT",
			"The tools here are bash, ls.", "DEEPSEEK_API_KEY", "--base-url",
		} {
			if want == "call NAME" {
				want = `call bash {"command":"echo hi"}`
			}
			if !strings.Contains(got, want) {
				t.Errorf("the answer to %q lacks %q:\n%s", text, want, got)
			}
		}
	}
	if chunks, err := ask(t, &model.Request{}); !strings.HasPrefix(show(chunks, err), "I am the offline provider") {
		t.Error("a request without messages is not answered")
	}
}

// TestInstruction says which message is obeyed.
func TestInstruction(t *testing.T) {
	called := assistant(model.ToolCall("c1", "ls", "{}"))
	done := result("c1", false, "files")
	for _, tc := range []struct {
		name     string
		messages []model.Message
		want     string // the beginning of the reply
	}{
		{"the last of several", []model.Message{user("say old"), assistant(model.Text("old")), user("say new")}, "new"},
		{"results are not messages", []model.Message{user("call ls\nsay two"), called, done}, "two"},
		{"steering takes over", []model.Message{user("call ls\nsay two"), called, done, user("say steered")}, "steered"},
		{"steering in plain words", []model.Message{user("call ls\nsay two"), called, done, user("stop")}, "I am the offline"},
		{"a snapshot is passed over", []model.Message{user("say hi"), plugin("snapshot", "Mode: read-only.")}, "hi"},
		{"a script's note after a call is passed over", []model.Message{user("call ls\nsay two"), called, done, plugin("", "mind the dog")}, "two"},
		{"a script's note before the prompt", []model.Message{plugin("", "note"), user("say hi")}, "hi"},
		{"a script's note behind the prompt", []model.Message{user("say hi"), plugin("", "note")}, "hi"},
		{"a script's program counts", []model.Message{user("call ls\nsay two"), called, done, plugin("", "say three")}, "three"},
		{"a script's prompt is answered", []model.Message{user("say hi"), assistant(model.Text("hi")), plugin("", "go on")}, "I am the offline"},
		{"a relayed program counts", []model.Message{user("say hi"), plugin("relay", "say relayed")}, "relayed"},
		{"nothing but a snapshot", []model.Message{plugin("snapshot", "Mode: x")}, "I am the offline"},
		{"asked again at the end", []model.Message{user("say hi"), assistant(model.Text("hi"))}, "All lines of your message have run"},
		{"system messages are none", []model.Message{user("say hi"), {Role: model.RoleSystem, Content: []model.Block{model.Text("say no")}}}, "hi"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			chunks, err := ask(t, &model.Request{Messages: tc.messages})
			if got := show(chunks, err); !strings.HasPrefix(got, tc.want) {
				t.Errorf("got %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestChunks(t *testing.T) {
	chunks, err := ask(t, &model.Request{System: "12345678", Messages: []model.Message{user("say two  words\nthink x")}})
	if err != nil {
		t.Fatal(err)
	}
	want := []model.Chunk{
		model.NewBlockStart(0, model.BlockText),
		model.NewTextDelta(0, "two  "),
		model.NewTextDelta(0, "words"),
		model.NewBlockEnd(0, model.Text("two  words")),
		model.NewBlockStart(1, model.BlockReasoning),
		model.NewReasoningDelta(1, "x"),
		model.NewBlockEnd(1, model.Reasoning("x")),
		model.NewUsage(model.Usage{InputTokens: 8, OutputTokens: 3}), // (8+22+3)/4, (11+3)/4
		model.NewFinish(model.FinishStop),
	}
	if !reflect.DeepEqual(chunks, want) {
		t.Errorf("got %+v", chunks)
	}
}

func TestIDs_AreNew(t *testing.T) {
	old := assistant(model.ToolCall("offline-2", "ls", "{}"), model.ToolCall("other", "ls", "{}"))
	chunks, _ := ask(t, &model.Request{Messages: []model.Message{user("x"), old, user("calls a | b")}})
	calls := wiretest.Fold(chunks).Message("m", model.Config{}).ToolCalls()
	if calls[0].ID != "offline-3" || calls[1].ID != "offline-4" {
		t.Errorf("got %s, %s", calls[0].ID, calls[1].ID)
	}
}

func TestHang(t *testing.T) {
	for _, how := range []string{"cancel", "close"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cause := errors.New("enough")
				ctx, cancel := context.WithCancelCause(t.Context())
				s, err := offline.New().Stream(ctx, &model.Request{Messages: []model.Message{user("say first\nhang\nsay never")}})
				if err != nil {
					t.Fatal(err)
				}
				a := model.NewAssembler()
				ended := make(chan error)
				go func() {
					for {
						c, err := s.Next()
						if err != nil {
							ended <- err
							return
						}
						a.Add(c)
					}
				}()
				synctest.Wait()
				select {
				case err := <-ended:
					t.Fatalf("it did not hang: %v", err)
				default:
				}
				if how == "cancel" {
					cancel(cause)
				} else {
					s.Close()
				}
				err = <-ended
				if how == "cancel" && (model.AsFailure(ctx, err).Code != model.CodeAborted || !errors.Is(err, cause)) {
					t.Errorf("got %v", err)
				}
				if got := model.PlainText(a.Interrupted()); got != "firstWaiting until this is cancelled " {
					t.Errorf("kept %q", got)
				}
				s.Close()
				cancel(nil)
			})
		})
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	req := &model.Request{Messages: []model.Message{user("say a b c d")}}
	s, err := offline.New().Stream(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := s.Next(); model.AsFailure(ctx, err).Code != model.CodeAborted {
		t.Errorf("between chunks: %v", err)
	}
	if _, err := offline.New().Stream(ctx, req); model.AsFailure(ctx, err).Code != model.CodeAborted {
		t.Errorf("before the start: %v", err)
	}
}

func TestFail_Code(t *testing.T) {
	_, err := ask(t, &model.Request{Messages: []model.Message{user("fail CONTEXT_WINDOW_EXCEEDED")}})
	if f := model.AsFailure(t.Context(), err); f.Code != model.CodeContextWindow {
		t.Errorf("got %+v", f)
	}
}

// FuzzProgram holds offline to: any text is answered, in the same way twice, and each
// call's arguments are JSON.
func FuzzProgram(f *testing.F) {
	for _, s := range []string{"say a", "calls a {} | b", "call a \xff", "fail X\nhang", "think\u00a0a", "|", "calls |"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "hang") {
			t.Skip("it hangs, as it says")
		}
		req := &model.Request{Messages: []model.Message{user(text)}}
		first, err1 := ask(t, req)
		again, err2 := ask(t, req)
		if !reflect.DeepEqual(first, again) || (err1 == nil) != (err2 == nil) {
			t.Error("two answers differ")
		}
		if err1 == nil && len(wiretest.Fold(first).Blocks()) == 0 {
			t.Error("an empty answer")
		}
	})
}
