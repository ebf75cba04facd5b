package modeltest

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode"
)

// Wire is what a Server does with one request. It is immutable and may be used for
// several.
type Wire struct {
	steps []Step
	fn    func(*Recorded) Wire
}

// Step is one thing that a reply does. It is immutable. It returns false when the
// exchange is over.
type Step func(*exchange) bool

// exchange is one request being answered, on the goroutine of its handler.
type exchange struct {
	w        http.ResponseWriter
	r        *http.Request
	format   format
	begun    bool // the headers are out
	hijacked bool
}

// play reports whether all steps were played.
func (w Wire) play(e *exchange) bool {
	for _, step := range w.steps {
		if !step(e) {
			return false
		}
	}
	return true
}

// Steps returns a reply made of steps. Unless one of them says otherwise it begins with
// status 200 and the content type of an event stream; after the last it ends in an
// orderly way, with no [DONE] but what the steps sent.
//
// Begin, TextDelta, ReasoningDelta, ToolDelta, Finish and Done write in the format of the
// address that was asked, so that one reply serves tests of every provider; Delta is
// OpenAI's, the others send what they are given.
func Steps(steps ...Step) Wire { return Wire{steps: steps} }

// Then returns w with more steps behind its own.
func (w Wire) Then(steps ...Step) Wire {
	return Wire{steps: append(w.steps[:len(w.steps):len(w.steps)], steps...)}
}

// WireFunc returns a reply that is decided when the request is there.
func WireFunc(fn func(*Recorded) Wire) Wire { return Wire{fn: fn} }

// WireText is a whole reply of text, a word a frame, with usage.
func WireText(s string) Wire {
	steps := []Step{Begin()}
	for _, word := range words(s) {
		steps = append(steps, TextDelta(word))
	}
	return Steps(steps...).Then(Finish("stop")...)
}

// WireTool is a whole reply that is one tool call, its arguments in fragments.
func WireTool(id, name, arguments string) Wire { return WireTools(Call{id, name, arguments}) }

// WireTools is a whole reply with several tool calls, one after the other.
func WireTools(calls ...Call) Wire {
	steps := []Step{piece(func(f format) string { return f.begin("null") })}
	for i, c := range calls {
		steps = append(steps, ToolDelta(i, c.ID, c.Name, ""))
		for _, piece := range pieces(c.Arguments, 12) {
			steps = append(steps, ToolDelta(i, "", "", piece))
		}
	}
	return Steps(steps...).Then(Finish("tool_calls")...)
}

// Finish is the usual end of a reply, in three steps: the reason, in the words of OpenAI
// (stop, length, tool_calls, content_filter, or any other as it is), usage, and Done.
func Finish(reason string) []Step {
	return []Step{
		piece(func(f format) string { end, _ := f.finish(reason); return end }),
		piece(func(f format) string { _, usage := f.finish(reason); return usage }),
		Done(),
	}
}

// piece sends what the format makes of it.
func piece(write func(f format) string) Step {
	return func(e *exchange) bool { return e.write(write(e.format)) }
}

// Begin sends what stands at the beginning of a reply, before any text. It may be left
// out.
func Begin() Step { return piece(func(f format) string { return f.begin(`""`) }) }

// Delta sends a frame with this delta, of OpenAI's.
func Delta(delta string) Step { return Raw(chat{}.delta(delta)) }

// TextDelta sends a piece of text.
func TextDelta(text string) Step { return piece(func(f format) string { return f.text(text) }) }

// ReasoningDelta sends a piece of reasoning.
func ReasoningDelta(text string) Step {
	return piece(func(f format) string { return f.reasoning(text) })
}

// ToolDelta sends a fragment of tool call number index; id and name, where they are not
// empty, as a first fragment has them.
func ToolDelta(index int, id, name, arguments string) Step {
	return piece(func(f format) string { return f.tool(index, id, name, arguments) })
}

// Frame sends one event with this data.
func Frame(data string) Step { return Raw(frame(data)) }

// Done sends what ends a stream: [DONE], message_stop.
func Done() Step { return piece(func(f format) string { return f.done() }) }

// Comment sends a comment line, as servers do to keep a connection open.
func Comment(text string) Step { return Raw(": " + text + "\n\n") }

// Raw sends these bytes, in one write.
func Raw(s string) Step {
	return func(e *exchange) bool { return e.write(s) }
}

// Bytewise sends these bytes, each in a write of its own.
func Bytewise(s string) Step {
	return func(e *exchange) bool {
		for i := range len(s) {
			if !e.write(s[i : i+1]) {
				return false
			}
		}
		return true
	}
}

// Headers sends the status and headers, without waiting for the first bytes. Content-Type
// is text/event-stream unless headers says otherwise.
func Headers(status int, headers map[string]string) Step {
	return func(e *exchange) bool {
		e.begin(status, headers)
		return true
	}
}

// Status is a whole reply that is not a stream: JSON if body begins with { or [, else
// text.
func Status(status int, headers map[string]string, body string) Wire {
	all := map[string]string{"Content-Type": "text/plain; charset=utf-8"}
	if strings.HasPrefix(body, "{") || strings.HasPrefix(body, "[") {
		all["Content-Type"] = "application/json"
	}
	for k, v := range headers {
		all[k] = v
	}
	return Steps(Headers(status, all), Raw(body))
}

// Hold waits until gate is closed or gives a value, or the client leaves.
func Hold(gate <-chan struct{}) Step {
	return func(e *exchange) bool {
		select {
		case <-gate:
			return true
		case <-e.r.Context().Done():
			return false
		}
	}
}

// Silence sends nothing more and waits until the client leaves. In front of everything
// else not even the headers are sent.
func Silence() Step { return Hold(nil) }

// Sleep waits, or ends with the client's leaving.
func Sleep(d time.Duration) Step {
	return func(e *exchange) bool {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return true
		case <-e.r.Context().Done():
			return false
		}
	}
}

// Repeat plays steps n times.
func Repeat(n int, steps ...Step) Step {
	return func(e *exchange) bool {
		for range n {
			for _, step := range steps {
				if !step(e) {
					return false
				}
			}
		}
		return true
	}
}

// Cut closes the connection in the middle of the reply, without the end that the
// transfer encoding asks for.
func Cut() Step { return func(e *exchange) bool { return e.breakOff(false) } }

// Reset breaks the connection with a TCP reset.
func Reset() Step { return func(e *exchange) bool { return e.breakOff(true) } }

func (e *exchange) begin(status int, headers map[string]string) {
	if e.begun {
		return
	}
	e.begun = true
	h := e.w.Header()
	h.Set("Content-Type", "text/event-stream")
	for k, v := range headers {
		h.Set(k, v)
	}
	e.w.WriteHeader(status)
	e.flush()
}

func (e *exchange) flush() {
	if f, ok := e.w.(http.Flusher); ok {
		f.Flush()
	}
}

func (e *exchange) write(s string) bool {
	e.begin(http.StatusOK, nil)
	if _, err := e.w.Write([]byte(s)); err != nil {
		return false
	}
	e.flush()
	return true
}

// breakOff takes the connection from the server and closes it.
func (e *exchange) breakOff(reset bool) bool {
	e.begin(http.StatusOK, nil)
	h, ok := e.w.(http.Hijacker)
	if !ok {
		return false
	}
	conn, _, err := h.Hijack()
	if err != nil {
		return false
	}
	e.hijacked = true
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
	return false
}

func quote(s string) string {
	raw, _ := json.Marshal(s) // a string always marshals
	return string(raw)
}

// words cuts s in front of each word.
func words(s string) []string {
	var out []string
	start, space := 0, false
	for i, r := range s {
		if space && !unicode.IsSpace(r) {
			out = append(out, s[start:i])
			start = i
		}
		space = unicode.IsSpace(r)
	}
	return append(out, s[start:])
}

// pieces cuts s into pieces of n characters, the last may be shorter.
func pieces(s string, n int) []string {
	var out []string
	runes := []rune(s)
	for len(runes) > n {
		out = append(out, string(runes[:n]))
		runes = runes[n:]
	}
	return append(out, string(runes))
}
