package written

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/transcript"
)

// writerMeta is the part of a step's meta that names its writer.
type writerMeta struct {
	Session string `json:"session_id"`
	Version string `json:"version"` // if it differs from that of the step before
}

// ExportedSession returns the session of this ledger that export --format claude-code
// wrote the transcript from; zero for any other transcript.
func ExportedSession(ctx context.Context, c *client.Client, meta turns.Raw) (turns.ID, error) {
	var by writerMeta
	if err := json.Unmarshal(meta, &by); err != nil || by.Version != transcript.WriterName {
		return turns.ID{}, nil
	}
	u, err := uuid.Parse(by.Session)
	if err != nil {
		return turns.ID{}, nil
	}
	s, err := c.Session(ctx, turns.ID(u))
	if api.HasCode(err, api.NotFound) {
		return turns.ID{}, nil
	}
	if err != nil {
		return turns.ID{}, err
	}
	return s.ID, nil
}

// IsOwnStep reports whether export wrote a step, not another program.
func IsOwnStep(st transcript.Step) bool {
	var meta turns.Raw
	switch {
	case st.Append != nil:
		meta = st.Append.Meta
	case st.Open != nil:
		meta = st.Open.Meta
	case st.Fork != nil:
		return false // an export is one path
	}
	var by writerMeta
	err := json.Unmarshal(meta, &by)
	return len(meta) == 0 || err == nil && (by.Version == "" || by.Version == transcript.WriterName)
}
