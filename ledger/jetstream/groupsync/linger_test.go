package groupsync

import (
	"testing"
	"testing/synctest"
	"time"
)

// How long a fsync waits for others: by how many shared the one before, and by the writes
// that begin, each of which arrives a while later.
func TestHowLongAFsyncWaitsForOthers(t *testing.T) {
	const µs = time.Microsecond
	for name, tc := range map[string]struct {
		shared      int           // writes of the group before
		took        time.Duration // its fsync
		begun       int64         // before it begins to wait; one of them has arrived
		every, flow time.Duration // a write begins so often, for so long
		arrives     time.Duration // after it began
		least, most time.Duration
	}{
		"a lone writer":                      {shared: 1, took: 300 * µs, begun: 1},
		"one is on its way":                  {shared: 2, took: 300 * µs, begun: 2, arrives: 200 * µs, least: 200 * µs, most: 200 * µs},
		"one never comes":                    {shared: 2, took: 300 * µs, begun: 2, arrives: time.Hour, least: 600 * µs, most: 600 * µs},
		"one never comes, a slow disk":       {shared: 2, took: time.Second, begun: 2, arrives: time.Hour, least: lingerMax, most: lingerMax},
		"few: not for those behind":          {shared: crowd - 1, took: 300 * µs, begun: 2, arrives: 200 * µs, every: 50 * µs, flow: time.Hour, least: 200 * µs, most: 200 * µs},
		"a crowd: for those behind":          {shared: crowd, took: 200 * µs, begun: 1, arrives: 90 * µs, every: 100 * µs, flow: 2000 * µs, least: 2000 * µs, most: 2500 * µs},
		"a crowd that has no end":            {shared: crowd, took: 200 * µs, begun: 1, arrives: 90 * µs, every: 100 * µs, flow: time.Hour, least: lingerMax, most: lingerMax},
		"a crowd that is gone":               {shared: 64, took: 200 * µs, begun: 1, least: 200 * µs, most: 200 * µs},
		"a crowd is gone, a slow disk":       {shared: 64, took: time.Second, begun: 1, least: quietMax, most: quietMax},
		"a crowd of which one is on its way": {shared: 64, took: 200 * µs, begun: 2, arrives: 600 * µs, least: 800 * µs, most: 800 * µs},
		"a crowd of which one never comes":   {shared: 64, took: 200 * µs, begun: 2, arrives: time.Hour, least: 700 * µs, most: 700 * µs},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Stream{kick: make(chan struct{}, 1), stop: make(chan struct{}), shared: tc.shared, took: tc.took}
				s.begun.Store(tc.begun)
				s.arrived.Store(1)
				for range tc.begun - 1 {
					time.AfterFunc(tc.arrives, func() { s.arrive(1) })
				}
				began, ended := time.Now(), make(chan struct{})
				if tc.flow > 0 {
					go func() {
						for time.Since(began) < tc.flow {
							select {
							case <-ended:
								return
							case <-time.After(tc.every):
							}
							s.begun.Add(1)
							time.AfterFunc(tc.arrives, func() { s.arrive(1) })
						}
					}()
				}
				s.linger()
				close(ended)
				if took := time.Since(began); took < tc.least || took > tc.most {
					t.Errorf("it waited %v, want %v to %v", took, tc.least, tc.most)
				}
			})
		})
	}
}
