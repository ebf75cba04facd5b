package tool

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema is a tool's parameters, ready to check arguments with. Immutable; its
// methods may be called from any goroutine.
type Schema struct {
	name     string
	resolved *jsonschema.Resolved // nil: everything that is an object fits
	cyclic   *refs                // of a schema that contains itself, else nil
	top      topLevel
}

// topLevel is what the checks that have a clearer wording than the validator's own
// need of a schema.
type topLevel struct {
	Properties           map[string]json.RawMessage `json:"properties"`
	PatternProperties    json.RawMessage            `json:"patternProperties"`
	Required             []string                   `json:"required"`
	AdditionalProperties json.RawMessage            `json:"additionalProperties"`
}

// CompileSchema prepares the parameters of a tool: JSON Schema, draft 7 or 2020-12. References
// lead to places of the same schema, and for one value not back to themselves. Patterns are RE2 expressions. Empty parameters accept
// any object. An error says that the tool cannot be registered as it is.
func CompileSchema(name string, parameters json.RawMessage) (*Schema, error) {
	s := &Schema{name: name}
	if jsonKind(parameters) == "nothing" || isNull(parameters) {
		return s, nil
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(parameters, &schema); err != nil {
		return nil, fmt.Errorf("tool %s: parameters are no JSON Schema: %w", name, err)
	}
	if schema.Type != "" && schema.Type != "object" {
		return nil, fmt.Errorf("tool %s: parameters must be a JSON Schema of type object, but are of type %s", name, schema.Type)
	}
	if err := json.Unmarshal(parameters, &s.top); err != nil {
		return nil, fmt.Errorf("tool %s: parameters are no JSON Schema: %w", name, err)
	}
	// The validator refuses drafts that it does not know; the keywords that tools use
	// mean the same in all of them.
	schema.Schema = ""
	cyclic, err := checkRefs(parameters)
	var resolved *jsonschema.Resolved
	if err == nil {
		resolved, err = resolve(&schema)
	}
	if err != nil {
		return nil, fmt.Errorf("tool %s: parameters are no JSON Schema: %w", name, err)
	}
	s.resolved, s.cyclic = resolved, cyclic
	return s, nil
}

// Validate checks the arguments of a call. An error is an *[Error] with code
// INVALID_ARGS. A null for an argument that is not required counts as not given: many
// models send one.
func (s *Schema) Validate(args json.RawMessage) error {
	given, err := argObject(s.name, args)
	if err != nil {
		return err
	}
	required := map[string]bool{}
	var missing []string
	for _, name := range s.top.Required {
		required[name] = true
		if _, ok := given[name]; !ok {
			missing = append(missing, name)
		}
	}
	if string(s.top.AdditionalProperties) == "false" && len(s.top.PatternProperties) == 0 {
		known := keys(s.top.Properties)
		if err := unknownArgs(s.name, keys(given), known); err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		return missingArgs(s.name, missing)
	}
	if s.resolved == nil {
		return nil
	}
	instance := make(map[string]any, len(given))
	for name, raw := range given {
		if isNull(raw) && !required[name] {
			continue
		}
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			return InvalidArgs("%s: argument %q: %v", s.name, name, err)
		}
		instance[name] = v
	}
	if s.cyclic != nil && s.cyclic.endlessFor(instance) {
		return InvalidArgs("%s: the arguments are nested too deep for the tool's schema, which contains itself in more than one way: checking them would take too long", s.name)
	}
	if err := validate(s.resolved, instance); err != nil {
		return InvalidArgs("%s: %s", s.name, validationMessage(err))
	}
	return nil
}

// resolve and validate turn the library's assertions, should one ever fail, into errors:
// schemas come from scripts.
func resolve(schema *jsonschema.Schema) (r *jsonschema.Resolved, err error) {
	defer recovered(&err)
	return schema.Resolve(nil)
}

func validate(r *jsonschema.Resolved, instance any) (err error) {
	defer recovered(&err)
	return r.Validate(instance)
}

func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the schema cannot be used: %v", p)
	}
}

// validationMessage rewords the validator's chain of places:
//
//	validating root: validating /properties/a/properties/b: minimum: 0 is less than 1
//	argument "a.b": minimum: 0 is less than 1
func validationMessage(err error) string {
	msg, place := err.Error(), ""
	for {
		rest, ok := strings.CutPrefix(msg, "validating ")
		if !ok {
			break
		}
		at, after, ok := strings.Cut(rest, ": ")
		if !ok {
			break
		}
		msg = after
		if at != "root" {
			place = at
		}
	}
	// The library prints Go's idea of a null and of numbers.
	msg = strings.NewReplacer("<invalid reflect.Value>", "null", "/1 is ", " is ", ".000000", "").Replace(cutMessage(msg, 400))
	if place == "" {
		return msg
	}
	place = strings.NewReplacer("/properties/", ".", "/items", "[]", "/additionalProperties", ".*").Replace(place)
	return fmt.Sprintf("argument %q: %s", strings.TrimPrefix(place, "."), msg)
}

// cutMessage bounds a text that may quote a value of any size.
func cutMessage(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "..."
}

func keys(m map[string]json.RawMessage) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
