package runtime

import (
	"hash/fnv"
	"math/rand/v2"
)

// Random gives a script's next random number, in [0, 1): from HostConfig.Random, else
// from a source of the script's own that follows from the host's clock at its first use
// and the script's identity, so that under a clock that is replayed it gives the same
// numbers again, whatever other scripts draw. It is what Math.random and math.random
// draw from. On the thread.
func (in *Instance) Random() float64 {
	if in.random == nil {
		if in.random = in.host.random; in.random == nil {
			in.random = NewRandom(in.ID, uint64(in.host.Now().UnixNano()))
		}
	}
	return in.random()
}

// NewRandom is a source of numbers in [0, 1) that follows from a name and a seed. It is
// for one goroutine at a time.
func NewRandom(name string, seed uint64) func() float64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(h.Sum64(), seed)).Float64
}
