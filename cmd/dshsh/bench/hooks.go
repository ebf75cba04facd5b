package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"dshsh/bindings/bindingstest"
	"dshsh/bindings/js"
	"dshsh/bindings/lua"
	"dshsh/runtime"
)

// listener reads two fields of what it is told, as guards do.
var listener = map[string]string{
	"js":  `for (let i = 0; i < %d; i++) { let n = 0; ctx.on('test/serial', (p) => { if (p.text.includes('--force') && p.n > 5) n++; }); }`,
	"lua": `for i = 1, %d do local n = 0; ctx.on('test/serial', function(p) if p.text:find('--force', 1, true) and p.n > 5 then n = n + 1 end end) end`,
}

// hooks are events that listeners are awaited for, each with a fresh payload, and beside
// them what one program per event costs.
func hooks(*bench) ([]figure, func(), error) {
	var figures []figure
	var hosts []*runtime.Host
	closeAll := func() {
		for _, h := range hosts {
			h.Close()
		}
	}
	for _, e := range []runtime.Engine{js.Engine(), lua.Engine()} {
		for _, n := range []int{0, 1, 10, 1000} {
			if n == 0 && e.Language() != "js" {
				continue
			}
			h := bindingstest.NewHost(e, runtime.Limits{}, nil)
			hosts = append(hosts, h)
			name := "0"
			if n > 0 {
				name = fmt.Sprintf("%d in %s", n, e.Language())
				var err error
				if derr := h.Do(context.Background(), func() {
					err = bindingstest.Load(h, e, "bench"+e.Extensions()[0], fmt.Sprintf(listener[e.Language()], n))
				}); derr != nil || err != nil {
					return nil, closeAll, fmt.Errorf("%w%w", derr, err)
				}
			}
			figures = append(figures, figure{name: name, unit: "us", sample: func() (float64, error) { return perEvent(h, n) }})
		}
	}
	return append(figures, peers("1 as ")...), closeAll, nil
}

// perEvent dispatches for a while and gives the microseconds of one event.
func perEvent(h *runtime.Host, listeners int) (us float64, err error) {
	times := max(20, 20_000/max(listeners, 1))
	derr := h.Do(context.Background(), func() {
		began := time.Now()
		for range times {
			note := bindingstest.Note{Text: "git push --force", N: 3, Data: json.RawMessage(`{"command":"git push --force","cwd":"/home"}`)}
			if err = bindingstest.Serial.Run(h, runtime.Target{}, note); err != nil {
				return
			}
		}
		us = float64(time.Since(began).Nanoseconds()) / 1000 / float64(times)
	})
	if derr != nil {
		err = derr
	}
	return us, err
}
