package offline

import (
	"fmt"
	"strconv"
	"strings"

	"dshsh/loop/model"
)

const (
	whatItIs = "I am the offline provider built into this program. I am no language model and cannot answer questions; I send nothing anywhere."

	language = `What I can do is play lines like these, to try out tools, policies and sessions:

    call bash {"command":"echo hi"}
    calls read {"path":"a"} | read {"path":"b"}
    say Some words.
    think Some reasoning.
    hang
    fail RATE_LIMIT

They run in order, and each call is a step of its own.`

	wayOut = "For a real model set DEEPSEEK_API_KEY or OPENAI_API_KEY, or name an address of your own with --base-url URL --model NAME."

	onlyThought = "(That was reasoning only; a say line gives an answer to read.)"

	hanging = "Waiting until this is cancelled "
)

// introduction is the answer to whatever is not a program.
func introduction(req *model.Request) string {
	return whatItIs + "\n\n" + language + tools(req) + "\n\n" + wayOut
}

// digest stands in for a summary: the beginnings of what it was to be made of.
func digest(req *model.Request) string {
	const most = 30
	var s strings.Builder
	s.WriteString("(From the offline provider, which cannot summarise: the beginnings of the first messages.)\n")
	n := 0
	for _, m := range req.Messages {
		for line := range strings.Lines(m.PlainText()) {
			if line = strings.TrimSpace(line); line != "" && n < most {
				n++
				s.WriteString("\n" + shorten(line, 100))
			}
		}
	}
	return s.String()
}

// complaint is the answer to a faulty program.
func complaint(req *model.Request, err *lineError) string {
	return "None of your lines was run, because one of them is not right. " + sentence(err.Error()) + "\n\n" +
		whatItIs + " " + language + tools(req)
}

func sentence(s string) string {
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

// tools names the tools that the request offers, as many as a line takes.
func tools(req *model.Request) string {
	if len(req.Tools) == 0 {
		return ""
	}
	const most = 20
	var names []string
	for _, t := range req.Tools {
		names = append(names, t.Name)
	}
	more := ""
	if len(names) > most {
		more = fmt.Sprintf(" and %d more", len(names)-most)
		names = names[:most]
	}
	return " The tools here are " + strings.Join(names, ", ") + more + "."
}

// outcome is a call and what came of it.
type outcome struct {
	name    string
	text    string
	isError bool
}

// summary is the reply after the last line: what the calls of this exchange gave.
func summary(after []model.Message) string {
	names := map[string]string{}
	var outcomes []outcome
	for _, m := range after {
		for _, b := range m.Content {
			switch b.Type {
			case model.BlockToolCall:
				names[b.ID] = b.Name
			case model.BlockToolResult:
				outcomes = append(outcomes, outcome{names[b.ToolCallID], model.PlainText(b.Content), b.IsError})
			}
		}
	}
	const end = "\n\nThat was the last line of your message. (The offline provider only reports; it understands nothing of this.)"
	switch len(outcomes) {
	case 0:
		return "All lines of your message have run, and none of them called a tool. Give me new ones."
	case 1:
		o := outcomes[0]
		if strings.TrimSpace(o.text) == "" {
			return o.verb() + " nothing." + end
		}
		return o.verb() + ":\n\n" + excerpt(o.text) + end
	}
	var s strings.Builder
	fmt.Fprintf(&s, "%d calls ran:\n", len(outcomes))
	for _, o := range outcomes {
		s.WriteString("\n- " + o.verb())
		if line := oneLine(o.text); line == "" {
			s.WriteString(" nothing")
		} else {
			s.WriteString(": " + shorten(line, 100))
			if n := lines(o.text); n > 1 {
				fmt.Fprintf(&s, " (and %d more)", n-1)
			}
		}
	}
	return s.String() + end
}

func (o outcome) verb() string {
	if o.isError {
		return o.name + " gave an error"
	}
	return o.name + " answered"
}

// excerpt is the beginning of a result, indented, which Markdown takes as it is.
func excerpt(text string) string {
	const most = 8
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	var s strings.Builder
	for i, line := range all {
		if i == most {
			fmt.Fprintf(&s, "    (and %d more lines)\n", len(all)-most)
			break
		}
		s.WriteString("    " + shorten(line, 160) + "\n")
	}
	return strings.TrimRight(s.String(), "\n")
}

func lines(text string) int {
	return strings.Count(strings.TrimSpace(text), "\n") + 1
}

// ids hands out call ids that are not in the history yet: offline-1, offline-2, ...
type ids struct {
	used map[string]bool
	n    int
}

func newIDs(messages []model.Message) *ids {
	g := &ids{used: map[string]bool{}}
	for _, m := range messages {
		for _, b := range m.Content {
			if b.Type == model.BlockToolCall {
				g.used[b.ID] = true
			}
		}
	}
	// Counting from how many there are, not from one, keeps this linear.
	g.n = len(g.used)
	return g
}

func (g *ids) next() string {
	for {
		g.n++
		if id := "offline-" + strconv.Itoa(g.n); !g.used[id] {
			return id
		}
	}
}
