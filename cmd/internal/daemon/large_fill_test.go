package daemon

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger/api"
	"nexus/turns"
)

// A large ledger is made of blocks of largeBlock sessions, which one writer stores one after the
// other. Of a block the first session starts two others as sub-agents, one is a fork of the one
// before it, one has a tag, and one a label. The ids, texts and names follow from the number of a
// session, so that a later run knows them.
const (
	largeBlock  = 50
	largeAgents = 8

	largeSpawns = 7  // and 13: started by the first session of the block
	largeFork   = 33 // of the session before it
	largeTagged = 20
	largeLabel  = 40
)

// largeID is the id of session i.
func largeID(i int) turns.ID {
	return turns.DeriveID(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(i)*time.Second), "large", fmt.Sprint(i))
}

func largeAgent(i int) string { return fmt.Sprint("agent", i/largeBlock%largeAgents) }

func largeProject(i int) string { return fmt.Sprintf("project%d", i%20) }

// largeWords are 5,000 words, and largeCumulative the probability that a word is one of those up
// to it: that of word n is proportional to 1/(n+1).
var largeWords, largeCumulative = func() (words []string, cumulative []float64) {
	syllables := strings.Fields("ba ce di fo gu ha je ki lo mu na pe ri so tu va we xi yo zu")
	sum := 0.0
	for n := range 5000 {
		w := ""
		for k := n + 20; k > 0; k /= len(syllables) {
			w += syllables[k%len(syllables)]
		}
		sum += 1 / float64(n+1)
		words, cumulative = append(words, w), append(cumulative, sum)
	}
	for n := range cumulative {
		cumulative[n] /= sum
	}
	return words, cumulative
}()

// largeTexts returns the message and the response of a turn of a session: 100 to 300 bytes
// together. Each thousandth turn has a word of its own.
func largeTexts(i, turn, perSession int) (message, response string) {
	r := rand.New(rand.NewPCG(uint64(i), uint64(turn)))
	text := func(words int) string {
		var b strings.Builder
		for range words {
			n, _ := slices.BinarySearchFunc(largeCumulative, r.Float64(), cmp.Compare[float64])
			b.WriteString(largeWords[min(n, len(largeWords)-1)])
			b.WriteByte(' ')
		}
		return b.String()
	}
	message, response = text(6+r.IntN(14)), text(8+r.IntN(18))
	if n := i*perSession + turn; n%1000 == 0 {
		message += largeUnique(n / 1000)
	}
	return message, response
}

// largeUnique is a word of one turn alone.
func largeUnique(n int) string { return fmt.Sprintf("unique%d", n) }

// largeFill stores the sessions [from, to) of a large ledger, of so many turns each, through the
// engine. progress is called with the number of events that it has stored so far, every now and then.
func largeFill(ctx context.Context, e *engine.Engine, from, to, perSession int, progress func(events int64)) (events int64, err error) {
	var next, stored atomic.Int64
	next.Store(int64(from / largeBlock))
	g, ctx := errgroup.WithContext(ctx)
	for range *largeWriters {
		g.Go(func() error {
			for {
				block := int(next.Add(1)) - 1
				if block*largeBlock >= to {
					return nil
				}
				if err := largeFillBlock(ctx, e, block*largeBlock, perSession, &stored); err != nil {
					return fmt.Errorf("block %d: %w", block, err)
				}
			}
		})
	}
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(20 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				progress(stored.Load())
			}
		}
	}()
	err = g.Wait()
	close(done)
	<-ended
	return stored.Load(), err
}

// largeFillBlock stores a block, whose first session is first.
func largeFillBlock(ctx context.Context, e *engine.Engine, first, perSession int, stored *atomic.Int64) error {
	c := reader.Caller{Tenant: "default", Agent: largeAgent(first)}
	var last turns.ID // turn of the session before that a fork begins at
	for i := first; i < first+largeBlock; i++ {
		id := largeID(i)
		if s, err := e.Reader.Projections.Session(id); err == nil && s.Turns >= uint64(perSession) { // of an earlier run
			last = s.Head.Turn
			continue
		}
		meta := turns.Raw(fmt.Sprintf(`{"project":{"remote":%q}}`, largeProject(i)))
		err := error(nil)
		if i-first == largeFork {
			_, err = e.Forks.Fork(ctx, c, largeID(i-1), api.CreateFork{ID: id, Turn: last, Meta: meta}, nil)
		} else {
			r := api.CreateSession{ID: id, SessionSettings: api.SessionSettings{Meta: meta}}
			switch i - first {
			case largeSpawns, largeSpawns + 6:
				r.SpawnedBy = &api.SpawnedBy{Session: largeID(first)}
			case largeLabel:
				label := fmt.Sprint("label", i)
				r.Label = &label
				stored.Add(2) // the claim of the label, and that it is confirmed
			}
			_, err = e.Sessions.Create(ctx, c, r, nil)
		}
		if err != nil {
			return err
		}
		stored.Add(1)
		for turn := range perSession {
			message, response := largeTexts(i, turn, perSession)
			m := turns.TextMessage(turns.Assistant, response)
			a, err := e.Sessions.Append(ctx, c, id, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, message)}, Response: &m}, nil)
			if err != nil {
				return err
			}
			if turn == perSession/2 {
				last = a.ID
			}
			stored.Add(1)
		}
		if i-first == largeTagged {
			tags := []string{"common"}
			if i/largeBlock%100 == 0 {
				tags = append(tags, "rare")
			}
			if _, err := e.Sessions.Describe(ctx, c, id, api.DescribeSession{Tag: tags}, nil); err != nil {
				return err
			}
			stored.Add(1)
		}
		if i%100 == 0 {
			message, _ := largeTexts(i, -1, perSession)
			m := api.SaveMemory{Kind: "semantic", Visibility: "all", Text: fmt.Sprintf("Of %d: %s", i, message), Session: id}
			if _, err := e.Memories.Save(ctx, c, m, fmt.Appendf(nil, `{"large":%d}`, i)); err != nil {
				return err
			}
			stored.Add(1)
		}
	}
	return nil
}
