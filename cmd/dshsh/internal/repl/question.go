package repl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"dshsh/cmd/dshsh/internal/render"
	"dshsh/loop"
	"dshsh/loop/policy"
)

// Approval is what a question about a call offers beyond yes and no. Immutable.
type Approval struct {
	policy.Offer
	// Take puts rules in force, for good or until the end of the session. On the host thread.
	Take func(rules []policy.Rule, always bool) error
}

// Approve asks the person about a call. It is called on the host thread, which it leaves.
func (l *Loop) Approve(ctx context.Context, q loop.Question, offer Approval) (loop.Answer, error) {
	var got reply
	var err error
	werr := l.shell.Host().Thread.Away(func() { got, err = l.askApproval(ctx, q, offer.Offer) })
	switch {
	case werr != nil:
		return loop.Answer{}, werr
	case errors.Is(err, ErrNoPerson):
		return loop.Answer{}, loop.ErrNobody
	case errors.Is(err, ErrInterrupted):
		q.Call.Agent.Cancel(loop.Cause{Kind: loop.CauseUser}, loop.CancelOptions{KeepInbox: true})
		return loop.Answer{Reason: "cancelled at the question"}, nil
	case err != nil:
		return loop.Answer{}, err
	}
	switch got.kind {
	case "n":
		if got.why != "" {
			return loop.Answer{Reason: "the user said no: " + got.why}, nil
		}
		return loop.Answer{Reason: "the user said no"}, nil
	case "s", "a":
		if err := offer.Take(got.rules, got.kind == "a"); err != nil {
			l.Say(render.Visible(fmt.Sprintf("allowed this once: %v", err)))
			return loop.Answer{Allow: true}, nil
		}
		var words []string
		for _, r := range got.rules {
			words = append(words, r.String())
		}
		return loop.Answer{Allow: true, Rule: strings.Join(words, "; ")}, nil
	}
	return loop.Answer{Allow: true}, nil
}

// reply is what was answered: y, s, a or n.
type reply struct {
	kind, why string
	rules     []policy.Rule // of s and a
}

// askApproval puts the question until it has an answer. It waits.
func (l *Loop) askApproval(ctx context.Context, q loop.Question, offer policy.Offer) (reply, error) {
	cols, _ := l.ed.Size()
	diff, derr := q.Diff(ctx)
	what := asked{text: questionText(q, offer, cols), check: wantsApproval(offer)}
	if diff != "" {
		what.above = render.Diff(diff, render.Options{Width: cols, Color: l.ed.color}, shownLines)
	} else if derr != nil {
		what.text = "it would fail: " + derr.Error() + "\n" + what.text
	}
	for {
		text, err := l.ed.put(ctx, what)
		if err != nil {
			return reply{}, err
		}
		got := replyOf(text)
		why := ""
		switch {
		case got.kind == "y" || got.kind == "n":
			return got, nil
		case len(offer.Rules) == 0:
			why = render.Wrap("only once: "+offer.Once, cols) + "\n"
		case got.kind == "e":
			if offer.Rules, err = l.editRules(ctx, offer.Rules); err != nil {
				return reply{}, err
			}
		default:
			got.rules = offer.Rules
			return got, nil
		}
		what = asked{text: why + promptText(q, offer, cols), check: what.check}
	}
}

// editRules has the person change what the rules are about. What is emptied is left out
// of the offer; if that leaves none, they stay as they are.
func (l *Loop) editRules(ctx context.Context, rules []policy.Rule) ([]policy.Rule, error) {
	var out []policy.Rule
	for _, r := range rules {
		field, name := &r.Command, "command"
		if r.Path != "" {
			field, name = &r.Path, "path"
		}
		if *field == "" {
			out = append(out, r)
			continue
		}
		help := "* stands for any part of a word, as the last word for any further ones"
		if name == "path" {
			help = "* stands for any part of a name, ** for any folders"
		}
		for {
			text, err := l.ed.put(ctx, asked{text: help + "\n" + name + ": ", begin: *field})
			if err != nil {
				return nil, err
			}
			if *field = text; text == "" {
				break
			}
			if err := r.Check(); err != nil {
				help = err.Error()
				continue
			}
			out = append(out, r)
			break
		}
	}
	if len(out) == 0 {
		return rules, nil
	}
	return out, nil
}

// wanting makes an Editor.Ask's check of a test: want is what may be answered.
func wanting(want string, valid func(string) bool) func(string) string {
	return func(s string) string {
		if valid(s) {
			return ""
		}
		return want
	}
}

// wantsApproval is the check of the question.
func wantsApproval(offer policy.Offer) func(string) string {
	return func(s string) string {
		switch {
		case replyOf(s).kind != "":
			return ""
		case len(offer.Rules) > 0:
			return "y, s, a, e or n [why]"
		}
		return "y or n [why]"
	}
}

// replyOf reads an answer; its kind is "" when it is none. A no may say more: "n" or "no",
// then what the model is to be told.
func replyOf(s string) reply {
	s = strings.TrimSpace(s)
	switch strings.ToLower(s) {
	case "y", "yes":
		return reply{kind: "y"}
	case "s", "session":
		return reply{kind: "s"}
	case "a", "always":
		return reply{kind: "a"}
	case "e", "edit":
		return reply{kind: "e"}
	case "n", "no":
		return reply{kind: "n"}
	}
	if i := strings.IndexAny(s, " ,:;.\n"); i > 0 {
		if first := strings.ToLower(s[:i]); first == "n" || first == "no" {
			return reply{kind: "n", why: strings.TrimLeft(s[i:], " ,:;.\n")}
		}
	}
	return reply{}
}

// answerOf reads yes or no.
func answerOf(s string) string {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "y", "yes":
		return "yes"
	case "n", "no":
		return "no"
	}
	return ""
}

// subject is what a call is about, as people read it.
func subject(c loop.ToolCall) string {
	for _, name := range []string{"command", "path"} {
		if s, ok := c.ToolArgument(name); ok {
			return s
		}
	}
	return string(c.Arguments)
}

// answers ends the question's last line.
func answers(offer policy.Offer) string {
	if len(offer.Rules) == 0 {
		return "? y / n "
	}
	return "? y / s / a / e / n "
}

// offered says what s and a would allow.
func offered(offer policy.Offer, cols int) string {
	if len(offer.Rules) == 0 {
		return ""
	}
	var words []string
	for _, r := range offer.Rules {
		words = append(words, r.Words())
	}
	text := strings.Join(words, "; ")
	// That it is this project is said once.
	if here := ", in this project"; strings.Count(text, here) > 1 {
		text = strings.ReplaceAll(text, here, "") + here
	}
	return render.Wrap("s this session, a always: "+text, cols) + "\n"
}

// questionText is the question about a call: what would run, why it is asked. The last
// line is the prompt; what does not fit into it stands above, whole.
func questionText(q loop.Question, offer policy.Offer, cols int) string {
	what := subject(q.Call)
	var above strings.Builder
	if !inline(q, offer, cols) {
		fmt.Fprintf(&above, "%s: %s\n", q.Call.Name, what)
	}
	if q.Reason != "" && !strings.Contains(q.Reason, what) {
		above.WriteString(render.Wrap("("+q.Reason+")", cols) + "\n")
	}
	return above.String() + promptText(q, offer, cols)
}

// inline reports whether what the call is about fits into the prompt.
func inline(q loop.Question, offer policy.Offer, cols int) bool {
	what := subject(q.Call)
	line := "allow " + q.Call.Name + ": " + what + answers(offer)
	return !strings.Contains(what, "\n") && (cols <= 0 || render.Width(line)+answerRoom < cols)
}

// promptText is the end of the question: what may be allowed, and the prompt.
func promptText(q loop.Question, offer policy.Offer, cols int) string {
	prompt := "allow " + q.Call.Name
	if inline(q, offer, cols) {
		prompt += ": " + subject(q.Call)
	}
	return offered(offer, cols) + prompt + answers(offer)
}

// shownLines is how many lines of a change a question shows.
const shownLines = 40
