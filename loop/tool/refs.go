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
}

type refNode struct {
	v    any
	to   []refEdge
	size int // 0 = not known
	open bool
}

type refEdge struct {
	ptr  string
	same bool // judges the same value
}

// checkRefs says whether every reference of a schema can be followed to its end.
func checkRefs(parameters json.RawMessage) error {
	w := &refs{nodes: map[string]*refNode{}}
	if err := json.Unmarshal(parameters, &w.root); err != nil {
		return err
	}
	w.node("", w.root)
	for len(w.queue) > 0 {
		ptr := w.queue[0]
		w.queue = w.queue[1:]
		if err := w.edges(ptr); err != nil {
			return err
		}
	}
	done := map[string]bool{}
	for ptr := range w.nodes {
		if at := w.endless(ptr, done); at != "" {
			return fmt.Errorf("%q refers to itself for the same value, so it could never be checked", at)
		}
	}
	if w.size("") > maxUnfolded {
		return fmt.Errorf("its references unfold to more than %d schemas", maxUnfolded)
	}
	return nil
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
	add := func(to string, v any, same bool) {
		w.node(to, v)
		n.to = append(n.to, refEdge{to, same})
	}
	for key, held := range s {
		how, at := subschemas[key], ptr+"/"+escape(key)
		same := how&sameValue != 0
		switch x := held.(type) {
		case map[string]any:
			if how&holdsOne != 0 {
				add(at, x, same)
			}
			if how&holdsMap != 0 {
				for name, v := range x {
					add(at+"/"+escape(name), v, same)
				}
			}
		case []any:
			if how&holdsList != 0 {
				for i, v := range x {
					add(at+"/"+strconv.Itoa(i), v, same)
				}
			}
		case string:
			switch key {
			case "$ref":
				to, v, err := w.find(x)
				if err != nil {
					return fmt.Errorf("$ref %q: %w", x, err)
				}
				add(to, v, true)
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
