package apply

import (
	"fmt"

	"nexus/ledger"
	"nexus/turns"
)

// Parsed is a record with what can be said of it alone.
type Parsed struct {
	ledger.Record
	Tenant    string
	Event     *turns.Event // a turn's without its body; nil if the payload is no event, or not that of the hash
	known     *expected    // what the writer of the event made of it; nil if another process wrote it, or a run before
	NoSubject error        // the subject is none
	Bad       error        // the record is not what its subject and hash say
}

// Parse decodes a record and checks its hash.
func Parse(r ledger.Record) Parsed {
	return parse(r, func(turns.Hash) *expected { return nil })
}

// parse is Parse; known returns what is known of an event by the hash of its payload, nil if it is
// to be decoded.
func parse(r ledger.Record, known func(turns.Hash) *expected) Parsed {
	p := Parsed{Record: r}
	var chain turns.Chain
	if p.Tenant, chain, p.NoSubject = ledger.ParseSubject(r.Subject); p.NoSubject != nil {
		return p
	}
	if !r.Hashed {
		if got := turns.HashEvent(r.Payload); got != r.Hash {
			p.Bad = fmt.Errorf("%w: record %d has hash %v, stored with it is %v", ledger.ErrCorrupt, r.Seq, got, r.Hash)
			return p
		}
	}
	if p.known = known(r.Hash); p.known != nil {
		p.Event = &p.known.event
	} else {
		p.Event, p.Bad = turns.Decode(r.Payload)
	}
	if p.Bad == nil && p.Event.Chain != chain {
		p.Bad = fmt.Errorf("%w: record %d on subject %s holds an event of chain %s", ledger.ErrCorrupt, r.Seq, r.Subject, p.Event.Chain)
	}
	if p.Event != nil && p.Event.Kind.IsTurn() {
		p.Event.Body = nil // no row of a turn follows from it
	}
	return p
}

// EventHash returns the hash of the record's payload.
func (p Parsed) EventHash() turns.Hash {
	if p.Event != nil { // Parse compared it
		return p.Hash
	}
	return turns.HashEvent(p.Payload)
}
