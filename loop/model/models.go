package model

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
)

// How a model is asked to reason, in Known.Reasoning.
const (
	ReasoningEffort   = "effort"   // by an effort; it may always reason
	ReasoningBudget   = "budget"   // switched on with a number of tokens
	ReasoningAdaptive = "adaptive" // it decides itself how long; may be switched off
	ReasoningAlways   = "always"   // the same, but cannot be switched off
)

// Known is one entry of a list of models: what is known of those whose id fits. Token
// counts are 0 where they are not known.
type Known struct {
	// Provider is the name of the provider, or * for any.
	Provider string `json:"provider"`
	// ID is what the model's id looks like, as path.Match has it (* is any run of
	// characters but a slash, [45] one of these), upper and lower case alike. An id with a
	// slash, as routers have them, is looked up a second time by what follows the last one.
	ID string `json:"id"`
	// ContextWindow is how many tokens a request and its reply may have together. Of a
	// model that runs locally it is what the model can take; a server may be set to less.
	ContextWindow int `json:"contextWindow,omitempty"`
	// MaxOutput is how many tokens the model can write in one reply.
	MaxOutput int `json:"maxOutput,omitempty"`
	// Reasoning is one of the Reasoning constants, or empty for a model that does not
	// reason or of which that is not known.
	Reasoning string `json:"reasoning,omitempty"`
}

// Models is a list of known models. It is immutable.
type Models struct{ entries []Known }

//go:embed models.json
var builtin []byte

// KnownModels returns the list that comes with the program: the well-known models of the
// services that it speaks to, with the numbers that their makers publish.
func KnownModels() *Models { return known() }

// known is parsed when it is first wanted; models_test.go checks that it parses.
var known = sync.OnceValue(func() *Models {
	m, err := new(Models).With(builtin)
	if err != nil {
		panic("models.json: " + err.Error())
	}
	return m
})

// With returns a list in which the entries of raw stand before those of m. raw is a JSON
// array of objects with the members of Known. The error names the entry that is wrong.
func (m *Models) With(raw []byte) (*Models, error) {
	var own []Known
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&own); err != nil {
		return nil, fmt.Errorf("want a JSON array of models: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("want one JSON array and nothing behind it")
	}
	for i, k := range own {
		if err := k.validate(); err != nil {
			return nil, fmt.Errorf("entry %d (%q): %w", i+1, k.ID, err)
		}
	}
	return &Models{append(own, m.entries...)}, nil
}

func (k Known) validate() error {
	kinds := []string{"", ReasoningEffort, ReasoningBudget, ReasoningAdaptive, ReasoningAlways}
	switch _, err := path.Match(k.ID, ""); {
	case k.Provider == "":
		return errors.New("provider: is empty; * stands for any")
	case k.ID == "":
		return errors.New("id: is empty; * stands for any")
	case err != nil:
		return fmt.Errorf("id: %w", err)
	case k.ContextWindow < 0 || k.MaxOutput < 0:
		return errors.New("contextWindow and maxOutput: want a positive number of tokens, or leave them out")
	case !slices.Contains(kinds, k.Reasoning):
		return fmt.Errorf("reasoning: got %q, want one of %s, or leave it out", k.Reasoning, strings.Join(kinds[1:], ", "))
	}
	return nil
}

// Of lists what is known of a provider's models, in the order in which they are looked up.
func (m *Models) Of(provider string) (out []Known) {
	for _, k := range m.entries {
		if k.Provider == provider || k.Provider == "*" {
			out = append(out, k)
		}
	}
	return out
}

// Lookup returns the first entry that fits a provider's model; the zero Known if none
// does.
func (m *Models) Lookup(provider, id string) Known {
	id = strings.ToLower(id)
	for {
		for _, k := range m.entries {
			if k.Provider != "*" && k.Provider != provider {
				continue
			}
			if ok, _ := path.Match(strings.ToLower(k.ID), id); ok { // validate saw the pattern
				return k
			}
		}
		slash := strings.LastIndexByte(id, '/')
		if slash < 0 {
			return Known{}
		}
		id = id[slash+1:]
	}
}
