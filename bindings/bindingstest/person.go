package bindingstest

import (
	"context"
	"fmt"
	"strings"

	"dshsh/runtime"
)

// person implements runtime.UI: what it is asked goes into the trace. It says yes, chooses
// the last item and types "typed". A text that begins with "nobody" finds nobody there,
// one that begins with "wait" is never answered. Ask may be called by any goroutine.
type person bench

// Ask implements runtime.UI.
func (p *person) Ask(ctx context.Context, q runtime.Question) (runtime.Answer, error) {
	b := (*bench)(p)
	text, _, _ := strings.Cut(q.Text, " ")
	if text == "nobody" {
		return runtime.Answer{}, runtime.ErrNobody
	}
	owner := "nobody"
	if q.Owner != nil {
		owner = q.Owner.(runtime.Object).Class().Name
	}
	b.add("trace", plain(fmt.Sprintf("%s asks for %s: %s %s %q", q.Script.File, owner, q.Kind, q.Text, q.Items)))
	if text == "wait" {
		<-ctx.Done()
		b.add("trace", "withdrawn: "+context.Cause(ctx).Error())
		return runtime.Answer{Yes: true}, nil
	}
	return runtime.Answer{Yes: true, Item: len(q.Items) - 1, Text: "typed"}, nil
}

// Notify implements runtime.UI.
func (p *person) Notify(in *runtime.Instance, text string) {
	(*bench)(p).add("trace", plain(in.File+" notifies: "+text))
}
