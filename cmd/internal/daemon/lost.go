package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/wholefile"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/mark"
	"nexus/turns"
)

// A daemon on a server of others whose log came back without records that it had appends no
// more, applies no more, answers reads from its projections, and names what is lost: in its log, in
// the file lost.json, in verify and at /readyz. It starts again once an operator has given
// those records up. Decision 87 has the states.

// lostFile names what a log has lost. While it is there, no daemon starts on the folder.
const lostFile = "lost.json"

// lostTime bounds how long a daemon looks for what is lost.
const lostTime = 10 * time.Minute

// lostLines is how many lost records are lines of the daemon's log; the file has all.
const lostLines = 100

// Loss is what a log has lost, as far as a data folder knows.
type Loss struct {
	Ledger  string       `json:"ledger"`
	Time    time.Time    `json:"time"`
	Why     string       `json:"why"`
	Records []LostRecord `json:"records"` // by position
	// Unread counts positions that could not be compared with the log.
	Unread uint64 `json:"unread,omitzero"`
}

// LostRecord is a record that a log had.
type LostRecord struct {
	Seq     uint64     `json:"seq,string"`
	Hash    turns.Hash `json:"hash,omitzero"`
	Tenant  string     `json:"tenant,omitempty"`
	Chain   string     `json:"chain,omitempty"`
	Session turns.ID   `json:"session,omitzero"`
	Event   turns.ID   `json:"event,omitzero"`
	Kind    string     `json:"kind,omitempty"`
	// Replaced says that the log has another record at the position.
	Replaced bool `json:"replaced,omitzero"`
}

// String names r for an operator. It holds no content.
func (r LostRecord) String() string {
	what := "event " + r.Event.String() + " of " + r.Chain
	if r.Chain == "" {
		what = "a record that another daemon has"
	}
	if r.Replaced {
		return fmt.Sprintf("position %d: %s is lost, another record has its position", r.Seq, what)
	}
	return fmt.Sprintf("position %d: %s is lost", r.Seq, what)
}

// LossError is why nothing is appended: the log has lost records. Unwrap gives
// [ledger.ErrCorrupt].
type LossError struct{ Loss *Loss }

func (e *LossError) Error() string {
	text := fmt.Sprintf("the log came back without records that it had (%s)", e.Loss.Why)
	if n := len(e.Loss.Records); n > 0 {
		text += fmt.Sprintf("; %d lost, the first: %v", n, e.Loss.Records[0])
	}
	return text
}

// Unwrap gives ErrCorrupt.
func (e *LossError) Unwrap() error { return ledger.ErrCorrupt }

// problems are what verify says of a loss.
func (l *Loss) problems() (out []reader.Problem) {
	for _, r := range l.Records {
		out = append(out, reader.Problem{Tenant: r.Tenant, Problem: api.Problem{Code: api.Corrupt, Session: r.Session, Event: r.Event, Seq: r.Seq, Message: r.String()}})
	}
	if len(out) == 0 {
		out = append(out, reader.Problem{Problem: api.Problem{Code: api.Corrupt, Message: (&LossError{l}).Error()}})
	}
	return out
}

// cameBackShorter halts the daemon, or ends its start. It is called once.
func (d *Daemon) cameBackShorter(why *jetstream.ShorterError) {
	defer close(d.lossKnown)
	loss := &Loss{Ledger: d.log.Ledger(), Time: time.Now().UTC(), Why: why.Why}
	d.outage.halt(&LossError{loss})
	ctx, cancel := context.WithTimeout(context.Background(), lostTime)
	defer cancel()
	loss = d.findLost(ctx, loss, why.Place)
	d.outage.halt(&LossError{loss})
	for _, r := range loss.Records {
		if r.Hash != (turns.Hash{}) {
			d.peers.tellLost(mark.Place{Seq: r.Seq, Sum: r.Hash})
			break
		}
	}
	for i, r := range loss.Records {
		if i == lostLines {
			d.logger.Error("and more, which the file names", "more", len(loss.Records)-i)
			break
		}
		d.logger.Error("lost", "position", r.Seq, "event", r.Event, "of", r.Chain, "tenant", r.Tenant, "hash", r.Hash, "replaced", r.Replaced)
	}
	file := filepath.Join(d.cfg.Data, lostFile)
	d.logger.Error("the log came back without records that it had: appends are refused for good, reads go on from the projections", "why", why.Why, "lost", len(loss.Records), "file", file,
		"do", "ledgerctl export the sessions that lost turns, then stop all daemons of this ledger and run nexusd repair --nats URL --data DIR")
	b, err := turns.EncodeJSON(loss)
	if err == nil {
		err = wholefile.Write(file, 0o600, wholefile.Bytes(append(b, '\n')))
	}
	if err != nil {
		d.logger.Error("what is lost could not be written to its file", "err", err)
	}
	if !d.watched.Load() {
		d.fail(withLossRemedy(&LossError{loss}))
	}
}

// findLost compares what this process knows with the log, from the position of a record that is
// lost: down to one that the log has, and up to the newest.
func (d *Daemon) findLost(ctx context.Context, loss *Loss, at mark.Place) *Loss {
	out := *loss
	out.Records = nil
	look := func(seq uint64) (has, known bool) {
		r, ok := d.log.Held(seq)
		if !ok && d.store != nil {
			stored, err := d.store.Record(seq)
			if r, ok = stored, err == nil; ok {
				r.Hash = turns.HashEvent(r.Payload)
			}
		}
		if !ok && seq == at.Seq && at.Sum != (turns.Hash{}) {
			r, ok = ledger.Record{Seq: seq, Hash: at.Sum}, true
		}
		if !ok {
			return false, false
		}
		place, err := d.log.Find(ctx, seq)
		if err != nil {
			out.Unread++
			return false, true
		}
		if place.Sum == r.Hash {
			return true, true
		}
		lost := describeLost(r)
		lost.Replaced = place.Seq != 0
		out.Records = append(out.Records, lost)
		return false, true
	}
	reached := d.log.End()
	if d.store != nil {
		reached = max(reached, d.store.Applied().Seq)
	}
	from := at.Seq
	if from > reached { // another daemon names it, and nothing else is known up there
		look(from)
		from = reached
	}
	for seq := from; seq > 0; seq-- {
		if ctx.Err() != nil {
			out.Unread += seq
			break
		}
		if has, _ := look(seq); has {
			break
		}
	}
	for seq := from + 1; seq <= reached && seq != at.Seq; seq++ {
		if ctx.Err() != nil {
			out.Unread += reached - seq + 1
			break
		}
		look(seq)
	}
	out.sort()
	return &out
}

func (l *Loss) sort() {
	slices.SortFunc(l.Records, func(a, b LostRecord) int { return cmp.Compare(a.Seq, b.Seq) })
}

// describeLost names a record. What can't be read of it is left out.
func describeLost(r ledger.Record) LostRecord {
	out := LostRecord{Seq: r.Seq, Hash: r.Hash}
	if tenant, chain, err := ledger.ParseSubject(r.Subject); err == nil {
		out.Tenant, out.Chain = tenant, chain.String()
		out.Session, _ = chain.Session()
	}
	if ev, err := turns.Decode(r.Payload); err == nil {
		out.Event, out.Kind = ev.ID, ev.Kind.String()
	}
	return out
}

// refuseLoss is why a daemon can't start on a folder that names a loss; nil if it names none.
func refuseLoss(data string) error {
	loss, err := loadLoss(data)
	if err != nil || loss == nil {
		return err
	}
	return withLossRemedy(&LossError{loss})
}

func withLossRemedy(err error) error {
	return fmt.Errorf("%w; %s in the data folder names all; run nexusd repair --nats URL --data DIR, which compares every record and, with --accept-loss, gives up those that are lost", err, lostFile)
}

// loadLoss reads the file of a loss; nil if there is none.
func loadLoss(data string) (*Loss, error) {
	file := filepath.Join(data, lostFile)
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var loss Loss
	if err == nil {
		err = turns.DecodeJSON(b, &loss)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &loss, nil
}

// acceptedLosses returns the records that an operator gave up on a data folder, as [CompareLog] set them
// aside: another daemon that misses them still says nothing new.
func acceptedLosses(data string) (map[mark.Place]bool, error) {
	files, err := filepath.Glob(filepath.Join(data, lostAside+"*", lostFile))
	if err != nil {
		return nil, err
	}
	out := make(map[mark.Place]bool)
	for _, f := range files {
		loss, err := loadLoss(filepath.Dir(f))
		if err != nil {
			return nil, err
		}
		if loss != nil {
			for _, r := range loss.Records {
				out[mark.Place{Seq: r.Seq, Sum: r.Hash}] = true
			}
		}
	}
	return out, nil
}
