package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// errNotWhole marks a line that is not one JSON value: what is left of a write that did not finish looks so. Lines
// that are whole JSON but no record are damage of another kind: somebody wrote them on purpose.
var errNotWhole = errors.New("not a whole line of JSON")

// interner gives equal type names one string. It is used by one load only.
type interner map[string]string

func (in interner) get(b []byte) string {
	if in == nil {
		return string(b)
	}
	if s, ok := in[string(b)]; ok { // no allocation for the look-up
		return s
	}
	s := string(b)
	in[s] = s
	return s
}

// parseRecord reads one line, without its newline. The record's data is part of line. Its seq is not compared with
// anything, its envelope not checked: that is checkEnvelope's.
func parseRecord(line []byte, in interner) (Record, error) {
	if !utf8.Valid(line) {
		return Record{}, fmt.Errorf("%w: it is not UTF-8", errNotWhole)
	}
	if r, ok := parseFast(line, in); ok {
		return r, nil
	}
	return parseStrict(line, in)
}

// parseFast reads a line of the form that appendRecord writes, and says no to every other.
func parseFast(b []byte, in interner) (r Record, ok bool) {
	i := skipLiteral(b, 0, `{"type":"`)
	if i < 0 {
		return r, false
	}
	n := bytes.IndexByte(b[i:], '"')
	if n < 0 {
		return r, false
	}
	name := b[i : i+n]
	for _, c := range name {
		if c <= ' ' || c >= 0x7f || c == '\\' {
			return r, false
		}
	}
	if i = skipLiteral(b, i+n, `","seq":`); i < 0 {
		return r, false
	}
	if r.Seq, i = parseInt(b, i); i < 0 {
		return r, false
	}
	if i = skipLiteral(b, i, `,"time":`); i < 0 {
		return r, false
	}
	if r.Time, i = parseInt(b, i); i < 0 {
		return r, false
	}
	if i = skipLiteral(b, i, `,"data":`); i < 0 {
		return r, false
	}
	end := skipValue(b, i)
	if end < 0 {
		return r, false
	}
	r.Data = b[i:end:end]
	i = end
	if j := skipLiteral(b, i, `,"ignorable":true`); j >= 0 {
		r.Ignorable, i = true, j
	}
	if j := skipLiteral(b, i, `,"surfaceOp":`); j >= 0 {
		if k := skipLiteral(b, j, `"append"`); k >= 0 {
			r.SurfaceOp, i = appendOp, k
		} else if op, k := parseReplace(b, j); k >= 0 {
			r.SurfaceOp, i = &op, k
		} else {
			return r, false
		}
	}
	if j := skipLiteral(b, i, `,"sourceEventSeqs":[`); j >= 0 {
		if r.SourceEventSeqs, i = parseInts(b, j); i < 0 {
			return r, false
		}
	}
	if i != len(b)-1 || b[i] != '}' {
		return r, false
	}
	r.Type = in.get(name)
	return r, true
}

// appendOp is shared by all loaded records that append to the surface. Records are immutable, so nobody writes to it.
var appendOp = &SurfaceOp{}

func parseReplace(b []byte, i int) (op SurfaceOp, end int) {
	if i = skipLiteral(b, i, `{"op":"replace","start":`); i < 0 {
		return op, -1
	}
	op.Replace = true
	if op.Start, i = parseInt(b, i); i < 0 {
		return op, -1
	}
	if i = skipLiteral(b, i, `,"end":`); i < 0 {
		return op, -1
	}
	if op.End, i = parseInt(b, i); i < 0 || i >= len(b) || b[i] != '}' {
		return op, -1
	}
	return op, i + 1
}

// parseInts reads numbers up to the closing bracket. The list is never nil.
func parseInts(b []byte, i int) ([]int64, int) {
	n := bytes.IndexByte(b[i:], ']')
	if n < 0 {
		return nil, -1
	}
	if n == 0 {
		return []int64{}, i + 1
	}
	list := make([]int64, 0, bytes.Count(b[i:i+n], []byte{','})+1)
	for {
		var v int64
		if v, i = parseInt(b, i); i < 0 || i >= len(b) {
			return nil, -1
		}
		list = append(list, v)
		switch b[i] {
		case ']':
			return list, i + 1
		case ',':
			i++
		default:
			return nil, -1
		}
	}
}

// parseInt reads the digits at b[i] as JSON writes an integer, and returns where they end, or -1.
func parseInt(b []byte, i int) (int64, int) {
	negative := i < len(b) && b[i] == '-'
	if negative {
		i++
	}
	from := i
	var v int64
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		if v > (math.MaxInt64-9)/10 {
			return 0, -1 // the strict reader decides on the last few
		}
		v = v*10 + int64(b[i]-'0')
		i++
	}
	if i == from || b[from] == '0' && i > from+1 || negative && v == 0 {
		return 0, -1
	}
	if negative {
		v = -v
	}
	return v, i
}

// parseStrict reads a record however its line is formatted. It refuses unknown, repeated and missing fields.
func parseStrict(line []byte, in interner) (Record, error) {
	var r Record
	seen, err := members(line, func(key string, value []byte) error {
		switch key {
		case "type":
			var s string
			err := json.Unmarshal(value, &s)
			r.Type = in.get([]byte(s))
			return err
		case "seq":
			return parseNumber(value, &r.Seq)
		case "time":
			return parseNumber(value, &r.Time)
		case "data":
			r.Data = value[:len(value):len(value)]
			return nil
		case "ignorable":
			if r.Ignorable = string(value) == "true"; !r.Ignorable {
				return errors.New("it can only be true")
			}
			return nil
		case "surfaceOp":
			r.SurfaceOp = new(SurfaceOp)
			return r.SurfaceOp.UnmarshalJSON(value)
		case "sourceEventSeqs":
			if value[0] != '[' {
				return errors.New("it must be an array")
			}
			var list []*int64 // pointers show null, which is no number
			if err := json.Unmarshal(value, &list); err != nil {
				return err
			}
			r.SourceEventSeqs = make([]int64, len(list))
			for i, seq := range list {
				if seq == nil {
					return errors.New("it must hold integers")
				}
				r.SourceEventSeqs[i] = *seq
			}
			return nil
		}
		return errors.New("a record has no such field")
	})
	if err != nil {
		return Record{}, err
	}
	for _, key := range []string{"type", "seq", "time", "data"} {
		if !seen[key] {
			return Record{}, fmt.Errorf("%w: it has no %s", InvalidRecord, key)
		}
	}
	return r, nil
}

// parseNumber wants an integer: null, which encoding/json would skip, is none.
func parseNumber(value []byte, to *int64) error {
	if value[0] == 'n' {
		return errors.New("it must be an integer")
	}
	return json.Unmarshal(value, to)
}

// members calls each for every member of the object that line holds. It refuses repeated keys, which decoders
// disagree about.
func members(line []byte, each func(key string, value []byte) error) (seen map[string]bool, err error) {
	if err := checkJSON(line); err != nil {
		if len(bytes.TrimSpace(line)) > 0 && len(bytes.Trim(line, "\x00")) == 0 {
			return nil, fmt.Errorf("%w: %d zero bytes", errNotWhole, len(line))
		}
		return nil, fmt.Errorf("%w: %w", errNotWhole, err)
	}
	i := skipSpace(line, 0)
	if line[i] != '{' {
		return nil, fmt.Errorf("%w: it is not an object", InvalidRecord)
	}
	seen = map[string]bool{}
	for i = skipSpace(line, i+1); line[i] != '}'; i = skipSpace(line, i) {
		if line[i] == ',' {
			i = skipSpace(line, i+1)
		}
		from := i
		i = skipString(line, i+1)
		var key string
		if err := json.Unmarshal(line[from:i], &key); err != nil {
			return nil, fmt.Errorf("%w: %w", InvalidRecord, err)
		}
		if seen[key] {
			return nil, fmt.Errorf("%w: it has %s twice", InvalidRecord, key)
		}
		seen[key] = true
		from = skipSpace(line, skipSpace(line, i)+1)
		i = skipValue(line, from)
		if err := each(key, line[from:i:i]); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", InvalidRecord, key, err)
		}
	}
	return seen, nil
}

// parseHeader reads the first line of a log. Fields that it does not know are left out: a newer program that adds
// what an older one must not miss raises the version.
func parseHeader(line []byte) (Header, error) {
	var h Header
	if !utf8.Valid(line) {
		return h, fmt.Errorf("%w: it is not UTF-8", errNotWhole)
	}
	// The keys are compared as they are written: encoding/json alone would also take "ID" for "id".
	fields := map[string]any{
		"version": &h.Version, "id": &h.ID, "createdAt": &h.CreatedAt, "cwd": &h.Cwd, "parentSession": &h.ParentSession,
		"seedLength": &h.SeedLength, "origin": &h.Origin, "delegationDepth": &h.DelegationDepth, "agentPreset": &h.AgentPreset,
	}
	seen, err := members(line, func(key string, value []byte) error {
		if to := fields[key]; to != nil {
			return json.Unmarshal(value, to)
		}
		return nil
	})
	if err != nil {
		return Header{}, err
	}
	var missing []string
	for _, key := range []string{"version", "id", "createdAt"} {
		if !seen[key] {
			missing = append(missing, key)
		}
	}
	if missing != nil {
		return Header{}, fmt.Errorf("%w: a header needs %s", InvalidRecord, strings.Join(missing, ", "))
	}
	return h, nil
}
