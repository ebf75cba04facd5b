package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// Version is the header version that this package writes, and the newest that it reads.
const Version = 0

// EndSeed is the type of the one record that the package itself writes: it marks the end of what a log was opened
// or forked with. Its data is {}.
const EndSeed = "session/end-seed"

// LostRecord is the type of the record that Repair puts in the place of one that is gone, so that the numbers of
// the others, and what refers to them, stay true. It is ignorable; its data is {line?, type?, reason}. It means that
// anything may have happened at this place: a validator that takes it so, and lets later records pick up the thread
// (any higher turn number, an end without a beginning), saves what follows from being refused, and so replaced too.
const LostRecord = "session/lost"

// Header is the first line of a log. It is a value; a Log's own never changes.
type Header struct {
	Version         int    `json:"version"`
	ID              string `json:"id"`
	CreatedAt       int64  `json:"createdAt"` // milliseconds since 1970
	Cwd             string `json:"cwd,omitempty"`
	ParentSession   string `json:"parentSession,omitempty"`
	SeedLength      *int   `json:"seedLength,omitempty"` // how many records a fork copied
	Origin          string `json:"origin,omitempty"`
	DelegationDepth int    `json:"delegationDepth,omitempty"`
	AgentPreset     string `json:"agentPreset,omitempty"`
}

// SurfaceOp says how a record changes the surface that the model sees: appended to it, or in the place of the
// records Start to End. It is a value; in JSON it is "append" or {"op":"replace","start":..,"end":..}.
type SurfaceOp struct {
	Replace    bool
	Start, End int64 // only with Replace
}

// Record is one line of a log. Records are immutable: Data, SurfaceOp and SourceEventSeqs are shared by all who
// hold one and must not be written to.
//
// In JSON a record is one line with the fields type, seq, time, data, ignorable, surfaceOp, sourceEventSeqs in this
// order, the last three only when present.
type Record struct {
	Type            string
	Seq             int64 // its place in the log, from 0
	Time            int64 // milliseconds since 1970
	Data            json.RawMessage
	Ignorable       bool // a reader that does not know Type may skip it
	SurfaceOp       *SurfaceOp
	SourceEventSeqs []int64 // nil: absent; empty but not nil: present and empty
}

// Entry is what Append takes: a record before it has its number and time. Append copies what it keeps.
type Entry struct {
	Type            string
	Data            json.RawMessage
	Ignorable       bool
	SurfaceOp       *SurfaceOp
	SourceEventSeqs []int64
}

// Entry returns what Append takes to write a record like this one. It shares the record's memory.
func (r Record) Entry() Entry {
	return Entry{Type: r.Type, Data: r.Data, Ignorable: r.Ignorable, SurfaceOp: r.SurfaceOp, SourceEventSeqs: r.SourceEventSeqs}
}

// MarshalJSON returns "append" or the object that replaces.
func (op SurfaceOp) MarshalJSON() ([]byte, error) { return appendSurfaceOp(nil, op), nil }

// UnmarshalJSON takes the two forms that MarshalJSON writes and refuses others.
func (op *SurfaceOp) UnmarshalJSON(b []byte) error {
	b = bytes.TrimSpace(b)
	if len(b) > 0 && b[0] == '"' {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		if s != "append" {
			return fmt.Errorf("surfaceOp is %q, not \"append\" or {\"op\":\"replace\",...}", s)
		}
		*op = SurfaceOp{}
		return nil
	}
	var form struct {
		Op         string
		Start, End *int64
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&form); err != nil {
		return fmt.Errorf("surfaceOp: %w", err)
	}
	if form.Op != "replace" || form.Start == nil || form.End == nil {
		return fmt.Errorf("surfaceOp is %s, not \"append\" or {\"op\":\"replace\",\"start\":..,\"end\":..}", b)
	}
	*op = SurfaceOp{Replace: true, Start: *form.Start, End: *form.End}
	return nil
}

// MarshalJSON returns the record as the line that a log holds, without the newline. Data must be valid JSON.
func (r Record) MarshalJSON() ([]byte, error) {
	if err := checkEnvelope(&r); err != nil {
		return nil, err
	}
	data, err := oneLine(r.Data)
	if err != nil {
		return nil, err
	}
	b, _, _ := appendRecord(make([]byte, 0, len(data)+128), &r, data)
	return b, nil
}

// UnmarshalJSON takes a line of a log. It refuses unknown and repeated fields and copies what it keeps.
func (r *Record) UnmarshalJSON(b []byte) error {
	rec, err := parseRecord(bytes.Clone(b), nil)
	if err != nil {
		return err
	}
	if err := checkEnvelope(&rec); err != nil {
		return err
	}
	*r = rec
	return nil
}

// appendRecord appends r as one line without newline, and returns also where in it the data begins and ends.
// Types need no quoting: checkEnvelope keeps them to plain characters.
func appendRecord(b []byte, r *Record, data []byte) (line []byte, start, end int) {
	b = append(b, `{"type":"`...)
	b = append(b, r.Type...)
	b = append(b, `","seq":`...)
	b = strconv.AppendInt(b, r.Seq, 10)
	b = append(b, `,"time":`...)
	b = strconv.AppendInt(b, r.Time, 10)
	b = append(b, `,"data":`...)
	start = len(b)
	b = append(b, data...)
	end = len(b)
	if r.Ignorable {
		b = append(b, `,"ignorable":true`...)
	}
	if r.SurfaceOp != nil {
		b = append(b, `,"surfaceOp":`...)
		b = appendSurfaceOp(b, *r.SurfaceOp)
	}
	if r.SourceEventSeqs != nil {
		b = append(b, `,"sourceEventSeqs":[`...)
		for i, seq := range r.SourceEventSeqs {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, seq, 10)
		}
		b = append(b, ']')
	}
	return append(b, '}'), start, end
}

func appendSurfaceOp(b []byte, op SurfaceOp) []byte {
	if !op.Replace {
		return append(b, `"append"`...)
	}
	b = append(b, `{"op":"replace","start":`...)
	b = strconv.AppendInt(b, op.Start, 10)
	b = append(b, `,"end":`...)
	b = strconv.AppendInt(b, op.End, 10)
	return append(b, '}')
}

const maxTypeLength = 128

// checkEnvelope says what is wrong with everything of a record but its data (B188, B191). What depends on the
// type, as which types have a surfaceOp, is the validator's.
func checkEnvelope(r *Record) error {
	if r.Type == "" || len(r.Type) > maxTypeLength {
		return fmt.Errorf("%w: the type must have 1 to %d characters", InvalidRecord, maxTypeLength)
	}
	for i := range len(r.Type) {
		// What needs no quoting in JSON, so that a line can be written and recognised without it.
		if c := r.Type[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return fmt.Errorf("%w: type %q: only printable ASCII without spaces, quotes and backslashes", InvalidRecord, r.Type)
		}
	}
	if r.Seq < 0 {
		return fmt.Errorf("%w: seq %d is negative", InvalidRecord, r.Seq)
	}
	if op := r.SurfaceOp; op != nil && op.Replace && (op.Start < 0 || op.End < op.Start || op.End > r.Seq) {
		return fmt.Errorf("%w: surfaceOp replaces %d to %d, which is no range before record %d", InvalidRecord, op.Start, op.End, r.Seq)
	}
	if op := r.SurfaceOp; op != nil && !op.Replace && (op.Start != 0 || op.End != 0) {
		return fmt.Errorf("%w: surfaceOp has a range but does not replace", InvalidRecord)
	}
	if r.SourceEventSeqs == nil {
		return nil
	}
	if r.SurfaceOp == nil {
		return fmt.Errorf("%w: sourceEventSeqs without surfaceOp", InvalidRecord)
	}
	return checkSources(r.SourceEventSeqs, r.Seq)
}

// checkSources wants the numbers unique, not negative and below seq (B191).
func checkSources(sources []int64, seq int64) error {
	ascending := true
	for i, s := range sources {
		if s < 0 || s >= seq {
			return fmt.Errorf("%w: sourceEventSeqs has %d, which is not before record %d", InvalidRecord, s, seq)
		}
		ascending = ascending && (i == 0 || s > sources[i-1])
	}
	if ascending { // as they nearly always are; then they are unique too
		return nil
	}
	sorted := slices.Sorted(slices.Values(sources))
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] {
			return fmt.Errorf("%w: sourceEventSeqs has %d twice", InvalidRecord, sorted[i])
		}
	}
	return nil
}

// oneLine returns data as it may stand in a line, data itself where possible. It refuses what is not one JSON
// value in UTF-8 (B189). Raw newlines can only be white space between tokens and are taken out.
func oneLine(data []byte) ([]byte, error) {
	if err := checkJSON(data); err != nil {
		return nil, fmt.Errorf("%w: data: %w", InvalidRecord, err)
	}
	if bytes.IndexByte(data, '\n') < 0 && bytes.IndexByte(data, '\r') < 0 {
		return data, nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, data); err != nil {
		return nil, fmt.Errorf("%w: data: %w", InvalidRecord, err)
	}
	return b.Bytes(), nil
}
