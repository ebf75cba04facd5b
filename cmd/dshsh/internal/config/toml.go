package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// entry is one key of a file, or the header of a table. Immutable.
type entry struct {
	table string // of the key, with the number of a [[table]]: "openai", "rule 2"; "" at the top
	key   string // "" for a header
	line  int
	value any // string, int64, float64, bool, []any or a map; nil for a header
}

// readTOML reads a file of one level of tables. Errors say file and line.
func readTOML(name string, data []byte) ([]entry, error) {
	var values map[string]any
	if err := toml.Unmarshal(data, &values); err != nil {
		var de *toml.DecodeError
		if errors.As(err, &de) {
			line, _ := de.Position()
			return nil, fmt.Errorf("%s:%d: %s", name, line, strings.TrimPrefix(de.Error(), "toml: "))
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	// The decoder does not say where things stand; the parser does.
	var out []entry
	var p unstable.Parser
	p.Reset(data)
	table, at, count := "", values, map[string]int{}
	for p.NextExpression() {
		e := p.Expression()
		var path []string
		line := 0
		for it := e.Key(); it.Next(); {
			path = append(path, string(it.Node().Data))
			line = p.Shape(it.Node().Raw).Start.Line
		}
		full := strings.Join(path, ".")
		switch e.Kind {
		case unstable.Table:
			table, at = full, inner(values, path)
			out = append(out, entry{table: table, line: line})
		case unstable.ArrayTable:
			count[full]++
			table, at = fmt.Sprintf("%s %d", full, count[full]), nil
			if list, ok := values[full].([]any); ok && count[full] <= len(list) {
				at, _ = list[count[full]-1].(map[string]any)
			}
			out = append(out, entry{table: table, line: line})
		case unstable.KeyValue:
			var v any
			if m := inner(at, path[:len(path)-1]); m != nil {
				v = m[path[len(path)-1]]
			}
			out = append(out, entry{table, full, line, v})
		}
	}
	if err := p.Error(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}

// inner is the table that a path leads to, nil when there is none.
func inner(m map[string]any, path []string) map[string]any {
	for _, name := range path {
		m, _ = m[name].(map[string]any)
	}
	return m
}
