package loop

import (
	"context"
	"io"
	"sync"

	"dshsh/loop/model"
)

// pump reads a stream on a goroutine of its own, so that chunks that are there already
// are handled together. It ends when its context does; join waits for it.
type pump struct {
	ready chan struct{} // holds a token when there may be something to take
	room  chan struct{} // holds one when something was taken
	done  chan struct{} // closed when the goroutine has ended

	mu    sync.Mutex // guards what follows
	batch []model.Chunk
	err   error // what the stream ended with behind batch: io.EOF for its end
}

// maxBatch is how far a stream may be ahead of what is recorded of it.
const maxBatch = 64

func startPump(ctx context.Context, r *Reply) *pump {
	p := &pump{ready: make(chan struct{}, 1), room: make(chan struct{}, 1), done: make(chan struct{})}
	go p.run(ctx, r)
	return p
}

func (p *pump) run(ctx context.Context, r *Reply) {
	defer close(p.done)
	s, err := r.open(ctx)
	if err != nil {
		p.end(err)
		return
	}
	defer s.Close()
	for {
		c, err := s.Next()
		if err != nil {
			p.end(err)
			return
		}
		if !p.put(ctx, c) {
			return
		}
	}
}

func (p *pump) end(err error) {
	p.mu.Lock()
	p.err = err
	p.mu.Unlock()
	signal(p.ready)
}

func (p *pump) put(ctx context.Context, c model.Chunk) bool {
	for {
		p.mu.Lock()
		full := len(p.batch) == maxBatch
		if !full {
			p.batch = append(p.batch, c)
		}
		p.mu.Unlock()
		if !full {
			signal(p.ready)
			return true
		}
		select {
		case <-p.room:
		case <-ctx.Done():
			return false
		}
	}
}

// signal leaves a token, unless there is one.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// take gives what has come; the batch is the caller's. io.EOF comes alone, any other
// error also behind the last chunks.
func (p *pump) take() (batch []model.Chunk, err error) {
	p.mu.Lock()
	batch, p.batch = p.batch, nil
	if err = p.err; err == io.EOF && len(batch) > 0 {
		err = nil
	}
	p.mu.Unlock()
	signal(p.room)
	return batch, err
}

func (p *pump) join() { <-p.done }

// receive waits off the thread for the next chunk and takes along what else is there.
// When the activity ends, it gives nothing.
func (a *agent) receive(act *activity, p *pump) (batch []model.Chunk, err error) {
	werr := a.h.Thread.Away(func() {
		for {
			if batch, err = p.take(); len(batch) > 0 || err != nil {
				return
			}
			select {
			case <-p.ready:
			case <-act.ctx.Done():
				return
			}
		}
	})
	if werr != nil {
		return nil, werr
	}
	return batch, err
}
