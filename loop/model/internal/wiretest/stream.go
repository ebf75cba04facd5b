package wiretest

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
)

// streams has replies that are whole.
func (s Subject) streams(t *testing.T) {
	t.Run("chunks of a text", s.chunks)
	s.Check(t, Shape{"R066 keep-alive", modeltest.Steps(
		modeltest.Comment("keep-alive"),
		modeltest.Comment(" OPENROUTER PROCESSING"),
		modeltest.TextDelta("one "),
		modeltest.Comment("keep-alive"),
		modeltest.Raw(":\n"),
		modeltest.TextDelta("two"),
	).Then(modeltest.Finish("stop")...), "text one two\nstop", ""})

	// A stream with what makes line ends and characters hard.
	recorded := modeltest.Render(s.Path, append([]modeltest.Step{
		modeltest.TextDelta("a\u2028b 界"), modeltest.Comment("comment"), modeltest.TextDelta(" 😀\n"),
	}, modeltest.Finish("stop")...)...)
	const shown = "text a\u2028b 界 😀\n\nstop"
	crlf := strings.ReplaceAll(recorded, "\n", "\r\n")
	var split []modeltest.Step
	for _, piece := range strings.SplitAfter(crlf, "\r") {
		split = append(split, modeltest.Raw(piece))
	}
	s.Check(t,
		Shape{"R068 LF", modeltest.Steps(modeltest.Raw(recorded)), shown, ""},
		Shape{"R068 CRLF", modeltest.Steps(modeltest.Raw(crlf)), shown, ""},
		Shape{"R068 CRLF flushed between CR and LF", modeltest.Steps(split...), shown, ""},
		Shape{"R068 CR", modeltest.Steps(modeltest.Raw(strings.ReplaceAll(recorded, "\n", "\r"))), shown, ""},
		Shape{"R068 no space", modeltest.Steps(modeltest.Raw(strings.ReplaceAll(recorded, "data: ", "data:"))), shown, ""},
		Shape{"R069 every byte alone", modeltest.Steps(modeltest.Bytewise(recorded)), shown, ""},
	)
	t.Run("R070 long lines", s.longLines)

	blank := modeltest.Raw(strings.Repeat("\n", 5000))
	s.Check(t, Shape{"R086 blank lines", modeltest.Steps(append([]modeltest.Step{blank, modeltest.TextDelta("hi")}, modeltest.Finish("stop")...)...), "text hi\nstop", ""},
		Shape{"reasoning, text, call", modeltest.Steps(
			modeltest.ReasoningDelta("think"), modeltest.ReasoningDelta(" more"),
			modeltest.TextDelta("I look."),
			modeltest.ToolDelta(0, "c1", "ls", "{}"),
		).Then(modeltest.Finish("tool_calls")...), "reasoning think more\ntext I look.\ncall c1 ls {}\ntool-calls", ""},
		Shape{"two calls", modeltest.WireTools(modeltest.Call{ID: "c1", Name: "ls", Arguments: `{"path":"a long enough one"}`}, modeltest.Call{ID: "c2", Name: "now", Arguments: "{}"}),
			"call c1 ls {\"path\":\"a long enough one\"}\ncall c2 now {}\ntool-calls", ""},
		Shape{"the same id twice", modeltest.WireTools(modeltest.Call{ID: "c1", Name: "ls", Arguments: "{}"}, modeltest.Call{ID: "c1", Name: "ls", Arguments: "{}"}),
			"call c1 ls {}\ncall (new) ls {}\ntool-calls", ""},
		Shape{"stop beside a call", modeltest.Steps(modeltest.ToolDelta(0, "c1", "ls", "{}")).Then(modeltest.Finish("stop")...), "call c1 ls {}\ntool-calls", ""},
		Shape{"tool_calls without a call", modeltest.Steps(modeltest.TextDelta("hm")).Then(modeltest.Finish("tool_calls")...), "text hm\nstop", ""},
		Shape{"a word for the end that is new", modeltest.Steps(modeltest.TextDelta("hm")).Then(modeltest.Finish("eos")...), "text hm\nstop", ""},
	)
	t.Run("the connection is kept", func(t *testing.T) {
		p, server := s.Start(t, Options{}, modeltest.WireText("a"), modeltest.WireText("b"), modeltest.WireText("c"))
		for range 3 {
			if _, err := Read(t.Context(), p, Request()); err != nil {
				t.Fatal(err)
			}
		}
		if n := server.Connections(); n != 1 {
			t.Errorf("%d connections for three calls, one after the other", n)
		}
	})
}

func (s Subject) chunks(t *testing.T) {
	p, _ := s.Start(t, Options{}, modeltest.WireText("hello there"))
	chunks, err := Read(t.Context(), p, Request())
	if err != nil {
		t.Fatal(err)
	}
	want := []model.Chunk{
		model.NewBlockStart(0, model.BlockText),
		model.NewTextDelta(0, "hello "),
		model.NewTextDelta(0, "there"),
		model.NewBlockEnd(0, model.Text("hello there")),
		model.NewUsage(model.Usage{InputTokens: 11, OutputTokens: 7}),
		model.NewFinish(model.FinishStop),
	}
	if !reflect.DeepEqual(chunks, want) {
		t.Errorf("got %+v\nwant %+v", chunks, want)
	}
}

func (s Subject) longLines(t *testing.T) {
	for _, n := range []int{70 << 10, 1 << 20, 6 << 20} {
		arguments := `{"content":"` + strings.Repeat("x", n) + `"}`
		p, _ := s.Start(t, Options{}, modeltest.Steps(
			modeltest.ToolDelta(0, "c1", "write", arguments)).Then(modeltest.Finish("tool_calls")...))
		chunks, err := Read(t.Context(), p, Request())
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if got := Fold(chunks).Blocks()[0].Arguments; got != arguments {
			t.Errorf("%d bytes: %d came", len(arguments), len(got))
		}
	}
}

// ends has replies that are not whole, or nearly so.
func (s Subject) ends(t *testing.T) {
	half := modeltest.TextDelta("half a sen")
	tool := modeltest.ToolDelta(0, "c1", "bash", `{"command":"ls"}`)
	piece := modeltest.Raw(`data: {"type":"content_block_del`)
	end := modeltest.Steps(modeltest.TextDelta("all"), modeltest.Finish("stop")[0])
	const clean, broken = "closed the reply in an orderly way before it was complete", "broke in the middle of the reply"
	s.Check(t,
		Shape{"R078 cut in a string", modeltest.Steps(
			modeltest.TextDelta("I write."),
			modeltest.ToolDelta(0, "c1", "write", `{"content":"half a`),
		).Then(modeltest.Finish("length")...), "text I write.\nmax-tokens", ""},
		Shape{"R078 arguments that happen to parse", modeltest.Steps(
			modeltest.ToolDelta(0, "c1", "write", `{"path":"x"}`),
		).Then(modeltest.Finish("length")...), "max-tokens", ""},
		Shape{"R078 text", modeltest.Steps(modeltest.TextDelta("half")).Then(modeltest.Finish("length")...), "text half\nmax-tokens", ""},

		// The call is passed on as it is, so that it fails as a call and the model hears of it.
		Shape{"R079 arguments that are not whole", modeltest.Steps(
			modeltest.ToolDelta(0, "c1", "bash", `{"command":"rm -r bui`),
		).Then(modeltest.Finish("tool_calls")...), `call c1 bash {"command":"rm -r bui` + "\ntool-calls", ""},

		Shape{"R081 filtered, empty", modeltest.Steps(modeltest.Begin()).Then(modeltest.Finish("content_filter")...),
			"CONTENT_FILTER", "content filter stopped the reply before anything came"},
		Shape{"R081 filtered, half a sentence", modeltest.Steps(modeltest.TextDelta("Well, ")).Then(modeltest.Finish("content_filter")...),
			"text Well, \nCONTENT_FILTER", "after 6 characters"},

		Shape{"R083 clean, half a sentence", modeltest.Steps(half), "text half a sen\nTRANSPORT", clean + ": after 10 characters no "},
		Shape{"R083 clean, a complete tool call", modeltest.Steps(tool), "call c1 bash {\"command\":\"ls\"}\nTRANSPORT", clean + ": after 0 characters and a tool call"},
		Shape{"R083 cut", modeltest.Steps(half, modeltest.Cut()), "text half a sen\nTRANSPORT", broken},
		Shape{"R083 cut, a complete tool call", modeltest.Steps(tool, modeltest.Cut()), "call c1 bash {\"command\":\"ls\"}\nTRANSPORT", broken},
		Shape{"R083 reset", modeltest.Steps(half, modeltest.Reset()), "text half a sen\nTRANSPORT", broken},
		Shape{"R083 clean, nothing at all", modeltest.Steps(modeltest.Headers(200, nil)), "TRANSPORT", clean + ": before anything came"},
		Shape{"R083 clean, only comments", modeltest.Steps(modeltest.Comment("x")), "TRANSPORT", clean},
		Shape{"R083 clean, only the beginning", modeltest.Steps(modeltest.Begin()), "TRANSPORT", clean},
		Shape{"R083 clean, within a frame", modeltest.Steps(half, piece), "text half a sen\nTRANSPORT", clean},
		Shape{"R083 cut, within a frame", modeltest.Steps(half, piece, modeltest.Cut()), "text half a sen\nTRANSPORT", broken},
		Shape{"R083 the end without a reason", modeltest.Steps(half, modeltest.Done()), "text half a sen\nTRANSPORT", "came, but no "},

		// Whole though something is missing behind the reason.
		Shape{"R083 ended, no more", end, "text all\nstop", ""},
		Shape{"R083 ended, no blank line either", modeltest.Steps(modeltest.Raw(
			strings.TrimRight(modeltest.Render(s.Path, modeltest.TextDelta("all"), modeltest.Finish("stop")[0]), "\n"))), "text all\nstop", ""},
		Shape{"R083 ended, cut", end.Then(modeltest.Cut()), "text all\nstop", ""},
		Shape{"R083 ended, reset", end.Then(modeltest.Reset()), "text all\nstop", ""},
		Shape{"R083 ended, rubbish behind it", end.Then(modeltest.Frame(`<eof>`)), "text all\nstop", ""},

		Shape{"nothing", modeltest.Steps(modeltest.Finish("stop")...), "EMPTY_RESPONSE", "nothing at all"},
		Shape{"no JSON", modeltest.Steps(half, modeltest.Frame(`upstream error`)), "text half a sen\nSERVER", "not a piece of a reply"},
		Shape{"an error event in words", modeltest.Steps(half, modeltest.Raw("event: error\ndata: upstream went away\n\n")), "text half a sen\nSERVER", "upstream went away"},
		Shape{"an error behind the reason", end.Then(modeltest.Raw("event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"late\"}}\n\n")), "text all\nSERVER", "late"},

		Shape{"a body that is an error", modeltest.Status(200, nil, `{"error":{"message":"boom","type":"server_error"}}`), "SERVER", "boom"},
		Shape{"a body that is a list", modeltest.Status(200, nil, `[1,2]`), "SERVER", "no model's reply"},
		Shape{"a body that is something else", modeltest.Status(200, nil, `{"status":"ok"}`), "SERVER", "no model's reply"},
		Shape{"a body that is a web page", modeltest.Status(200, map[string]string{"Content-Type": "text/html"}, "\n<!doctype html><title>Sign in</title>"), "UNKNOWN", "web page"},
		Shape{"a body that is cut", modeltest.Steps(modeltest.Raw(`{"choices":[{"mess`), modeltest.Cut()), "TRANSPORT", "broke"},
	)
	t.Run("R081 usage of a filtered reply", func(t *testing.T) {
		p, _ := s.Start(t, Options{}, modeltest.Steps(modeltest.TextDelta("x")).Then(modeltest.Finish("content_filter")...))
		chunks, _ := Read(t.Context(), p, Request())
		if u := Fold(chunks).Usage(); u == nil || u.InputTokens != 11 {
			t.Errorf("got %+v", u)
		}
	})
	t.Run("empty after tools", func(t *testing.T) {
		p, _ := s.Start(t, Options{}, modeltest.Steps(modeltest.Finish("stop")...))
		call := Assistant(model.ToolCall("c1", "ls", "{}"))
		chunks, err := Read(t.Context(), p, Request(User("x"), call, Results(model.ToolResult("c1", false))))
		if got := Show(chunks, err); got != "stop" {
			t.Errorf("got %s", got)
		}
	})
	t.Run("Next after the end", func(t *testing.T) {
		p, _ := s.Start(t, Options{}, modeltest.WireText("a"), modeltest.Steps(modeltest.TextDelta("a")))
		for _, want := range []error{io.EOF, io.ErrUnexpectedEOF} {
			s, err := p.Stream(t.Context(), Request())
			if err != nil {
				t.Fatal(err)
			}
			for err == nil {
				_, err = s.Next()
			}
			_, again := s.Next()
			if !errors.Is(err, want) || again != err {
				t.Errorf("got %v, then %v; want %v twice", err, again, want)
			}
			for range 2 {
				if err := s.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			}
		}
	})
}
