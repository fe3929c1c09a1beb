package seal

import (
	"errors"
	"fmt"
	"testing"

	"nexus/turns"
)

// world is a store on a disk that fails, and what its caller was promised.
type world struct {
	t       *testing.T
	d       *memDisk
	s       *Store
	r       *counter
	seen    map[Key]bool // every key that ever was returned or made
	stored  Key          // zero: Create never returned
	erased  bool         // Destroy returned nil
	started bool         // Destroy was called
	others  bool         // Destroy of another id returned nil
	thirds  map[Key]bool // keys that a third id may have
	third   Key          // zero: Create of a third id never returned
}

// aftermath is what happens after the failed step.
type aftermath struct {
	name string
	do   func(w *world)
	cut  bool // a power cut: blocks of files without a name are nobody's
}

func aftermaths() []aftermath {
	reopen := func(w *world) { w.s = mustOpen(w.t, w.d) }
	out := []aftermath{
		{name: "go on", do: func(w *world) { w.d.restart() }},
		{name: "kill", do: func(w *world) { w.d.restart(); reopen(w) }},
		{name: "power cut, all kept", cut: true, do: func(w *world) { w.d.cutPower(func() bool { return true }); reopen(w) }},
		{name: "power cut, all lost", cut: true, do: func(w *world) { w.d.cutPower(func() bool { return false }); reopen(w) }},
	}
	for seed := range uint64(6) {
		out = append(out, aftermath{name: fmt.Sprintf("power cut %d", seed), cut: true, do: func(w *world) { w.d.cutPower(coin(seed)); reopen(w) }})
	}
	return out
}

// TestStoreKeepsItsPromiseAfterAnyFailedStep fails every step of Create, Put and Destroy, in every way,
// with every aftermath, and holds the store to what store.go says of it.
func TestStoreKeepsItsPromiseAfterAnyFailedStep(t *testing.T) {
	scripts := map[string]func(w *world){
		"create":  func(w *world) { w.create() },
		"put":     func(w *world) { w.put() },
		"destroy": func(w *world) { w.destroy() },
		"repair":  func(w *world) { w.reopen() },
		"other":   func(w *world) { w.other() },
	}
	for name, script := range scripts {
		steps := 0
		for fail := 0; fail <= steps; fail++ {
			for _, how := range []fault{failedAndLost, failedButDone, torn} {
				for _, dying := range []bool{false, true} {
					for _, after := range aftermaths() {
						label := fmt.Sprintf("%s, step %d fails in mode %d, dying %v, %s", name, fail, how, dying, after.name)
						w := &world{t: t, d: newMemDisk(), r: &counter{}, seen: map[Key]bool{}}
						w.s = mustOpen(t, w.d)
						if name == "destroy" || name == "repair" || name == "other" {
							w.create()
						}
						if name == "repair" {
							delete(w.d.live, w.s.path(1, w.s.epoch.number, logFile))
						}
						w.d.ops, w.d.fail, w.d.how, w.d.after = 0, fail, how, dying
						if fail == 0 {
							w.d.fail = -1
						}
						script(w)
						if fail == 0 {
							steps = w.d.ops
						}
						after.do(w)
						w.d.fail = -1
						w.check(label, after.cut)
						if t.Failed() {
							return
						}
					}
				}
			}
		}
		if steps == 0 {
			t.Errorf("%s took no steps", name)
		}
		t.Logf("%s: %d steps", name, steps)
	}
}

func (w *world) create() {
	k, err := w.s.Create(idOf(1), w.r)
	if err == nil {
		w.stored = k
	}
	w.note()
}

// note remembers the keys that the counter can have given so far.
func (w *world) note() {
	for n := uint64(1); n <= w.r.n; n++ {
		c := counter{n - 1}
		k, _ := newKey(&c)
		w.seen[k] = true
	}
}

func (w *world) put() {
	k := Key{7, 7, 7}
	w.seen[k] = true
	if err := w.s.Put(idOf(1), k); err == nil {
		w.stored = k
	}
}

func (w *world) destroy() {
	w.started = true
	w.erased = w.s.Destroy(idOf(1)) == nil
}

// reopen opens a store whose second copy is gone; where that fails the process ends.
func (w *world) reopen() {
	s, err := openStore("/keys", w.d, nil)
	if err != nil {
		w.d.restart()
		s = mustOpen(w.t, w.d)
	}
	w.s = s
}

// other destroys another key, and then makes one: the first one stays.
func (w *world) other() {
	if w.s.Destroy(idOf(2)) == nil {
		w.others = true
	}
	before := w.r.n
	if k, err := w.s.Create(idOf(3), w.r); err == nil {
		w.third = k
	}
	w.thirds = make(map[Key]bool)
	for n := before; n < w.r.n; n++ {
		k, _ := newKey(&counter{n})
		w.thirds[k] = true
	}
	w.note()
}

func (w *world) check(label string, cut bool) {
	fatal := func(format string, args ...any) { w.t.Errorf("%s: %s", label, fmt.Sprintf(format, args...)) }
	k, err := w.s.Key(idOf(1))
	switch {
	case w.erased && !errors.Is(err, turns.ErrErased):
		fatal("Destroy had returned, Key: %v", err)
	case !w.started && w.stored != Key{} && (err != nil || k != w.stored):
		fatal("Create had returned, Key: %v", err)
	case err == nil && !w.seen[k]:
		fatal("Key is one that nobody made")
	case err != nil && !errors.Is(err, ErrNoKey) && !(w.started && errors.Is(err, turns.ErrErased)):
		fatal("Key: %v", err)
	case w.started && errors.Is(err, ErrNoKey):
		fatal("the key is gone without a trace")
	}
	if _, err := w.s.Key(idOf(2)); w.others && !errors.Is(err, turns.ErrErased) {
		fatal("another key was destroyed, Key: %v", err)
	}
	if k, err := w.s.Key(idOf(3)); w.third != (Key{}) && (err != nil || k != w.third) {
		fatal("a third key was made, Key: %v", err)
	}
	if !w.started { // the call is made again, and then power is lost
		again, err2 := w.s.Create(idOf(1), w.r)
		if err2 != nil || err == nil && again != k {
			fatal("Create again: %v", err2)
		}
		w.seen[again] = true
		w.d.cutPower(func() bool { return false })
		for i := range copies {
			alone := mustOpen(w.t, w.d.without(w.s.side(i)))
			if got, err := alone.Key(idOf(1)); err != nil || got != again {
				fatal("after Create and a power cut, without copy %s: %v", copies[i], err)
			}
		}
		w.s = mustOpen(w.t, w.d)
		if got, err := w.s.Key(idOf(1)); err != nil || got != again {
			fatal("after Create and a power cut: %v", err)
		}
		cut = true
	}
	if err := w.s.Destroy(idOf(1)); err != nil {
		fatal("Destroy again: %v", err)
	}
	gone := func(when string, everywhere bool) {
		left := w.d.keys(everywhere)
		for k := range w.seen {
			if left[k] && k != w.third && !w.thirds[k] {
				fatal("%s a destroyed key is on the disk", when)
			}
		}
	}
	gone("after Destroy", !cut)
	w.d.cutPower(func() bool { return false })
	w.s = mustOpen(w.t, w.d)
	if _, err := w.s.Key(idOf(1)); !errors.Is(err, turns.ErrErased) {
		fatal("after Destroy and a power cut: %v", err)
	}
	gone("after Destroy and a power cut", false)
}

// TestTwoFailuresLoseNothing: a Destroy that fails at any step, in a process that goes on; then a call of another
// kind that fails at any step, with the end of the process or of the power.
func TestTwoFailuresLoseNothing(t *testing.T) {
	const most = 30 // steps of a call
	for _, how := range []fault{failedAndLost, failedButDone, torn} {
		for first := 1; first < most; first++ {
			for second := 1; second < most; second++ {
				for seed := range uint64(4) {
					d := newMemDisk()
					s := mustOpen(t, d)
					r := &counter{}
					k, err := s.Create(idOf(1), r)
					if err == nil {
						_, err = s.Create(idOf(2), r)
					}
					if err != nil {
						t.Fatal(err)
					}
					d.ops, d.fail, d.how = 0, first, how
					if s.Destroy(idOf(2)) == nil {
						break // it has fewer steps
					}
					d.ops, d.fail, d.after = 0, second, true
					third, failed := s.Create(idOf(3), r)
					if failed == nil {
						failed = s.Destroy(idOf(2))
					}
					d.cutPower(coin(seed))
					label := fmt.Sprintf("mode %d, steps %d and %d, seed %d", how, first, second, seed)
					s, err = openStore("/keys", d, nil)
					if err != nil {
						t.Fatalf("%s: %v", label, err)
					}
					if got, err := s.Key(idOf(1)); err != nil || got != k {
						t.Fatalf("%s: a key that was stored: %v", label, err)
					}
					if got, err := s.Key(idOf(3)); third != (Key{}) && (err != nil || got != third) {
						t.Fatalf("%s: a key that was stored later: %v", label, err)
					}
					_, err = s.Key(idOf(2))
					if failed == nil && !errors.Is(err, turns.ErrErased) {
						t.Fatalf("%s: a key that was destroyed: %v", label, err)
					}
					// Opening does the rest of what it finds begun.
					if two, _ := newKey(&counter{1}); errors.Is(err, turns.ErrErased) && d.keys(false)[two] {
						t.Fatalf("%s: a destroyed key is on the disk", label)
					}
				}
			}
		}
	}
}
