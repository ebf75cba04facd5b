package session

// Memory returns a log without a file, for tests and for embedders that keep nothing. It behaves as one from
// Store.Create: Path and FilesDir are "", Sync does nothing. It fills in the header as Create does and does not check
// the id.
func Memory(h Header, opt Options) *Log {
	opt = opt.withDefaults()
	return &Log{opt: opt, header: fillHeader(h, opt), validator: opt.validator()}
}

// MemoryFrom returns a log without a file that begins with records, as Store.Open would return one whose file held
// them: checked, closed where something was left open, and marked with session/end-seed. It shares the records. It
// fails with a *DamageError.
func MemoryFrom(h Header, records []Record, opt Options) (*Log, *Report, error) {
	opt = opt.withDefaults()
	l := &Log{opt: opt, header: fillHeader(h, opt), validator: opt.validator()}
	rep := &Report{ID: l.ID(), Records: len(records)}
	loaded := &loaded{header: l.header, hasHeader: true, report: rep}
	for i, rec := range records {
		if err := checkSeed(rec, i); err != nil {
			rep.problem(Problem{Line: i + 2, Offset: -1, Seq: rec.Seq, Message: err.Error()})
			return nil, rep, rep.Err()
		}
	}
	rep.Whole = len(records)
	loaded.records = records[:len(records):len(records)]
	loaded.fold(l.validator)
	if err := rep.Err(); err != nil {
		return nil, rep, err
	}
	l.records = loaded.records
	if err := l.settle(rep); err != nil {
		return nil, rep, err
	}
	return l, rep, nil
}

func fillHeader(h Header, opt Options) Header {
	now := opt.Now()
	h.Version = Version
	if h.CreatedAt == 0 {
		h.CreatedAt = now.UnixMilli()
	}
	if h.ID == "" {
		h.ID = NewID(now)
	}
	return h
}
