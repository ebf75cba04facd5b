package modeltest_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"dshsh/loop/model"
	"dshsh/loop/model/internal/wiretest"
	"dshsh/loop/model/modeltest"
)

func request(text string) *model.Request {
	return &model.Request{Messages: []model.Message{{
		ID: "m", Role: model.RoleUser, Content: []model.Block{model.Text(text)}, Source: model.Source{Kind: model.SourceUser},
	}}}
}

func types(chunks []model.Chunk) string {
	var names []string
	for _, c := range chunks {
		names = append(names, c.Type)
	}
	return strings.Join(names, " ")
}

func TestB108_TextIsSevenChunks(t *testing.T) {
	chunks, err := wiretest.Read(context.Background(), modeltest.New(modeltest.Text("abc")), request("go"))
	if err != nil {
		t.Fatal(err)
	}
	want := "block-start text-delta text-delta text-delta block-end usage finish"
	if got := types(chunks); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestAnswers(t *testing.T) {
	broken := errors.New("broken")
	for _, tc := range []struct {
		name   string
		answer modeltest.Answer
		want   string // chunk types
		err    error  // what ends it, if not the finish
	}{
		{"tool", modeltest.Tool("c1", "echo", `{}`), "block-start tool-call-delta block-end finish", nil},
		{"tools", modeltest.Tools(modeltest.Call{ID: "a"}, modeltest.Call{ID: "b"}),
			"block-start tool-call-delta block-end block-start tool-call-delta block-end finish", nil},
		{"say", modeltest.Say("x", modeltest.Call{ID: "a"}),
			"block-start text-delta block-end block-start tool-call-delta block-end finish", nil},
		{"truncated", modeltest.Truncated("x"), "block-start text-delta block-end finish", nil},
		{"reply", modeltest.Reply(model.NewFinish(model.FinishStop)), "finish", nil},
		{"early end", modeltest.Reply(model.NewTextDelta(0, "x")), "text-delta", io.ErrUnexpectedEOF},
		{"nothing", modeltest.Play(), "", io.ErrUnexpectedEOF},
		{"break", modeltest.Play(modeltest.SendText(0, "x"), modeltest.Break(broken)), "block-start text-delta block-end", broken},
		{"refuse", modeltest.Refuse(broken), "", broken},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := modeltest.New(tc.answer)
			chunks, err := wiretest.Read(context.Background(), p, request("go"))
			if got := types(chunks); got != tc.want {
				t.Errorf("chunks %q, want %q", got, tc.want)
			}
			if !errors.Is(err, tc.err) {
				t.Errorf("error %v, want %v", err, tc.err)
			}
			if s := p.Stats(); s.Open != 0 || s.Left != 0 {
				t.Errorf("at the end: %+v", s)
			}
		})
	}
}

func TestFail(t *testing.T) {
	_, err := wiretest.Read(context.Background(), modeltest.New(modeltest.Fail(model.CodeServer, "down")), request("go"))
	f := model.AsFailure(context.Background(), err)
	if f.Code != model.CodeServer || f.Message != "down" {
		t.Errorf("got %+v", f)
	}
}

func TestRunsOut(t *testing.T) {
	p := modeltest.New(modeltest.Text("x"))
	if _, err := wiretest.Read(context.Background(), p, request("one")); err != nil {
		t.Fatal(err)
	}
	_, err := wiretest.Read(context.Background(), p, request("two"))
	if f := model.AsFailure(context.Background(), err); f.Code != model.CodeUnknown ||
		f.Message != `modeltest: the script has no answer for request 2, whose last message is user "two"; give New one more, or use Otherwise` {
		t.Errorf("got %+v", f)
	}
	p.Add(modeltest.Text("y"))
	p.Otherwise(modeltest.Text("z"))
	for range 3 {
		if _, err := wiretest.Read(context.Background(), p, request("more")); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.Requests()) != 5 {
		t.Errorf("%d requests", len(p.Requests()))
	}
}

func TestRequestsAreCopies(t *testing.T) {
	p := modeltest.New(modeltest.Func(func(_ context.Context, req *model.Request) modeltest.Answer {
		return modeltest.Text(strings.ToUpper(req.Messages[0].PlainText()))
	}))
	req := request("shout")
	chunks, err := wiretest.Read(context.Background(), p, req)
	if err != nil {
		t.Fatal(err)
	}
	a := model.NewAssembler()
	for _, c := range chunks {
		a.Add(c)
	}
	if got := model.PlainText(a.Blocks()); got != "SHOUT" {
		t.Errorf("answered %q", got)
	}
	req.Messages[0].Content[0].Text = "changed"
	if got := p.Last().Messages[0].PlainText(); got != "shout" {
		t.Errorf("recorded %q", got)
	}
}

func TestHang(t *testing.T) {
	for _, end := range []string{"cancel", "close"} {
		t.Run(end, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := modeltest.New(modeltest.Hang("ab"))
				cause := errors.New("stop")
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				s, err := p.Stream(ctx, request("go"))
				if err != nil {
					t.Fatal(err)
				}
				done := make(chan error)
				go func() {
					for {
						if _, err := s.Next(); err != nil {
							done <- err
							return
						}
					}
				}()
				if err := p.WaitHanging(t.Context()); err != nil {
					t.Fatal(err)
				}
				if end == "cancel" {
					cancel(cause)
				} else {
					s.Close()
				}
				err = <-done
				if end == "cancel" && (!errors.Is(err, cause) || model.AsFailure(ctx, err).Code != model.CodeAborted) {
					t.Errorf("Next returned %v", err)
				}
				s.Close()
				if st := p.Stats(); st.Open != 0 || st.Hanging != 0 {
					t.Errorf("at the end: %+v", st)
				}
			})
		})
	}
}

func TestGate(t *testing.T) {
	gate := make(chan struct{})
	order := make(chan string, 2)
	p := modeltest.New(modeltest.Play(
		modeltest.Do(func() { order <- "before" }),
		modeltest.Gate(gate),
		modeltest.Do(func() { order <- "after" }),
		modeltest.Send(model.NewFinish(model.FinishStop)),
	))
	done := make(chan error)
	go func() { _, err := wiretest.Read(t.Context(), p, request("go")); done <- err }()
	if err := p.WaitHanging(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(order) != 1 {
		t.Errorf("the gate did not hold")
	}
	close(gate)
	if err := <-done; err != nil || len(order) != 2 {
		t.Errorf("after the gate: %v, %d", err, len(order))
	}
}

func TestWaitGivesUp(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := modeltest.New().WaitRequests(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestConcurrentUse(t *testing.T) {
	p := modeltest.New().Otherwise(modeltest.Text("hi"))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if _, err := wiretest.Read(t.Context(), p, request("x")); err != nil {
					t.Error(err)
				}
				p.Requests()
			}
		})
	}
	wg.Wait()
	if st := p.Stats(); st.Requests != 400 || st.Open != 0 {
		t.Errorf("%+v", st)
	}
}
