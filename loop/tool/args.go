package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
)

// DecodeArgs decodes a call's arguments into the struct that into points to. Names
// are those of the `json` tags, letter for letter; a field without omitempty is
// required; a null is the same as nothing given. Errors are *[Error] with code
// INVALID_ARGS, name the tool and the argument, and suggest the nearest name:
//
//	bash: unknown argument "comand" (did you mean "command"?)
//	bash: missing argument "command"
//	bash: argument "timeoutMs": got a string, want an integer
func DecodeArgs(tool string, args json.RawMessage, into any) error {
	given, err := argObject(tool, args)
	if err != nil {
		return err
	}
	target := reflect.ValueOf(into)
	if target.Kind() != reflect.Pointer || target.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("tool %s: arguments are decoded into a %T, which is no pointer to a struct", tool, into)
	}
	target = target.Elem()

	fields := map[string]reflect.Value{}
	var names, missing []string
	for i := range target.NumField() {
		name, options, _ := strings.Cut(target.Type().Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		names = append(names, name)
		fields[name] = target.Field(i)
		if raw, ok := given[name]; (!ok || isNull(raw)) && !strings.Contains(options, "omitempty") {
			missing = append(missing, name)
		}
	}
	// Unknown before missing: a misspelt name is both, and the spelling is the cause.
	if err := unknownArgs(tool, keys(given), names); err != nil {
		return err
	}
	if len(missing) > 0 {
		return missingArgs(tool, missing)
	}
	for _, name := range names {
		raw, ok := given[name]
		if !ok || isNull(raw) {
			continue
		}
		if err := decodeField(raw, fields[name]); err != nil {
			return InvalidArgs("%s: argument %q: %v", tool, name, err)
		}
	}
	return nil
}

// argObject splits an arguments object into its members.
func argObject(tool string, args json.RawMessage) (map[string]json.RawMessage, error) {
	if kind := jsonKind(args); kind != "an object" {
		hint := ""
		if kind == "a string" {
			// Arguments that do not parse arrive as the string that the model wrote.
			hint = " (what the model wrote is no valid JSON)"
		}
		return nil, InvalidArgs("%s: arguments must be a JSON object, but are %s%s", tool, kind, hint)
	}
	given := map[string]json.RawMessage{}
	if err := json.Unmarshal(args, &given); err != nil {
		return nil, InvalidArgs("%s: arguments are no valid JSON: %v", tool, err)
	}
	return given, nil
}

// unknownArgs returns an error for the first given name that is not among known.
func unknownArgs(tool string, given, known []string) error {
	for _, g := range given {
		found := false
		for _, k := range known {
			found = found || g == k
		}
		if found {
			continue
		}
		if near := Nearest(g, known); near != "" {
			return InvalidArgs("%s: unknown argument %q (did you mean %q?)", tool, g, near)
		}
		if len(known) == 0 {
			return InvalidArgs("%s: unknown argument %q (there are none)", tool, g)
		}
		return InvalidArgs("%s: unknown argument %q (there are: %s)", tool, g, strings.Join(known, ", "))
	}
	return nil
}

func missingArgs(tool string, missing []string) error {
	if len(missing) == 1 {
		return InvalidArgs("%s: missing argument %q", tool, missing[0])
	}
	return InvalidArgs("%s: missing arguments %q", tool, missing)
}

func decodeField(raw json.RawMessage, into reflect.Value) error {
	switch into.Kind() {
	case reflect.Int, reflect.Int64, reflect.Int32:
		// Models write 1000.0 and 1e3 for integers, which JSON Schema takes as such.
		var f float64
		if json.Unmarshal(raw, &f) != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 || into.OverflowInt(int64(f)) {
			return fmt.Errorf("got %s, want an integer", describe(raw))
		}
		into.SetInt(int64(f))
		return nil
	}
	if err := json.Unmarshal(raw, into.Addr().Interface()); err != nil {
		return fmt.Errorf("got %s, want %s", describe(raw), wanted(into.Kind()))
	}
	return nil
}

func wanted(k reflect.Kind) string {
	switch k {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64, reflect.Float32:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "an array"
	}
	return "an object"
}

// describe says what a value is; numbers are quoted, since which one it is matters.
func describe(raw json.RawMessage) string {
	if kind := jsonKind(raw); kind != "a number" {
		return kind
	}
	return cutMessage(string(bytes.TrimSpace(raw)), 40)
}

func jsonKind(raw json.RawMessage) string {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

func isNull(raw json.RawMessage) bool { return jsonKind(raw) == "null" }
