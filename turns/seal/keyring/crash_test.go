package keyring

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"testing"

	"nexus/turns"
	"nexus/turns/seal"
	"nexus/turns/seal/internal/crypt"
)

// world is a store on a disk that fails, and what its caller was promised.
type world struct {
	t       *testing.T
	label   string
	d       *memDisk
	s       *Store
	r       *counter
	seen    map[seal.Key]bool     // every key that ever was returned or made for the id
	others  map[turns.ID]seal.Key // keys of other ids, returned before
	stored  seal.Key              // zero: Create never returned
	erased  bool                  // Destroy returned nil
	taken   bool                  // Puncture returned nil
	started bool                  // Destroy was called
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
		{name: "power cut, all kept", cut: true, do: func(w *world) { w.d.cutPower(always); reopen(w) }},
		{name: "power cut, all lost", cut: true, do: func(w *world) { w.d.cutPower(never); reopen(w) }},
	}
	for seed := range uint64(3) {
		out = append(out, aftermath{name: fmt.Sprintf("power cut %d", seed), cut: true, do: func(w *world) { w.d.cutPower(coin(seed)); reopen(w) }})
	}
	return out
}

// TestStoreKeepsItsPromiseAfterAnyFailedStep fails every step of Create, Put, Destroy and an open, in
// every way, with every aftermath, and holds the store to what store.go says of it.
func TestStoreKeepsItsPromiseAfterAnyFailedStep(t *testing.T) {
	scripts := map[string]func(w *world){
		"open":    func(w *world) { w.open() },
		"create":  func(w *world) { w.create() },
		"begin":   func(w *world) { w.begin() },
		"put":     func(w *world) { w.put() },
		"group":   func(w *world) { w.group() },
		"destroy": func(w *world) { w.destroy() },
		"take":    func(w *world) { w.puncture() },
		"repair":  func(w *world) { w.open() },
		"resume":  func(w *world) { w.open() },
	}
	for name, script := range scripts {
		steps := 0
		for fail := 0; fail <= steps; fail++ {
			for how := range faults {
				for _, dying := range []bool{false, true} {
					for _, after := range aftermaths() {
						w := &world{t: t, d: newMemDisk(), r: &counter{}, seen: map[seal.Key]bool{}, others: map[turns.ID]seal.Key{}}
						w.label = fmt.Sprintf("%s, step %d fails in mode %d, dying %v, %s", name, fail, how, dying, after.name)
						if name != "open" {
							w.prepare(name)
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
						if w.s == nil { // the open failed, and the process goes on
							w.s = mustOpen(t, w.d)
						}
						if name == "take" {
							w.checkPuncture()
						} else {
							w.check(after.cut)
						}
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

func (w *world) fatal(format string, args ...any) {
	w.t.Helper()
	w.t.Errorf("%s: %s", w.label, fmt.Sprintf(format, args...))
}

// prepare makes the store in which a script begins.
func (w *world) prepare(name string) {
	w.s = mustOpen(w.t, w.d)
	for n := range 3 {
		k, err := w.s.Create(idOf(100+n), w.r)
		if err != nil {
			w.t.Fatal(err)
		}
		w.others[idOf(100+n)] = k
	}
	switch name {
	case "destroy", "take":
		w.create()
	case "repair": // a lacks what b has, and has a flipped bit
		w.create()
		for _, n := range []*inode{w.d.live[w.s.logName(copyA)], w.d.live[w.s.name(copyB, 1, epochSuffix)]} {
			n.data[60] ^= 1
			n.disk = bytes.Clone(n.data)
		}
		n := w.d.live[w.s.logName(copyA)]
		n.data = n.data[:len(n.data)-50]
		n.disk = bytes.Clone(n.data)
	case "resume": // a torn write in a, which is cut, of which one record is whole
		w.d.ops, w.d.fail, w.d.how, w.d.after = 0, 1, torn, true
		w.group()
		w.d.restart()
	}
}

// open opens the store, or leaves none.
func (w *world) open() {
	s, err := open("/keys", w.d)
	if w.s = s; err != nil {
		w.s = nil
	}
}

func (w *world) create() {
	k, err := w.s.Create(idOf(1), w.r)
	if err == nil {
		w.stored = k
	}
	w.guess()
}

// begin is create for one who goes on before b has the key: it is promised all the same.
func (w *world) begin() {
	k, durable, err := w.s.Begin(idOf(1), w.r)
	if err == nil {
		w.stored = k
		if got, err := w.s.Key(idOf(1)); err != nil || got != k {
			w.fatal("Begin had returned, Key: %v", err)
		}
		_ = durable()
	}
	w.guess()
}

// guess notes the keys that the counter can have given so far.
func (w *world) guess() {
	for n := uint64(1); n <= w.r.n; n++ {
		c := counter{n - 1}
		k, _ := seal.NewKey(&c)
		w.seen[k] = true
	}
	for _, k := range w.others {
		delete(w.seen, k)
	}
}

// made is a key as random as a made one: the file of an epoch's key has a checksum and then zeros, and a
// key of two bytes and zeros is found there once in 65,536 files.
func made(n int) seal.Key { return sha256.Sum256([]byte{byte(n)}) }

func (w *world) put() {
	k := made(7)
	w.seen[k] = true
	if err := w.s.Put(idOf(1), k); err == nil {
		w.stored = k
	}
}

// group stores three keys in one write, the second under the id.
func (w *world) group() {
	g := newGroup()
	for n := range 3 {
		g.ids, g.keys, g.back = append(g.ids, idOf(n)), append(g.keys, made(8+n)), append(g.back, false)
	}
	w.seen[made(9)] = true
	w.s.write(g)
	if g.err == nil {
		w.stored = made(9)
	}
}

func (w *world) destroy() {
	w.started = true
	w.erased = w.s.Destroy(idOf(1)) == nil
}

func (w *world) puncture() { w.taken = w.s.Puncture(idOf(1), 300, 7) == nil }

// checkPuncture: the key is whole or has no event 7, and the keys of the other events are there. Then event 7 is taken.
func (w *world) checkPuncture() {
	for again := range 3 {
		c, err := w.s.Content(idOf(1))
		if err != nil {
			w.fatal("what is left of the key: %v", err)
			return
		}
		if c.Has(7) && (w.taken || again > 0) {
			w.fatal("Puncture had returned %v, and the key has event 7", w.taken)
		}
		for _, i := range []uint64{0, 6, 8, 255, 256, 511} {
			if got, want := underKey(w.t, c, i), underKey(w.t, w.stored.Content(), i); got != want {
				w.fatal("the key of event %d is %v, want %v", i, got, want)
			}
		}
		switch again {
		case 0:
			if err := w.s.Puncture(idOf(1), 300, 7); err != nil {
				w.fatal("Puncture again: %v", err)
			}
		case 1:
			w.d.cutPower(never)
			w.s = mustOpen(w.t, w.d)
		}
	}
	chunk := seal.Key(crypt.Derive(w.stored, "nexus.key.v1 chunk\x00\x00\x00\x00\x00\x00\x00\x00"))
	gone := map[seal.Key]bool{w.stored: true, chunk: true, crypt.Derive(chunk, "nexus.key.v1 event\x07"): true}
	if k, ok := w.d.leaks(gone, false); ok {
		w.fatal("a key that was taken is still on the disk: %x", k[:])
	}
	if err := w.s.Put(idOf(1), w.stored); !errors.Is(err, seal.ErrPunctured) {
		w.fatal("Put of the whole key: %v", err)
	}
	w.checkOthers()
}

// checkOthers: the keys that were there before are there.
func (w *world) checkOthers() {
	for id, k := range w.others {
		if got, err := w.s.Key(id); err != nil || got != k {
			w.fatal("another key: %v", err)
		}
	}
}

func (w *world) check(cut bool) {
	w.checkOthers()
	k, err := w.s.Key(idOf(1))
	switch {
	case w.erased && !errors.Is(err, turns.ErrErased):
		w.fatal("Destroy had returned, Key: %v", err)
	case !w.started && w.stored != seal.Key{} && (err != nil || k != w.stored):
		w.fatal("Create had returned, Key: %v", err)
	case err == nil && !w.seen[k]:
		w.fatal("Key is one that nobody made")
	case err != nil && !errors.Is(err, seal.ErrNoKey) && !(w.started && errors.Is(err, turns.ErrErased)):
		w.fatal("Key: %v", err)
	case w.started && errors.Is(err, seal.ErrNoKey):
		w.fatal("the key is gone without a trace")
	}
	if !w.started { // the call is made again, and then power is lost
		again, err2 := w.s.Create(idOf(1), w.r)
		if err2 != nil || err == nil && again != k {
			w.fatal("Create again: %v", err2)
		}
		w.guess()
		w.seen[again] = true
		w.d.cutPower(never)
		for _, side := range sides { // each copy has it by itself
			b, err := w.d.Read(w.s.logName(side))
			if err != nil {
				w.fatal("after Create and a power cut copy %s: %v", side, err)
				continue
			}
			m, err := w.s.epoch.merge(copies{b, b}, [2]string{side, side})
			if err != nil || m.keys.byID[idOf(1)] != again {
				w.fatal("after Create and a power cut copy %s has no key: %v", side, err)
			}
		}
		w.s = mustOpen(w.t, w.d)
		if got, err := w.s.Key(idOf(1)); err != nil || got != again {
			w.fatal("after Create and a power cut: %v", err)
		}
		w.checkOthers()
		cut = true
	}
	if err := w.s.Destroy(idOf(1)); err != nil {
		w.fatal("Destroy again: %v", err)
	}
	if k, ok := w.d.leaks(w.seen, !cut); ok {
		w.fatal("a destroyed key is still on the disk: %x", k[:])
	}
	w.d.cutPower(never)
	w.s = mustOpen(w.t, w.d)
	if _, err := w.s.Key(idOf(1)); !errors.Is(err, turns.ErrErased) {
		w.fatal("after Destroy and a power cut: %v", err)
	}
	if k, ok := w.d.leaks(w.seen, false); ok {
		w.fatal("a destroyed key is back: %x", k[:])
	}
	w.checkOthers()
}

// TestTwoWritesUnderWayLeaveNoGap: the write of a second group in a is done, or fails, while that
// of the first one in b is under way, fails, or is cut off.
func TestTwoWritesUnderWayLeaveNoGap(t *testing.T) {
	for how := range faults {
		for _, dying := range []bool{false, true} {
			for _, inA := range []bool{false, true} {
				for _, after := range aftermaths() {
					w := &world{t: t, d: newMemDisk(), r: &counter{}, seen: map[seal.Key]bool{}, others: map[turns.ID]seal.Key{}}
					w.label = fmt.Sprintf("mode %d, dying %v, in a %v, %s", how, dying, inA, after.name)
					w.prepare("")
					w.d.ops, w.d.fail, w.d.how, w.d.after = 0, -1, how, dying
					second := newGroup()
					second.ids, second.keys, second.back = []turns.ID{idOf(5)}, []seal.Key{{5}}, []bool{false}
					written := make(chan struct{})
					a, b := w.s.logName(copyA), w.s.logName(copyB)
					writes := 0
					w.d.done = func(name string) {
						if name != a {
							return
						}
						if writes++; writes == 2 {
							close(written)
						}
					}
					var once sync.Once
					w.d.before = func(name string) {
						if name != b {
							return
						}
						once.Do(func() {
							if inA {
								w.d.fail = w.d.ops + 1
							}
							go w.s.write(second)
							<-written
							if !inA {
								w.d.fail = w.d.ops + 1
							}
						})
					}
					w.create()
					<-second.done
					w.d.before = nil
					if writes < 2 || (second.err == nil) {
						t.Fatalf("%s: %d writes in a, the second group: %v", w.label, writes, second.err)
					}
					after.do(w)
					w.d.fail = -1
					w.check(after.cut)
					if k, err := w.s.Key(idOf(5)); (err != nil || k != seal.Key{5}) && !errors.Is(err, seal.ErrNoKey) {
						t.Errorf("%s: the second group's key: %v", w.label, err)
					}
					if t.Failed() {
						return
					}
				}
			}
		}
	}
}
