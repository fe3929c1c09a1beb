package folder

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"nexus/cmd/internal/wholefile"
	"nexus/ledger/jetstream/embed"
	"nexus/ledger/jetstream/mark"
	"nexus/turns"
)

// Identity is the ledger that a data folder belongs to. The daemon writes it before
// it creates the stream, and marks it ready afterwards: a folder that is ready
// without its stream has lost the stream, and the daemon creates no other.
type Identity struct {
	Ledger string `json:"ledger"` // UUID
	Ready  bool   `json:"ready"`
	// Marked says that the folder has a mark of what was acknowledged. Folders of
	// earlier versions have none, and get one at their first start.
	Marked bool `json:"marked,omitzero"`
	// Server is the version of the nats-server that wrote the files of the streams.
	Server string `json:"server,omitzero"`
	// Began says how often the log of hashes began anew, since a repair gave up what nobody has the
	// hash of; see tlog.Origin.
	Began int `json:"began,omitzero"`
	// Restored says which backup the ledger was restored from.
	Restored *Restored `json:"restored,omitempty"`
}

// Restored is the backup that a ledger was restored from. Its positions are those of the
// ledger that was backed up through Seq.
type Restored struct {
	Digest turns.Hash `json:"digest"`
	Seq    uint64     `json:"seq,string"`
	Time   time.Time  `json:"time"`
}

const IdentityFile = "ledger.json"

func LoadIdentity(dir string) (Identity, error) {
	var id Identity
	b, err := os.ReadFile(filepath.Join(dir, IdentityFile))
	if errors.Is(err, fs.ErrNotExist) {
		id.Ledger = uuid.NewString()
		return id, SaveIdentity(dir, id)
	}
	if err != nil {
		return id, err
	}
	if err := turns.DecodeJSON(b, &id); err != nil {
		return id, fmt.Errorf("%s: %w", filepath.Join(dir, IdentityFile), err)
	}
	if _, err := uuid.Parse(id.Ledger); err != nil {
		return id, fmt.Errorf("%s: ledger: %w", filepath.Join(dir, IdentityFile), err)
	}
	return id, nil
}

// WrittenBy is the version of the nats-server that wrote the files of the streams; "": none did
// yet, or nobody noted it.
func WrittenBy(id Identity, m mark.Mark) string { return cmp.Or(m.Server, id.Server) }

// CheckServer refuses files of the streams that another version of nats-server wrote, and did
// not close: whoever reads them knows the rules of one version. The files of a clean stop are
// left to the server that is linked, which reads those of the versions before it.
// handOver reports that this is such a start.
//
// Errors: [turns.ErrUnsupported].
func CheckServer(id Identity, m mark.Mark) (handOver bool, err error) {
	wrote := WrittenBy(id, m)
	if !id.Ready || wrote == "" || wrote == embed.ServerVersion {
		return false, nil
	}
	if m.Closed == nil {
		return false, fmt.Errorf("%w: the streams were written by nats-server %s and were not closed by a clean stop; this nexusd has %s. "+
			"Start the nexusd that wrote them once, and stop it; then start this one", turns.ErrUnsupported, wrote, embed.ServerVersion)
	}
	return true, nil
}

// SaveIdentity replaces the file in one step, durably.
func SaveIdentity(dir string, id Identity) error {
	b, err := turns.EncodeJSON(id)
	if err != nil {
		return err
	}
	return wholefile.Write(filepath.Join(dir, IdentityFile), 0o600, wholefile.Bytes(append(b, '\n')))
}
