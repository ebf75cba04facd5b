package model_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"dshsh/loop/model"
)

func TestAsFailure(t *testing.T) {
	cause := errors.New("the user pressed Ctrl-C")
	done, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	rate := &model.Failure{Code: model.CodeRateLimit, Message: "slow down", Status: 429, RequestID: "r1"}
	var typedNil *model.Failure

	for _, tc := range []struct {
		name    string
		ctx     context.Context
		err     error
		code    string
		message string
		is      []error
	}{
		{"plain", context.Background(), io.ErrUnexpectedEOF, model.CodeUnknown, "unexpected EOF", []error{io.ErrUnexpectedEOF}},
		{"no ctx", nil, io.EOF, model.CodeUnknown, "EOF", []error{io.EOF}},
		{"failure", context.Background(), rate, model.CodeRateLimit, "slow down", []error{rate}},
		{"wrapped failure", context.Background(), fmt.Errorf("step 1: %w", rate), model.CodeRateLimit, "step 1: slow down", []error{rate}},
		{"failure without a code", context.Background(), &model.Failure{Message: "m"}, model.CodeUnknown, "m", nil},
		{"no message", context.Background(), errors.New(""), model.CodeUnknown, "the model call failed without a message (*errors.errorString)", nil},
		{"cancelled elsewhere", context.Background(), fmt.Errorf("read: %w", context.Canceled), model.CodeAborted, "read: context canceled", []error{context.Canceled}},
		{"ctx done", done, io.ErrUnexpectedEOF, model.CodeAborted, "unexpected EOF", []error{io.ErrUnexpectedEOF, cause}},
		{"B056 ctx done beats the failure's code", done, rate, model.CodeAborted, "slow down", []error{rate, cause}},
		{"ctx done, its own cause", done, cause, model.CodeAborted, cause.Error(), []error{cause}},
		{"invalid bytes", context.Background(), errors.New("a\xffb"), model.CodeUnknown, "a\uFFFDb", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := model.AsFailure(tc.ctx, tc.err)
			if f.Code != tc.code || f.Message != tc.message {
				t.Errorf("got %s %q, want %s %q", f.Code, f.Message, tc.code, tc.message)
			}
			for _, is := range tc.is {
				if !errors.Is(f, is) {
					t.Errorf("errors.Is does not find %v", is)
				}
			}
		})
	}
	if f := model.AsFailure(done, nil); f != nil {
		t.Errorf("nil became %v", f)
	}
	if f := model.AsFailure(done, typedNil); f != nil {
		t.Errorf("a nil *Failure became %v", f)
	}
	if f := model.AsFailure(context.Background(), fmt.Errorf("x: %w", rate)); f.Status != 429 || f.RequestID != "r1" {
		t.Errorf("facts were lost: %+v", f)
	}
	again := model.AsFailure(done, model.AsFailure(done, io.EOF))
	if !errors.Is(again, io.EOF) || !errors.Is(again, cause) || again.Code != model.CodeAborted {
		t.Errorf("twice: %+v", again)
	}
}

func TestFailf(t *testing.T) {
	f := model.Failf(model.CodeTransport, "the link broke: %w", io.EOF)
	if f.Message != "the link broke: EOF" || !errors.Is(f, io.EOF) {
		t.Errorf("got %q, cause %v", f.Message, f.Unwrap())
	}
	if f := model.Failf(model.CodeServer, "plain"); f.Unwrap() != nil {
		t.Errorf("cause of a plain failure: %v", f.Unwrap())
	}
	two := model.Failf(model.CodeServer, "%w and %w", io.EOF, io.ErrClosedPipe)
	if !errors.Is(two, io.EOF) || !errors.Is(two, io.ErrClosedPipe) {
		t.Error("one of two causes was lost")
	}
}

func TestR087_Scrub(t *testing.T) {
	for in, want := range map[string]string{
		"plain 界 😀":      "plain 界 😀",
		"\xff":           "\uFFFD",
		"a\xed\xa0\xbdb": "a\uFFFDb", // an unpaired surrogate, encoded
		"\xc3\x28":       "\uFFFD(",
		"":               "",
		"real \uFFFD":    "real \uFFFD",
		`escape \ud83d`:  `escape \ud83d`, // text, not JSON: these are six plain characters
	} {
		if got := model.Scrub(in); got != want {
			t.Errorf("Scrub(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestR087_ScrubJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"\ud83d"}`:              `{"a":"\ufffd"}`,
		`{"a":"\ud83d\ude00"}`:        `{"a":"\ud83d\ude00"}`, // a pair
		`{"a":"\uD83D\uDE00 \uDE00"}`: `{"a":"\uD83D\uDE00 \ufffd"}`,
		`{"a":"\ud83d\ud83d\ude00"}`:  `{"a":"\ufffd\ud83d\ude00"}`,
		`{"a":"\\ud83d"}`:             `{"a":"\\ud83d"}`,    // an escaped backslash and five letters
		`{"a":"\\\ud83d"}`:            `{"a":"\\\ufffd"}`,   // and then a real one
		`{"a":"\ud83`:                 `{"a":"\ud83`,        // cut off: not an escape
		`{"a":"\u754c\n\`:             `{"a":"\u754c\n\`,    // ordinary escapes, cut off
		"{\"a\":\"\xed\xa0\xbd\"}":    "{\"a\":\"\uFFFD\"}", // raw bytes
		`{"a":"\ude00\ud83d"}`:        `{"a":"\ufffd\ufffd"}`,
	} {
		if got := model.ScrubJSON(in); got != want {
			t.Errorf("ScrubJSON(%s) = %s, want %s", in, got, want)
		}
	}
	clean := strings.Repeat(`{"a":"\ud83d\ude00"}`, 10)
	if n := testing.AllocsPerRun(10, func() { model.ScrubJSON(clean) }); n != 0 {
		t.Errorf("a clean text costs %v allocations", n)
	}
}

func TestR087_ScrubBlocks(t *testing.T) {
	blocks := []model.Block{
		model.Text("ok"),
		model.ToolCall("c\xff", "n\xff", `{"a":"\ud83d"}`),
		model.ToolResult("c\xff", true, model.Text("\xc3\x28")),
	}
	got := model.ScrubBlocks(blocks)
	equal(t, "scrubbed", got, []model.Block{
		model.Text("ok"),
		model.ToolCall("c\uFFFD", "n\uFFFD", `{"a":"\ufffd"}`),
		model.ToolResult("c\uFFFD", true, model.Text("\uFFFD(")),
	})
	if blocks[2].Content[0].Text != "\xc3\x28" {
		t.Error("the argument was written to")
	}
}

func FuzzScrubJSON(f *testing.F) {
	for _, s := range []string{`\ud83d`, `\\ud83d\ude00`, "\xff\\u", `\`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := model.ScrubJSON(s)
		if twice := model.ScrubJSON(once); twice != once {
			t.Errorf("not settled after one pass: %q, %q", once, twice)
		}
		if got := model.Scrub(s); len(model.ScrubJSON(got)) != len(got) {
			t.Errorf("length of %q changed", got)
		}
	})
}
