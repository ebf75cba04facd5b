package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"dshsh/session"
)

const chunkData = `{"turn":1,"step":3,"chunk":{"type":"text-delta","index":0,"text":" some words of a reply"}}`

// logs are appends, and the opening of a big session.
func logs(b *bench) ([]figure, func(), error) {
	store, err := session.OpenStore(filepath.Join(b.dir, "sessions"), session.Options{})
	if err != nil {
		return nil, nil, err
	}
	log, err := store.Create(session.Header{})
	if err != nil {
		return nil, nil, err
	}
	done := func() { _ = log.Close() }
	add := func(times int, sync bool) func() (float64, error) {
		return func() (float64, error) {
			began := time.Now()
			for range times {
				if _, err := log.Append(session.Entry{Type: "assistant/chunk", Data: json.RawMessage(chunkData)}); err != nil {
					return 0, err
				}
				if sync {
					if err := log.Sync(); err != nil {
						return 0, err
					}
				}
			}
			return float64(times) / time.Since(began).Seconds(), nil
		}
	}
	id, size, err := b.bigSession(store)
	if err != nil {
		return nil, done, err
	}
	return []figure{
		{name: "appends, not synced", unit: "/s", sample: add(5000, false)},
		{name: "appends, each synced", unit: "/s", sample: add(50, true)},
		{name: fmt.Sprintf("opening %d MB of chunks", b.logMB), unit: "MB/s", rounds: 5, sample: func() (float64, error) {
			began := time.Now()
			l, _, err := store.Open(id)
			if err != nil {
				return 0, err
			}
			d := time.Since(began)
			return float64(size) / 1e6 / d.Seconds(), l.Close()
		}},
	}, done, nil
}

// bigSession writes a session file of the asked size.
func (b *bench) bigSession(store *session.Store) (id string, size int64, err error) {
	l, err := store.Create(session.Header{})
	if err != nil {
		return "", 0, err
	}
	id = l.ID()
	if err := l.Close(); err != nil {
		return "", 0, err
	}
	f, err := os.OpenFile(filepath.Join(b.dir, "sessions", id+".jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	for seq := 0; size < int64(b.logMB)*1e6; seq++ {
		n, err := fmt.Fprintf(w, `{"type":"assistant/chunk","seq":%d,"time":1767323045000,"data":%s}`+"\n", seq, chunkData)
		if err != nil {
			return "", 0, err
		}
		size += int64(n)
	}
	return id, size, w.Flush()
}
