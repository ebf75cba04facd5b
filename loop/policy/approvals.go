package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Approvals is the set of calls that a person has allowed for the rest of the session: a
// tool with the same arguments. Used on the host thread. The zero value is empty.
type Approvals struct {
	calls map[string]bool
}

// Add allows a call from now on. Arguments that are no JSON are not remembered.
func (a *Approvals) Add(name string, args json.RawMessage) {
	key, err := approvalKey(name, args)
	if err != nil {
		return
	}
	if a.calls == nil {
		a.calls = map[string]bool{}
	}
	a.calls[key] = true
}

// Has reports whether a call was allowed.
func (a *Approvals) Has(name string, args json.RawMessage) bool {
	key, err := approvalKey(name, args)
	return err == nil && a.calls[key]
}

// Clear forgets all.
func (a *Approvals) Clear() { a.calls = nil }

func approvalKey(name string, args json.RawMessage) (string, error) {
	canonical, err := canonical(args)
	return name + "\x00" + canonical, err
}

// canonical is a form of a JSON value that is the same for values that are: members in
// order, no white space. Numbers are compared as they are written, so none is taken for
// another that only rounds to it.
func canonical(raw json.RawMessage) (string, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return "", fmt.Errorf("reading arguments: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return "", fmt.Errorf("reading arguments: there is more than one value")
	}
	out, err := json.Marshal(v)
	return string(out), err
}
