package runtime_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"dshsh/runtime"
	"dshsh/runtime/runtimetest"
)

var skipped = runtime.NewSerial[runtimetest.CheckPayload]("toy/skipped", "", runtime.Sample{}, runtime.SkipQuarantined())

func withSkipped(c *runtime.HostConfig) {
	c.Events = runtime.NewCatalogue(append(runtimetest.Catalogue().Events(), skipped.Event)...)
}

func TestFiveFailuresInARowQuarantineTheScript(t *testing.T) {
	for _, event := range []string{"toy/check", "toy/rewrite", "toy/decide", "toy/flush"} {
		t.Run(event, func(t *testing.T) {
			h := runtimetest.NewHost(t)
			h.Run(func() {
				fail := true
				in := h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
					c.At(6)
					c.MustOn(event, nil, func(*runtimetest.Call) (runtime.Value, error) {
						if fail {
							return nil, errBoom
						}
						return nil, nil
					})
				})
				h.Use(in)
				run := func() (err error) {
					switch event {
					case "toy/check":
						err = check(h, runtime.Target{})
					case "toy/rewrite":
						_, _, err = runRewrite(h)
					case "toy/decide":
						_, err = runtimetest.Decide.Run(h.Host, runtime.Target{}, runtimetest.CallPayload{}, allow)
					case "toy/flush":
						err = runtimetest.Flush.Run(h.Host, runtime.Target{}, runtimetest.NoticePayload{})
					}
					return err
				}
				for i := range 9 {
					fail = i != 4
					if err := run(); (err != nil) != fail {
						t.Errorf("run %d: %v", i, err)
					}
				}
				if in.Quarantined() != nil {
					t.Errorf("in quarantine although the fifth call went well: %v", in.Quarantined())
				}
				fail = true
				_ = run()
				want := "project/a.toy: " + event + " failed 5 times in a row, the last time with: a.toy:6: " + event + ": boom"
				if got := h.Seen.Quarantines; len(got) != 1 || got[0] != want {
					t.Errorf("told of %q", got)
				}
				if err := in.Quarantined(); !errors.Is(err, runtime.ErrQuarantined) || !errors.Is(err, errBoom) {
					t.Errorf("quarantine: %v", err)
				}
				h.Lift(in)
				fail = false
				if err := run(); err != nil || in.Quarantined() != nil {
					t.Errorf("after Lift: %v, %v", err, in.Quarantined())
				}
				fail = true
				for range 4 {
					_ = run()
				}
				if in.Quarantined() != nil {
					t.Error("after Lift failures do not count from zero")
				}
				h.Trace.Take()
			})
		})
	}
}

func allow(runtimetest.CallPayload) (runtimetest.Decision, error) {
	return runtimetest.Decision{Kind: "allow"}, nil
}

func TestAQuarantinedScriptDoesWhatAThrowWouldDo(t *testing.T) {
	h := runtimetest.NewHost(t, withSkipped)
	h.Run(func() {
		all := func(c *runtimetest.Call) {
			for _, e := range h.Catalogue().Events() {
				c.MustOn(e.Name, nil, says(h, "ran"))
			}
			c.Instance().Register("command", "hello", nil, nil, c.Where())
		}
		bad := h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) { c.At(2); all(c) })
		good := h.Script("project/b.toy", runtimetest.JS, func(c *runtimetest.Call) {
			for _, e := range h.Catalogue().Events() {
				c.MustOn(e.Name, nil, says(h, "good"))
			}
		})
		g := h.Use(bad, good)
		if len(g.Offers("command", nil)) != 1 {
			t.Error("the command is not offered")
		}
		h.Quarantine(bad, errors.New("it is Friday"))
		if len(g.Offers("command", nil)) != 0 {
			t.Error("the command is still offered")
		}
		notice(h, runtime.Target{})
		h.Trace.Want("good")
		if err := skipped.Run(h.Host, runtime.Target{}, runtimetest.CheckPayload{}); err != nil {
			t.Errorf("an event that skips: %v", err)
		}
		h.Trace.Want("good")
		if err := runtimetest.Flush.Run(h.Host, runtime.Target{}, runtimetest.NoticePayload{}); err != nil {
			t.Errorf("parallel: %v", err)
		}
		h.Trace.Want("good")
		_, _, rerr := runRewrite(h)
		for name, err := range map[string]error{"toy/check": check(h, runtime.Target{}), "toy/rewrite": rerr} {
			var se *runtime.ScriptError
			if !errors.As(err, &se) || !errors.Is(err, runtime.ErrQuarantined) || se.Event != name || se.Error() != "a.toy:2: "+name+": script quarantined: a.toy: it is Friday" {
				t.Errorf("%s: %v", name, err)
			}
		}
		h.Trace.Want("")
		d, err := runtimetest.Decide.Run(h.Host, runtime.Target{}, runtimetest.CallPayload{}, allow)
		if err != nil || d.Kind != "deny" || d.Reason != "project/a.toy is in quarantine" {
			t.Errorf("%+v, %v", d, err)
		}
		if got := outcomes(h); got != "project/a.toy:2 failed = failed; project/a.toy:2 deny = deny" {
			t.Errorf("recorded %s", got)
		}
		h.Quarantine(bad, errors.New("again"))
		if got := strings.Join(h.Seen.Quarantines, ", "); got != "project/a.toy: it is Friday" {
			t.Errorf("told of %s", got)
		}
	})
}

func TestOnceInQuarantineIsNotSpent(t *testing.T) {
	h := runtimetest.NewHost(t, withSkipped)
	h.Run(func() {
		in := h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
			for _, e := range []string{"toy/check", "toy/skipped", "toy/rewrite"} {
				c.MustOn(e, runtimetest.Opts{"once": true}, says(h, "ran"))
			}
		})
		h.Use(in)
		h.Quarantine(in, errBoom)
		for range 2 {
			_, _, err := runRewrite(h)
			if err == nil || check(h, runtime.Target{}) == nil {
				t.Error("a guard in quarantine let through")
			}
			if err := skipped.Run(h.Host, runtime.Target{}, runtimetest.CheckPayload{}); err != nil {
				t.Error(err)
			}
		}
		h.Lift(in)
		for range 2 {
			_ = check(h, runtime.Target{})
			_ = skipped.Run(h.Host, runtime.Target{}, runtimetest.CheckPayload{})
		}
		h.Trace.Want("ran ran")
	})
}

func TestQuarantineDuringADispatchStopsTheScriptsLaterListeners(t *testing.T) {
	h := runtimetest.NewHost(t)
	h.Run(func() {
		var in *runtime.Instance
		in = h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
			c.MustOn("toy/notice", nil, func(*runtimetest.Call) (runtime.Value, error) {
				h.Quarantine(in, errBoom)
				return nil, nil
			})
			c.MustOn("toy/notice", nil, says(h, "ran"))
		})
		h.Use(in)
		notice(h, runtime.Target{})
		h.Trace.Want("")
	})
}

func TestAnObserverThatPanicsDoesNotTakeTheHostDown(t *testing.T) {
	h := runtimetest.NewHost(t, func(c *runtime.HostConfig) { c.Observer = angry{} })
	h.Run(func() {
		in := h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
			c.MustOn("toy/notice", nil, fails)
			c.MustOn("toy/rewrite", nil, fails)
		})
		h.Use(in)
		notice(h, runtime.Target{})
		_, _, err := runRewrite(h)
		if !errors.Is(err, errBoom) {
			t.Errorf("Run: %v", err)
		}
		h.Quarantine(in, errBoom)
		in.Log("log", "x")
		if n := len(h.Seen.TakePanics()); n != 4 {
			t.Errorf("OnPanic was told of %d panics, want 4", n)
		}
	})
}

// angry panics whatever it is told.
type angry struct{}

func (angry) Failed(runtime.Failure)                       { panic(fmt.Errorf("Failed")) }
func (angry) Decided(runtime.Decision)                     { panic("Decided") }
func (angry) Quarantined(in *runtime.Instance, _ error)    { panic("Quarantined") }
func (angry) Rebuilt(in *runtime.Instance)                 { panic("Rebuilt") }
func (angry) Logged(in *runtime.Instance, level, s string) { panic("Logged") }
