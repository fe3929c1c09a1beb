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
		"repair":  func(w *world) { w.key() },
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
						if name == "destroy" || name == "repair" {
							w.create()
						}
						if name == "repair" {
							delete(w.d.live, w.s.path(copyB, idOf(1), keyFile))
							w.s = mustOpen(t, w.d)
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
	// The keys that the counter can have given so far.
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

func (w *world) key() { w.s.Key(idOf(1)) }

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
	if !w.started { // the call is made again, and then power is lost
		again, err2 := w.s.Create(idOf(1), w.r)
		if err2 != nil || err == nil && again != k {
			fatal("Create again: %v", err2)
		}
		w.seen[again] = true
		w.d.cutPower(func() bool { return false })
		for _, side := range copies {
			if _, err := w.d.Read(w.s.path(side, idOf(1), keyFile)); err != nil {
				fatal("after Create and a power cut copy %s is gone", side)
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
	for k := range w.seen {
		if w.d.holds(k[:], !cut) {
			fatal("a destroyed key is still on the disk")
		}
	}
	w.d.cutPower(func() bool { return false })
	w.s = mustOpen(w.t, w.d)
	if _, err := w.s.Key(idOf(1)); !errors.Is(err, turns.ErrErased) {
		fatal("after Destroy and a power cut: %v", err)
	}
	for k := range w.seen {
		if w.d.holds(k[:], false) {
			fatal("a destroyed key is back")
		}
	}
}
