package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"dshsh/cmd/dshsh/internal/config"
	"dshsh/cmd/dshsh/internal/render"
	"dshsh/cmd/dshsh/internal/repl"
	"dshsh/loop"
	"dshsh/loop/policy"
)

// asker asks a person about a call. It is called on the host thread and may leave it.
type asker func(context.Context, loop.Question, repl.Approval) (loop.Answer, error)

// Default implements loop.Policy: rules that ask make it stricter.
func (s *sh) Default(c policy.Call) policy.Decision {
	d := policy.Default(s.policy, c)
	if by, _, ok := s.rules.Judge(s.policy, c); ok && by.Kind == policy.Ask && d.Kind == policy.Allow {
		return by
	}
	return d
}

// Guard implements loop.Policy: what a rule denies, nothing allows.
func (s *sh) Guard(c policy.Call) policy.Decision {
	if by, _, ok := s.rules.Judge(s.policy, c); ok && by.Kind == policy.Deny {
		return by
	}
	d, _ := policy.Guards(s.policy, c)
	return d
}

// approver answers asks: by the mode, by the rules, by the person. What a guard asks no rule
// answers.
func (s *sh) approver(mode policy.Mode, person asker) func(context.Context, loop.Question) (loop.Answer, error) {
	return func(ctx context.Context, q loop.Question) (loop.Answer, error) {
		switch mode {
		case policy.ModeAll:
			return loop.Answer{Allow: true}, nil
		case policy.ModeNever:
			return loop.Answer{Reason: "nothing is approved: --approve never"}, nil
		}
		offer := policy.Offer{Once: "a guard asks"}
		if !q.Guarded {
			d, by, ok := s.rules.Judge(s.policy, q.Judged)
			switch {
			case ok && d.Kind == policy.Allow:
				return loop.Answer{Allow: true, Rule: by}, nil
			case ok:
				offer.Once = d.Reason
			default:
				offer = s.rules.Offer(s.policy, q.Judged)
			}
		}
		if person == nil {
			return loop.Answer{}, fmt.Errorf("%w: a rule can allow it, or pass --approve all", loop.ErrNobody)
		}
		return person(ctx, q, repl.Approval{Offer: offer, Take: s.takeRules})
	}
}

// takeRules puts rules in force. For good they are saved too; where that fails they hold for
// the session. On the thread.
func (s *sh) takeRules(rules []policy.Rule, always bool) error {
	for _, r := range rules {
		if err := s.rules.Add(r, !always); err != nil {
			return err
		}
	}
	if !always {
		return nil
	}
	var err error
	if werr := s.host.Thread.Away(func() { err = config.AddRules(s.cfg.Paths.Rules, rules) }); werr != nil {
		return werr
	}
	if err != nil {
		s.say(render.Visible(err.Error() + "; until the end of the session it holds all the same"))
		return nil
	}
	for _, r := range rules {
		s.say(render.Visible("rule saved: allow " + r.String() + "; `/rules` lists the rules"))
	}
	return nil
}

// loadRules reads the user's rules. They live in memory from then on: no file that is
// changed later loosens a shell that runs.
func (s *sh) loadRules() {
	rules, err := config.ReadRules(s.cfg.Paths.Rules)
	if err != nil {
		s.say(render.Visible(err.Error() + "; until that is mended no rule of the file counts, so everything is asked for"))
		return
	}
	for _, r := range rules {
		if err := s.rules.Add(r, false); err != nil {
			s.say(render.Visible(err.Error()))
		}
	}
}

// Rules implements repl.Shell.
func (p *prompt) Rules() (lines []string) {
	_ = p.host.Do(context.Background(), func() {
		for _, r := range p.rules.List() {
			lines = append(lines, ruleLine(r))
		}
	})
	return lines
}

// ruleLine is a rule with where it comes from.
func ruleLine(r policy.ListedRule) string {
	origin := "user"
	if r.Session {
		origin = "session"
	}
	return fmt.Sprintf("%-7s %-5s %s", origin, r.Decision, r.Rule)
}

// RemoveRule implements repl.Shell.
func (p *prompt) RemoveRule(n int) (was string, err error) {
	var r policy.ListedRule
	derr := p.host.Do(context.Background(), func() {
		list := p.rules.List()
		if n < 1 || n > len(list) {
			err = fmt.Errorf("there is no rule %d; /rules lists them", n)
			return
		}
		r = list[n-1]
		p.rules.Remove(n - 1)
	})
	if err := errors.Join(derr, err); err != nil {
		return "", err
	}
	if !r.Session {
		if err := config.RemoveRule(p.cfg.Paths.Rules, r.Rule); err != nil {
			return "", fmt.Errorf("it is out of force here, but %s has it still: %w", filepath.Base(p.cfg.Paths.Rules), err)
		}
	}
	return ruleLine(r), nil
}
