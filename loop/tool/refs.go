package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// maxUnfolded is how many schemas a schema may be with its references written out, one
// that contains itself counted once.
const maxUnfolded = 100_000

// How keywords hold schemas, and whether these judge the same value or a part of it.
const (
	holdsOne = 1 << iota
	holdsList
	holdsMap
	sameValue
)

var subschemas = map[string]int{
	"allOf": holdsList | sameValue, "anyOf": holdsList | sameValue, "oneOf": holdsList | sameValue, "not": holdsOne | sameValue,
	"if": holdsOne | sameValue, "then": holdsOne | sameValue, "else": holdsOne | sameValue,
	"dependentSchemas": holdsMap | sameValue, "dependencies": holdsMap | sameValue,
	"properties": holdsMap, "patternProperties": holdsMap, "additionalProperties": holdsOne, "unevaluatedProperties": holdsOne,
	"propertyNames": holdsOne, "items": holdsOne | holdsList, "prefixItems": holdsList, "additionalItems": holdsOne,
	"unevaluatedItems": holdsOne, "contains": holdsOne,
}

// refs is a schema as a graph. The validator goes along its references without a bound:
// where that would never end, or multiplies, the schema is refused before it is used. Used
// by one goroutine.
type refs struct {
	root  any
	nodes map[string]*refNode // by JSON pointer
	queue []string            // those whose edges are to be found
	again bool                // one contains itself
}

type refNode struct {
	v    any
	to   []refEdge
	size int // 0 = not known
	open bool
}

type refEdge struct {
	ptr  string
	same bool   // judges the same value
	name string // else: the member of that name; "" = any member or item
}

// checkRefs says whether every reference of a schema can be followed to its end. It
// returns the graph of one whose references lead back to itself for parts of the value: how
// often such a schema is gone through depends on the value.
func checkRefs(parameters json.RawMessage) (cyclic *refs, err error) {
	w := &refs{nodes: map[string]*refNode{}}
	if err := json.Unmarshal(parameters, &w.root); err != nil {
		return nil, err
	}
	w.node("", w.root)
	for len(w.queue) > 0 {
		ptr := w.queue[0]
		w.queue = w.queue[1:]
		if err := w.edges(ptr); err != nil {
			return nil, err
		}
	}
	done := map[string]bool{}
	for ptr := range w.nodes {
		if at := w.endless(ptr, done); at != "" {
			return nil, fmt.Errorf("%q refers to itself for the same value, so it could never be checked", at)
		}
	}
	if w.size("") > maxUnfolded {
		return nil, fmt.Errorf("its references unfold to more than %d schemas", maxUnfolded)
	}
	if !w.again {
		return nil, nil
	}
	return w, nil
}

func (w *refs) node(ptr string, v any) {
	if w.nodes[ptr] == nil {
		w.nodes[ptr] = &refNode{v: v}
		w.queue = append(w.queue, ptr)
	}
}

// edges finds what a schema leads to.
func (w *refs) edges(ptr string) error {
	n := w.nodes[ptr]
	s, ok := n.v.(map[string]any)
	if !ok {
		return nil
	}
	add := func(to string, v any, same bool, name string) {
		w.node(to, v)
		n.to = append(n.to, refEdge{to, same, name})
	}
	for key, held := range s {
		how, at := subschemas[key], ptr+"/"+escape(key)
		same := how&sameValue != 0
		switch x := held.(type) {
		case map[string]any:
			if how&holdsOne != 0 {
				add(at, x, same, "")
			}
			if how&holdsMap != 0 {
				for name, v := range x {
					member := ""
					if key == "properties" {
						member = name
					}
					add(at+"/"+escape(name), v, same, member)
				}
			}
		case []any:
			if how&holdsList != 0 {
				for i, v := range x {
					add(at+"/"+strconv.Itoa(i), v, same, "")
				}
			}
		case string:
			switch key {
			case "$ref":
				to, v, err := w.find(x)
				if err != nil {
					return fmt.Errorf("$ref %q: %w", x, err)
				}
				add(to, v, true, "")
			case "$dynamicRef", "$recursiveRef":
				return fmt.Errorf("%s is not supported", key)
			}
		}
	}
	return nil
}

// endless finds a schema that leads to itself for the same value, on any way from ptr; ""
// when none does.
func (w *refs) endless(ptr string, done map[string]bool) string {
	n := w.nodes[ptr]
	switch {
	case n.open:
		return "#" + ptr
	case done[ptr]:
		return ""
	}
	n.open = true
	defer func() { n.open = false }()
	for _, e := range n.to {
		if e.same {
			if at := w.endless(e.ptr, done); at != "" {
				return at
			}
		}
	}
	done[ptr] = true
	return ""
}

// size counts the schemas that one unfolds to, as far as maxUnfolded.
func (w *refs) size(ptr string) int {
	n := w.nodes[ptr]
	switch {
	case n.open:
		w.again = true
		return 1 // again, for a part of the value
	case n.size > 0:
		return n.size
	}
	n.open = true
	defer func() { n.open = false }()
	size := 1
	for _, e := range n.to {
		size = min(size+w.size(e.ptr), maxUnfolded+1)
	}
	n.size = size
	return size
}

// A schema whose references lead back to itself is gone through at most so often for one
// value, and so often more for each part of it: with two ways for the same part, what there
// is to do doubles with every level.
const (
	maxVisits     = 200_000
	maxPartVisits = 50
)

// endlessFor says that a validator would go through the schema too often for a value.
func (w *refs) endlessFor(value any) bool {
	parts := 0
	v := partOf(value, &parts)
	c := &visits{refs: w, most: maxVisits + maxPartVisits*parts, counted: map[visit]int{}}
	return c.of("", v) > c.most
}

// visits counts how often a validator goes through schemas for one value: at most so often,
// since some parts are judged by fewer. Used by one goroutine.
type visits struct {
	*refs
	most    int // no further
	counted map[visit]int
}

func (w *visits) of(ptr string, v *part) int {
	key := visit{ptr, v}
	if n, ok := w.counted[key]; ok {
		return n
	}
	n := 1
	for _, e := range w.nodes[ptr].to {
		switch {
		case e.same:
			n += w.of(e.ptr, v)
		case e.name != "":
			if m := v.members[e.name]; m != nil {
				n += w.of(e.ptr, m)
			}
		default:
			for _, m := range v.members {
				n += w.of(e.ptr, m)
			}
			for _, m := range v.items {
				n += w.of(e.ptr, m)
			}
		}
		if n = min(n, w.most+1); n > w.most {
			break
		}
	}
	w.counted[key] = n
	return n
}

type visit struct {
	ptr string
	v   *part
}

// part is a value with an identity. Immutable once made.
type part struct {
	members map[string]*part
	items   []*part
}

func partOf(v any, n *int) *part {
	p := &part{}
	*n++
	switch v := v.(type) {
	case map[string]any:
		p.members = make(map[string]*part, len(v))
		for name, m := range v {
			p.members[name] = partOf(m, n)
		}
	case []any:
		for _, m := range v {
			p.items = append(p.items, partOf(m, n))
		}
	}
	return p
}

// find follows a reference within the document: a JSON pointer behind #.
func (w *refs) find(ref string) (ptr string, v any, err error) {
	path, ok := strings.CutPrefix(ref, "#")
	if ok {
		path, err = url.PathUnescape(path)
	}
	if err != nil || !ok || path != "" && path[0] != '/' {
		return "", nil, errors.New(`want a place in the same schema, such as "#/$defs/name"`)
	}
	v = w.root
	if path == "" {
		return "", v, nil
	}
	for _, part := range strings.Split(path[1:], "/") {
		name := strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		ptr += "/" + escape(name)
		switch x := v.(type) {
		case map[string]any:
			v, ok = x[name]
		case []any:
			i, err := strconv.Atoi(name)
			if ok = err == nil && i >= 0 && i < len(x); ok {
				v = x[i]
			}
		default:
			ok = false
		}
		if !ok {
			return "", nil, errors.New("there is no such place")
		}
	}
	return ptr, v, nil
}

func escape(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }
