package runtime_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"dshsh/runtime"
	"dshsh/runtime/runtimetest"
)

// bag is an object that holds data.
type bag map[string]runtime.Value

var bagClass = &runtime.Class{Name: "bag", Members: []*runtime.Member{
	{Name: "size", Get: func(o runtime.Object) (runtime.Value, error) { return int64(len(*o.(*bag))), nil }},
	{Name: "broken", Get: func(runtime.Object) (runtime.Value, error) { panic(errBoom) }},
}}

func (*bag) Class() *runtime.Class                  { return bagClass }
func (b *bag) Keys() []string                       { return slices.Sorted(maps.Keys(*b)) }
func (b *bag) Get(key string) (runtime.Value, bool) { v, ok := (*b)[key]; return v, ok }
func (b *bag) Delete(key string) error              { delete(*b, key); return nil }
func (b *bag) Set(key string, v runtime.Value) error {
	if v == "boom" {
		panic(errBoom)
	}
	(*b)[key] = v
	return nil
}

func TestBagsAreWrittenThroughTheInstance(t *testing.T) {
	h := runtimetest.NewHost(t)
	h.Run(func() {
		b := &bag{}
		in := h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
			if err := c.Instance().Assign(b, "x", int64(1), false); !errors.Is(err, runtime.ErrLoading) {
				t.Errorf("while loading: %v", err)
			}
		})
		h.Use(in)
		if err := errors.Join(in.Assign(b, "x", int64(1), false), in.Assign(b, "y", int64(2), false), in.Assign(b, "x", nil, true)); err != nil || fmt.Sprint(b.Keys()) != "[y]" {
			t.Errorf("%v, %v", b.Keys(), err)
		}
		if err := in.Assign(b, "size", int64(1), false); err == nil || err.Error() != "bag.size cannot be changed" {
			t.Errorf("a member: %v", err)
		}
		if err := in.Assign(b, "z", "boom", false); !errors.Is(err, errBoom) {
			t.Errorf("a panic: %v", err)
		}
		if v, err := in.Property(bagClass.Lookup("size"), b); v != int64(1) || err != nil {
			t.Errorf("size %v, %v", v, err)
		}
		if _, err := in.Property(bagClass.Lookup("broken"), b); !errors.Is(err, errBoom) {
			t.Errorf("a property that panics: %v", err)
		}
		if _, err := in.InvokeFunc(&runtime.GoFunc{Fn: func(*runtime.Call) (runtime.Value, error) { panic(errBoom) }}, nil); !errors.Is(err, errBoom) {
			t.Errorf("a function that panics: %v", err)
		}
		if got := h.Seen.Take(); len(got) != 3 {
			t.Errorf("reported %q", got)
		}
		h.Use()
		if err := in.Assign(b, "x", int64(1), false); !errors.Is(err, runtime.ErrUnloaded) {
			t.Errorf("after disposal: %v", err)
		}
	})
}

func TestClassMembers(t *testing.T) {
	c := &runtime.Class{Members: []*runtime.Member{
		{Name: "whenIdle", Fn: func(*runtime.Call) (runtime.Value, error) { return nil, nil }}, {Name: "when_done"}, {Name: "whenDone"},
	}}
	if c.Lookup("when_idle") != c.Members[0] || c.Lookup("whenIdle") != c.Members[0] || c.Lookup("when_done") != c.Members[1] || c.Lookup("nothing") != nil {
		t.Error("Lookup")
	}
	if c.Members[0].IsProperty() || !bagClass.Lookup("size").IsProperty() {
		t.Error("IsProperty")
	}
}

func TestCatalogue(t *testing.T) {
	c := runtimetest.Catalogue().WithHint(func(name string) string {
		if name == "toy/old" {
			return "it is toy/notice today"
		}
		return ""
	})
	for name, want := range map[string]string{
		"toy/old":    `unknown event "toy/old": it is toy/notice today`,
		"toy/nitice": `unknown event "toy/nitice" (did you mean "toy/notice"?)`,
	} {
		if _, err := c.Lookup(name); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if e, err := c.Lookup("toy/check"); e != runtimetest.Check.Event || err != nil || len(c.Events()) != 5 {
		t.Errorf("%v, %v", e, err)
	}
	for _, e := range []struct {
		event   *runtime.Event
		mode    runtime.Mode
		skip    bool
		filters string
	}{
		{runtimetest.Notice.Event, runtime.ModeEmit, true, "[agent]"}, {runtimetest.Check.Event, runtime.ModeSerial, false, "[agent]"},
		{runtimetest.Decide.Event, runtime.ModeWaterfall, false, "[tool args agent]"}, {runtimetest.Rewrite.Event, runtime.ModeWaterfall, false, "[]"},
		{runtimetest.Flush.Event, runtime.ModeParallel, false, "[agent]"},
	} {
		if e.event.Mode != e.mode || e.event.SkipQuarantined != e.skip || fmt.Sprint(e.event.Filters()) != e.filters || (e.event.Result != nil) != (e.mode == runtime.ModeWaterfall) {
			t.Errorf("%+v", e.event)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("two events of one name")
		}
	}()
	runtime.NewCatalogue(runtimetest.Notice.Event, runtimetest.Notice.Event)
}

func TestLayersHaveNames(t *testing.T) {
	if got := fmt.Sprint(runtime.LayerBundled, runtime.LayerUser, runtime.LayerProject, runtime.LayerCommandLine); got != "bundled user project cli" {
		t.Error(got)
	}
}
