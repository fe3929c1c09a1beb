package folder

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"nexus/cmd/internal/wholefile"
	"nexus/ledger"
	"nexus/ledger/jetstream/mark"
	"nexus/turns"
)

// LostFile names what a log has lost. While it is there, no daemon starts on the folder.
const LostFile = "lost.json"

// LostAside begins the name of a folder with what was set aside when an operator gave up what is lost.
const LostAside = "lost-"

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

// Sort puts the records in the order of their positions.
func (l *Loss) Sort() {
	slices.SortFunc(l.Records, func(a, b LostRecord) int { return cmp.Compare(a.Seq, b.Seq) })
}

// Save writes the file of the loss into a folder, durably.
func (l *Loss) Save(dir string) error {
	b, err := turns.EncodeJSON(l)
	if err != nil {
		return err
	}
	return wholefile.Write(filepath.Join(dir, LostFile), 0o600, wholefile.Bytes(append(b, '\n')))
}

// DescribeLost names a record. What can't be read of it is left out.
func DescribeLost(r ledger.Record) LostRecord {
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

// RefuseLoss is why a daemon can't start on a folder that names a loss; nil if it names none.
func RefuseLoss(data string) error {
	loss, err := LoadLoss(data)
	if err != nil || loss == nil {
		return err
	}
	return WithLossRemedy(&LossError{loss})
}

// WithLossRemedy adds to err what an operator can do.
func WithLossRemedy(err error) error {
	return fmt.Errorf("%w; %s in the data folder names all; run nexusd repair --nats URL --data DIR, which compares every record and, with --accept-loss, gives up those that are lost", err, LostFile)
}

// LoadLoss reads the file of a loss; nil if there is none.
func LoadLoss(data string) (*Loss, error) {
	file := filepath.Join(data, LostFile)
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

// AcceptedLosses returns the records that an operator gave up on a data folder, as the repair set them
// aside: another daemon that misses them still says nothing new.
func AcceptedLosses(data string) (map[mark.Place]bool, error) {
	files, err := filepath.Glob(filepath.Join(data, LostAside+"*", LostFile))
	if err != nil {
		return nil, err
	}
	out := make(map[mark.Place]bool)
	for _, f := range files {
		loss, err := LoadLoss(filepath.Dir(f))
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
