package modeltest_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"dshsh/loop/model/modeltest"
)

// post sends a request to the server and returns the response with its body and the
// error that ended it.
func post(t *testing.T, s *modeltest.Server, body string) (*http.Response, string, error) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Post(s.URL+"/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp, string(raw), err
}

func TestServer_Wire(t *testing.T) {
	begin := func(delta string) string {
		return `data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}` + "\n\n"
	}
	finish := func(reason string) string {
		return `data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}` + "\n\n" +
			`data: {"object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}` + "\n\ndata: [DONE]\n\n"
	}
	for _, tc := range []struct {
		name  string
		reply modeltest.Wire
		want  string
	}{
		{"text", modeltest.WireText("a \"b\" c"), begin(`{"role":"assistant","content":""}`) +
			begin(`{"content":"a "}`) + begin(`{"content":"\"b\" "}`) + begin(`{"content":"c"}`) + finish("stop")},
		{"tool", modeltest.WireTool("c1", "ls", `{"path":"abcd"}`), begin(`{"role":"assistant","content":null}`) +
			begin(`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"ls","arguments":""}}]}`) +
			begin(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":\"abc"}}]}`) +
			begin(`{"tool_calls":[{"index":0,"function":{"arguments":"d\"}"}}]}`) + finish("tool_calls")},
		{"steps", modeltest.Steps(modeltest.Comment("x"), modeltest.Bytewise("data: 界\r\n\r\n"), modeltest.Repeat(2, modeltest.Frame("y"))),
			": x\n\ndata: 界\r\n\r\ndata: y\n\ndata: y\n\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			resp, body, err := post(t, modeltest.NewServer(t, tc.reply), "{}")
			if err != nil || body != tc.want || resp.Header.Get("Content-Type") != "text/event-stream" {
				t.Errorf("%v, %v\n got %s\nwant %s", err, resp.Header, body, tc.want)
			}
		})
	}
}

// TestServer_Messages has the same replies in Anthropic's format.
func TestServer_Messages(t *testing.T) {
	s := modeltest.NewServer(t, modeltest.Steps(modeltest.ReasoningDelta("hm"), modeltest.TextDelta("a"), modeltest.TextDelta("b"),
		modeltest.ToolDelta(0, "c1", "ls", `{"p`), modeltest.ToolDelta(0, "", "", `":1}`)).Then(modeltest.Finish("tool_calls")...))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Post(s.URL+"/messages", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	for _, e := range [][2]string{
		{"message_start", `,"message":{"id":"msg_test","type":"message","role":"assistant","model":"test-model","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":11,"output_tokens":1}}`},
		{"content_block_start", `,"index":0,"content_block":{"type":"thinking","thinking":"","signature":""}`},
		{"content_block_delta", `,"index":0,"delta":{"type":"thinking_delta","thinking":"hm"}`},
		{"content_block_delta", `,"index":0,"delta":{"type":"signature_delta","signature":"sig-0"}`},
		{"content_block_stop", `,"index":0`},
		{"content_block_start", `,"index":1,"content_block":{"type":"text","text":""}`},
		{"content_block_delta", `,"index":1,"delta":{"type":"text_delta","text":"a"}`},
		{"content_block_delta", `,"index":1,"delta":{"type":"text_delta","text":"b"}`},
		{"content_block_stop", `,"index":1`},
		{"content_block_start", `,"index":2,"content_block":{"type":"tool_use","id":"c1","name":"ls","input":{}}`},
		{"content_block_delta", `,"index":2,"delta":{"type":"input_json_delta","partial_json":"{\"p"}`},
		{"content_block_delta", `,"index":2,"delta":{"type":"input_json_delta","partial_json":"\":1}"}`},
		{"content_block_stop", `,"index":2`},
		{"message_delta", `,"delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":7}`},
		{"message_stop", ``},
	} {
		want += "event: " + e[0] + "\ndata: {\"type\":\"" + e[0] + "\"" + e[1] + "}\n\n"
	}
	if string(body) != want || s.Requests()[0].Path != "/v1/messages" {
		t.Errorf("at %s\n got %s\nwant %s", s.Requests()[0].Path, body, want)
	}
}

func TestServer_Ends(t *testing.T) {
	half := modeltest.TextDelta("half")
	for _, tc := range []struct {
		name string
		end  []modeltest.Step
		want error
	}{
		{"orderly", nil, nil},
		{"cut", []modeltest.Step{modeltest.Cut()}, io.ErrUnexpectedEOF},
		{"reset", []modeltest.Step{modeltest.Reset()}, syscall.ECONNRESET},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := modeltest.NewServer(t, modeltest.Steps(half).Then(tc.end...))
			_, _, err := post(t, s, "{}")
			if !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if _, byClient := s.Requests()[0].Disconnected(); byClient {
				t.Error("said to be the client's doing")
			}
		})
	}
}

func TestServer_Script(t *testing.T) {
	s := modeltest.NewServer(t, modeltest.Status(429, map[string]string{"Retry-After": "3"}, `{"error":{}}`))
	s.Add(modeltest.WireFunc(func(r *modeltest.Recorded) modeltest.Wire {
		return modeltest.Status(200, nil, r.JSON()["model"].(string))
	}))
	resp, _, _ := post(t, s, `{}`)
	if resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "3" || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("got %d %v", resp.StatusCode, resp.Header)
	}
	if resp, body, _ := post(t, s, `{"model":"m"}`); body != "m" || resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("got %q %v", body, resp.Header)
	}
	if resp, body, _ := post(t, s, `{}`); resp.StatusCode != 400 || !strings.Contains(body, "no reply for request 3") {
		t.Errorf("got %d %s", resp.StatusCode, body)
	}
	s.Otherwise(modeltest.Status(200, nil, "more"))
	if _, body, _ := post(t, s, `not json`); body != "more" {
		t.Errorf("got %q", body)
	}
	requests := s.Requests()
	if len(requests) != 4 || string(requests[1].Body) != `{"model":"m"}` || requests[3].JSON() != nil || requests[0].Time.IsZero() {
		t.Errorf("recorded %d requests", len(requests))
	}
	if s.Connections() != 4 {
		t.Errorf("%d connections", s.Connections())
	}
	other, err := http.Get(s.URL + "/models")
	if err != nil {
		t.Fatal(err)
	}
	other.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if other.StatusCode != 404 || len(s.Requests()) != 4 {
		t.Errorf("another address: %d", other.StatusCode)
	}
}

func TestServer_ClientLeaves(t *testing.T) {
	gate := make(chan struct{})
	s := modeltest.NewServer(t,
		modeltest.Steps(modeltest.Silence()),
		modeltest.Steps(modeltest.Hold(gate), modeltest.Frame("x")),
		modeltest.Steps(modeltest.Frame("x"), modeltest.Sleep(time.Hour)),
	)
	close(gate)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for i, left := range []bool{true, false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		req, _ := http.NewRequestWithContext(ctx, "POST", s.URL+"/chat/completions", strings.NewReader("{}"))
		done := make(chan struct{})
		go func() {
			defer close(done)
			if resp, err := client.Do(req); err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}()
		r, err := s.Wait(t.Context(), i+1)
		if err != nil {
			t.Fatal(err)
		}
		if left {
			cancel()
		}
		if _, byClient := r.Disconnected(); byClient != left {
			t.Errorf("request %d: the client left: %v, want %v", i+1, byClient, left)
		}
		<-done
		cancel()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Wait(ctx, 9); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait: %v", err)
	}
}

// TestServer_CloseWhileHanging: a test that fails early must not hang in its cleanup.
func TestServer_CloseWhileHanging(t *testing.T) {
	s, err := modeltest.StartServer(modeltest.Steps(modeltest.Silence()))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		if resp, err := client.Post(s.URL+"/chat/completions", "application/json", nil); err == nil {
			resp.Body.Close()
		}
	}()
	if _, err := s.Wait(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	s.Close()
	<-done
}
