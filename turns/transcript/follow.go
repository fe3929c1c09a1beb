package transcript

import (
	"crypto/sha256"
	"errors"
	"io"

	"nexus/turns"
)

// Follower reads a transcript of one JSON object a line while its writer is at work. It
// gives the steps that a [Reader] of the whole gives, as soon as their lines are fed. Not
// safe for concurrent use.
type Follower struct {
	r     *Reader
	in    growing
	Early map[turns.ID][sha256.Size]byte // steps of Complete that Next will give again, of a reader that does
}

// errNoMore: what was fed is read.
var errNoMore = errors.New("no more lines yet")

// growing gives the bytes that were fed.
type growing struct{ r io.Reader }

func (g *growing) Read(p []byte) (int, error) {
	if g.r == nil {
		return 0, errNoMore
	}
	n, err := g.r.Read(p)
	if err == io.EOF {
		g.r, err = nil, nil
		if n == 0 {
			err = errNoMore
		}
	}
	return n, err
}

// Feed adds lines, which follow those that were fed before. Each must end with its line
// break. r is read by Next, until that returns [io.EOF].
func (f *Follower) Feed(r io.Reader) { f.in.r = r }

// Next returns the next step, and [io.EOF] when the lines that were fed are read: after
// that more may be fed. After another error the follower can't be used any more.
func (f *Follower) Next() (Step, error) {
	for {
		s, err := f.r.Next()
		if errors.Is(err, errNoMore) {
			f.r.s.err = nil
			return Step{}, io.EOF
		}
		if err != nil {
			return Step{}, err
		}
		if sum, ok := f.Early[s.ID()]; ok {
			delete(f.Early, s.ID())
			if sum == stepSum(s) && sum != unknownSum {
				continue
			}
		}
		return s, nil
	}
}

// Complete returns the steps that the end of the transcript would add if it were here: the
// turns whose response is complete, though nothing follows them yet. Next does not give
// them again, unless a later line changed them.
func (f *Follower) Complete() (steps []Step) {
	if f.r.s.Complete == nil {
		return nil
	}
	if !f.r.s.Repeats {
		return f.r.s.Complete()
	}
	for _, s := range f.r.s.Complete() {
		sum := stepSum(s)
		if had, ok := f.Early[s.ID()]; ok && had == sum && sum != unknownSum {
			continue
		}
		f.Early[s.ID()] = sum
		steps = append(steps, s)
	}
	return steps
}

// Titles returns the titles of sessions as [Reader.Titles] does.
func (f *Follower) Titles() map[turns.ID]string { return f.r.Titles() }

// Losses returns what was lost or changed so far, as [Reader.Losses] does.
func (f *Follower) Losses() []Loss { return f.r.Losses() }

// unknownSum is the sum of a step that has no JSON: it is given again.
var unknownSum [sha256.Size]byte

func stepSum(s Step) [sha256.Size]byte {
	b, err := turns.EncodeJSON(s)
	if err != nil {
		return unknownSum
	}
	return sha256.Sum256(b)
}
