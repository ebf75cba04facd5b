package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"dshsh/bindings/bindingstest"
	"dshsh/bindings/js"
	"dshsh/bindings/lua"
	"dshsh/loop"
	"dshsh/runtime"
	"dshsh/runtime/reload"
)

const settle = 40 * time.Millisecond

// reloads are saves, watched in the file system, with 20 scripts in force.
func reloads(b *bench) ([]figure, func(), error) {
	dir := filepath.Join(b.dir, "watched")
	if err := writeScripts(dir, 20); err != nil {
		return nil, nil, err
	}
	host := runtime.NewHost(runtime.HostConfig{Engines: []runtime.Engine{js.Engine(), lua.Engine()}, Events: loop.Catalogue()})
	came := make(chan struct{}, 8)
	m := reload.New(reload.Config{Host: host, Folders: []reload.Folder{{Layer: runtime.LayerUser, Dir: dir}}, Settle: settle,
		Activated: func(_, _ *runtime.Generation) { came <- struct{}{} }})
	done := func() { m.Close(); host.Close() }
	rep, err := m.Start(context.Background())
	if err != nil {
		return nil, done, err
	}
	if len(rep.Failures) > 0 {
		return nil, done, rep.Failures[0].Err
	}
	<-came
	saves := 0
	save := func(name, text string) func() (float64, error) {
		return func() (float64, error) {
			saves++
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text+strings.Repeat("\n", saves)), 0o644); err != nil {
				return 0, err
			}
			began := time.Now()
			select {
			case <-came:
				return ms(time.Since(began) - settle), nil
			case <-time.After(10 * time.Second):
				return 0, errors.New("the save did not come into force")
			}
		}
	}
	boot := func(e runtime.Engine, text string) func() (float64, error) {
		return func() (float64, error) {
			h := bindingstest.NewHost(e, runtime.Limits{}, nil)
			defer h.Close()
			var err error
			began := time.Now()
			if derr := h.Do(context.Background(), func() { err = bindingstest.Load(h, e, "b"+e.Extensions()[0], text) }); derr != nil {
				err = derr
			}
			return float64(time.Since(began).Microseconds()), err
		}
	}
	return []figure{
		{name: "save to in force beyond settling (40 ms), 20 scripts, JavaScript", unit: "ms", sample: save("s000.js", guardJS)},
		{name: "the same, Lua", unit: "ms", sample: save("s001.lua", guardLua)},
		{name: "compile, VM and top level of one small script, JavaScript", unit: "us", sample: boot(js.Engine(), "ctx.on('test/serial', () => {});")},
		{name: "the same, Lua", unit: "us", sample: boot(lua.Engine(), "ctx.on('test/serial', function() end)")},
	}, done, nil
}
