package daemon

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"nexus/cmd/internal/checkpoint"
	"nexus/cmd/internal/daemon/folder"
	"nexus/cmd/internal/daemon/mend"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/blocks"
	"nexus/ledger/tlog"
	"nexus/projections/rows"
	"nexus/turns"
	"nexus/turns/seal"
	"nexus/turns/seal/keyring"
)

// session edits the log at a session that nothing names; at are the places of its turns.
func session(how signing, edit func(f *forger, all []blocks.Record, id turns.ID, at []int) []blocks.Record) func(*forger) {
	return func(f *forger) {
		f.log(how, func(all []blocks.Record) []blocks.Record {
			id := pick(f, f.w.plain)
			return edit(f, all, id, f.turnsOf(all, id))
		})
	}
}

func drop(all []blocks.Record, at ...int) (out []blocks.Record) {
	for i, r := range all {
		if !slices.Contains(at, i) {
			out = append(out, r)
		}
	}
	return out
}

func resealLast(f *forger, all []blocks.Record, id turns.ID, at []int) []blocks.Record {
	f.rewrite(all, id, at[len(at)-1])
	return all
}

func rewriteSession(f *forger, all []blocks.Record, id turns.ID, at []int) []blocks.Record {
	f.rewrite(all, id, at[f.rng.IntN(len(at)-1)])
	return all
}

func dropSession(f *forger, all []blocks.Record, id turns.ID, _ []int) []blocks.Record {
	return drop(all, f.of(all, id)...)
}

func dropLast(_ *forger, all []blocks.Record, _ turns.ID, at []int) []blocks.Record {
	return drop(all, at[len(at)-1])
}

// addTurn puts a forged turn on top of a session, behind its newest one.
func addTurn(f *forger, all []blocks.Record, _ turns.ID, at []int) []blocks.Record {
	last := at[len(at)-1]
	r := all[last]
	old := f.event(r)
	e := *old
	e.ID, e.Index, e.Prev = api.NewID(), old.Index+1, turns.HashEvent(r.Payload)
	e.Parent, e.Depth = old.Ref(), old.Depth+1
	f.reseal(&r, &e, old, true)
	return slices.Insert(all, last+1, r)
}

// addSession puts a copy of a session, with other ids, in between.
func addSession(f *forger, all []blocks.Record, id turns.ID, _ []int) []blocks.Record {
	session := api.NewID()
	store := must[*keyring.Store](f.T)(keyring.Open(filepath.Join(f.dir, "keys")))
	k := must[seal.Key](f.T)(store.Create(session, rand.Reader))
	if err := errors.Join(f.w.keys.Put(session, k), store.Close()); err != nil {
		f.Fatal(err)
	}
	ids := map[turns.ID]turns.ID{id: session}
	other := func(id turns.ID) turns.ID {
		if _, ok := ids[id]; !ok && !id.IsZero() {
			ids[id] = api.NewID()
		}
		return ids[id]
	}
	var forged []blocks.Record
	prev, end := turns.Hash{}, 0
	for _, i := range f.of(all, id) {
		r, old := all[i], f.event(all[i])
		e := *old
		e.Chain, e.Keys, e.Prev = turns.SessionChain(session), []turns.ID{session}, prev
		if old.Kind != turns.KindOpened { // its id is of the request, and is not checked
			e.ID = other(old.ID)
		} else {
			o := *old.Origin
			o.Session = session
			e.Origin, e.ID = &o, session
		}
		if !old.Parent.IsZero() {
			e.Parent = turns.Ref{Session: session, Turn: other(old.Parent.Turn)}
		}
		e.Root, e.Segment = other(old.Root), other(old.Segment)
		r.Subject = ledger.SessionSubject("default", session, session)
		f.reseal(&r, &e, old, false)
		prev, end = turns.HashEvent(r.Payload), i
		forged = append(forged, r)
	}
	return slices.Insert(all, f.rng.IntN(end), forged...)
}

// cut cuts the log behind the checkpoint that is kept elsewhere.
func cut(f *forger, all []blocks.Record) []blocks.Record {
	return all[:int(f.w.size)-1-f.rng.IntN(5)]
}

// otherLeaf is any leaf but that of the record.
func otherLeaf(uint64, []byte) turns.Hash { return turns.Hash{7} }

func noLeaf(uint64, []byte) turns.Hash { return turns.Hash{} }

var anybody, unseen = [3]bool{true, true, true}, [3]bool{}

// elsewhere is found by whoever kept a checkpoint, and by nobody else; inside by verify, and not by a client.
var elsewhere, inside = [3]bool{false, true, true}, [3]bool{true, true, false}

// The records, unless a kind says otherwise, lie below the checkpoint that is kept elsewhere.
var tamperKinds = []tamperKind{
	// A record is edited. The rest of the folder is made to fit, and signed again with its key, unless the kind says otherwise.
	{"a bit of the log flipped", anybody, func(f *forger) {
		change(f.T, largest(f.T, f.dir, jetstream.StreamName), func(b []byte) []byte { b[f.rng.IntN(len(b))] ^= 1 << f.rng.IntN(8); return b })
	}},
	{"a byte of a body changed, the hash beside it made to fit", anybody, session(resign, func(f *forger, all []blocks.Record, _ turns.ID, at []int) []blocks.Record {
		i := pick(f, at)
		all[i].Payload[len(all[i].Payload)-1-f.rng.IntN(20)] ^= 1 << f.rng.IntN(8)
		all[i].Header = jetstream.LogHeader(all[i].Payload)
		return all
	})},
	{"a header changed (when it was recorded), the newest of its session, the hash beside it made to fit", anybody, session(resign, func(f *forger, all []blocks.Record, _ turns.ID, at []int) []blocks.Record {
		i := at[len(at)-1]
		e := f.event(all[i])
		e.Recorded += 1 + f.rng.Int64N(1000)
		f.replace(&all[i], e)
		return all
	})},
	{"the hash beside a record changed", anybody, session(resign, func(f *forger, all []blocks.Record, _ turns.ID, at []int) []blocks.Record {
		all[pick(f, at)].Header = jetstream.LogHeader([]byte("another"))
		return all
	})},
	{"the time at which the server stored a record changed", unseen, session(resign, func(f *forger, all []blocks.Record, _ turns.ID, at []int) []blocks.Record {
		i := pick(f, at)
		all[i].Stored = all[i].Stored.Add(-1)
		return all
	})},
	{"a middle turn sealed again with another text", anybody, session(resign, func(f *forger, all []blocks.Record, _ turns.ID, at []int) []blocks.Record {
		i := at[f.rng.IntN(len(at)-1)]
		old := f.event(all[i])
		e := *old
		f.reseal(&all[i], &e, old, true)
		return all
	})},
	{"the newest turn of a session sealed again with another text", elsewhere, session(resign, resealLast)},
	{"the same, key and note removed", elsewhere, session(withdraw, resealLast)},
	{"the same, key and note left", anybody, session(leave, resealLast)},
	{"a session written anew from a turn on, each hash made to fit", elsewhere, session(resign, rewriteSession)},
	{"the same, key and note removed", elsewhere, session(withdraw, rewriteSession)},
	{"the same, key and note left", anybody, session(leave, rewriteSession)},
	{"the same, as a log that began anew after a repair", elsewhere, session(begin, rewriteSession)},
	{"who wrote the newest turn of a session changed, sealed again", elsewhere, session(resign, func(f *forger, all []blocks.Record, _ turns.ID, at []int) []blocks.Record {
		i := at[len(at)-1]
		old := f.event(all[i])
		e := *old
		e.Sender = "U" + strings.Repeat("A", 55)
		f.reseal(&all[i], &e, old, false)
		return all
	})},
	// Records are removed, moved, put in between.
	{"a middle turn deleted", anybody, session(resign, func(f *forger, all []blocks.Record, _ turns.ID, at []int) []blocks.Record {
		return drop(all, at[f.rng.IntN(len(at)-1)])
	})},
	{"the newest turn of a session deleted", elsewhere, session(resign, dropLast)},
	{"the same, key and note left", anybody, session(leave, dropLast)},
	{"a session dropped that nothing names", elsewhere, session(resign, dropSession)},
	{"the same, key and note removed", elsewhere, session(withdraw, dropSession)},
	{"the same, key and note left", anybody, session(leave, dropSession)},
	{"the same, as a log that began anew after a repair", elsewhere, session(begin, dropSession)},
	{"a session dropped that a fork names", anybody, func(f *forger) {
		f.log(resign, func(all []blocks.Record) []blocks.Record { return drop(all, f.of(all, f.w.parent)...) })
	}},
	{"two turns of a session exchanged", anybody, session(resign, func(f *forger, all []blocks.Record, _ turns.ID, at []int) []blocks.Record {
		i := f.rng.IntN(len(at) - 1)
		all[at[i]], all[at[i+1]] = all[at[i+1]], all[at[i]]
		return all
	})},
	{"neighbours of two sessions exchanged", elsewhere, func(f *forger) {
		f.log(resign, func(all []blocks.Record) []blocks.Record {
			var at []int // the last of one session, and the first of the next
			for i := range f.w.size - 1 {
				if f.event(all[i]).Chain != f.event(all[i+1]).Chain && f.event(all[i+1]).Index == 0 && f.event(all[i+1]).ForkOf == nil {
					at = append(at, int(i))
				}
			}
			i := pick(f, at)
			all[i], all[i+1] = all[i+1], all[i]
			return all
		})
	}},
	{"a turn put in between a second time", anybody, session(resign, func(f *forger, all []blocks.Record, _ turns.ID, at []int) []blocks.Record {
		i := pick(f, at)
		return slices.Insert(all, i+1, all[i])
	})},
	{"a turn of one session in the place of another's", anybody, session(resign, func(f *forger, all []blocks.Record, id turns.ID, at []int) []blocks.Record {
		other := f.turnsOf(all, f.w.parent)
		i, from := pick(f, at), pick(f, other)
		all[i].Payload, all[i].Header = all[from].Payload, all[from].Header
		return all
	})},
	{"a forged turn on top of a session, in the middle of the log", elsewhere, session(resign, addTurn)},
	{"the same, key and note left", anybody, session(leave, addTurn)},
	{"a forged session put in between", elsewhere, session(resign, addSession)},
	{"a session moved to another tenant, each hash as it is", inside, session(resign, func(f *forger, all []blocks.Record, id turns.ID, _ []int) []blocks.Record {
		for _, i := range f.of(all, id) {
			all[i].Subject = ledger.SessionSubject("another", id, id)
		}
		return all
	})},
	{"the same of a session that was imported", unseen, func(f *forger) {
		f.log(resign, func(all []blocks.Record) []blocks.Record {
			for _, i := range f.of(all, f.w.imported) {
				all[i].Subject = ledger.SessionSubject("another", f.w.imported, f.w.imported)
			}
			return all
		})
	}},
	{"a turn replaced by one that says it is lost, with its leaf", inside, func(f *forger) { f.log(leave, f.lost(tlog.Leaf)) }},
	{"the same with another leaf", anybody, func(f *forger) { f.log(resign, f.lost(otherLeaf)) }},
	{"the same without a leaf", anybody, func(f *forger) { f.log(resign, f.lost(noLeaf)) }},
	// The end is cut, or all of it is of yesterday.
	{"the tail cut", anybody, func(f *forger) {
		all := f.records(jetstream.StreamName)
		m := must[[]byte](f.T)(os.ReadFile(filepath.Join(f.dir, folder.MarkFile)))
		f.write(jetstream.StreamName, cut(f, all))
		if err := os.WriteFile(filepath.Join(f.dir, folder.MarkFile), m, 0o600); err != nil {
			f.Fatal(err)
		}
	}},
	{"the tail cut, the mark removed, then `nexusd repair`", anybody, func(f *forger) {
		f.write(jetstream.StreamName, cut(f, f.records(jetstream.StreamName)))
		if _, err := mend.Repair(f.Context(), mend.RepairConfig{Data: f.dir}); err != nil {
			f.Fatal(err)
		}
	}},
	{"the same, key and note removed", elsewhere, func(f *forger) {
		f.log(withdraw, func(all []blocks.Record) []blocks.Record { return cut(f, all) })
	}},
	{"the same, signed again", elsewhere, func(f *forger) {
		f.log(resign, func(all []blocks.Record) []blocks.Record { return cut(f, all) })
	}},
	{"the same, and other turns in its place", elsewhere, func(f *forger) {
		f.log(resign, func(all []blocks.Record) []blocks.Record { return cut(f, all) })
		f.goOn(10)
	}},
	{"yesterday's folder, key and note included", elsewhere, func(f *forger) { f.back() }},
	{"yesterday's folder, and a forged continuation with its keys, shorter than today's", elsewhere, func(f *forger) { f.back(); f.goOn(2) }},
	{"the same, longer than today's", elsewhere, func(f *forger) { f.back(); f.goOn(25) }},
	{"yesterday's folder, key and note removed", elsewhere, func(f *forger) { f.back(); f.sign(withdraw) }},
	{"yesterday's folder with today's key and note", anybody, func(f *forger) {
		f.back()
		f.copyFrom(f.w.today, checkpoint.KeyFile, checkpoint.NoteFile)
	}},
	// What is beside the log.
	{"yesterday's note put back, the log as it is", unseen, func(f *forger) { f.copyFrom(f.w.yesterday, checkpoint.NoteFile) }},
	{"another key in the place of the folder's, the log as it is", [3]bool{false, false, true}, func(f *forger) { f.sign(withdraw) }},
	{"the note of another key", anybody, func(f *forger) {
		k := must[*tlog.Key](f.T)(tlog.NewKey(rand.Reader, must[tlog.Checkpoint](f.T)(tlog.ReadCheckpoint([]byte(f.w.note))).Origin))
		c := must[tlog.Checkpoint](f.T)(tlog.ReadCheckpoint([]byte(f.w.note)))
		if err := os.WriteFile(filepath.Join(f.dir, checkpoint.NoteFile), must[[]byte](f.T)(k.Sign(c)), 0o600); err != nil {
			f.Fatal(err)
		}
	}},
	{"the mark removed", anybody, func(f *forger) { f.remove(folder.MarkFile) }},
	{"another ledger's id", anybody, func(f *forger) {
		id := f.identity()
		id.Ledger = "0f8fad5b-d9cb-469f-a165-70867728950e"
		if err := folder.SaveIdentity(f.dir, id); err != nil {
			f.Fatal(err)
		}
	}},
	{"two attachments exchanged", inside, func(f *forger) {
		f.blobs(func(all []blocks.Record) []blocks.Record {
			i := f.rng.IntN(len(all) - 1)
			all[i].Payload, all[i+1].Payload = all[i+1].Payload, all[i].Payload
			return all
		})
	}},
	{"an attachment changed, the hashes beside it made to fit", inside, func(f *forger) {
		f.blobs(func(all []blocks.Record) []blocks.Record {
			b := pick(f, all).Payload
			b[f.rng.IntN(len(b))] ^= 1 << f.rng.IntN(8)
			return all
		})
	}},
	{"an attachment removed", inside, func(f *forger) {
		f.blobs(func(all []blocks.Record) []blocks.Record { return drop(all, f.rng.IntN(len(all))) })
	}},
	{"the key log of yesterday", anybody, func(f *forger) { f.copyFrom(f.w.yesterday, "keys") }},
	{"the key of a session removed", inside, func(f *forger) {
		gone := pick(f, f.w.plain)
		f.swap(func(id turns.ID, k seal.Key) (seal.Key, bool) { return k, id != gone })
	}},
	{"the key of a session exchanged for another one", inside, func(f *forger) {
		at := pick(f, f.w.plain)
		f.swap(func(id turns.ID, k seal.Key) (seal.Key, bool) {
			if id == at {
				k[0] ^= 1
			}
			return k, true
		})
	}},
	{"a row of a turn in the projections changed", inside, func(f *forger) { f.row(rows.Payloads) }},
	{"a row of the tree in the projections changed", anybody, func(f *forger) { f.row(rows.TreeHashes) }},
	// What is above the checkpoint that is kept elsewhere.
	{"any of this above the newest checkpoint that is kept elsewhere, signed again: the newest turn of a session sealed again", unseen, func(f *forger) {
		f.log(resign, func(all []blocks.Record) []blocks.Record {
			return resealLast(f, all, f.w.late, f.turnsOf(all, f.w.late))
		})
	}},
	{"the same: a session dropped", unseen, func(f *forger) {
		f.log(resign, func(all []blocks.Record) []blocks.Record { return drop(all, f.of(all, f.w.late)...) })
	}},
	{"the same: the tail cut", unseen, func(f *forger) {
		f.log(resign, func(all []blocks.Record) []blocks.Record {
			return all[:int(f.w.size)+f.rng.IntN(len(all)-int(f.w.size))]
		})
	}},
}
