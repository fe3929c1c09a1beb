package cost

import (
	"cmp"
	"math"
	"time"

	"github.com/go-json-experiment/json"

	"nexus/ledger/api"
	"nexus/turns"
)

// Call is one model call, as a turn of the ledger has it.
type Call struct {
	Session turns.ID
	Turn    turns.ID
	Depth   uint64
	Time    time.Time // when it was said; else when it was stored
	Agent   string
	Source  string // the program whose transcript it is from, such as claude-code; "": none
	Project string // the working folder; "": not stated
	Model   string
	Message string       // the provider's id of the response; "": not stated
	Usage   *turns.Usage // nil: not stated
	Details turns.UsageDetails
	// Recorded is the cost that the source has, in picodollars, if HasRecorded is set.
	Recorded    uint64
	HasRecorded bool
}

// synthetic is the model of responses that Claude Code wrote itself.
const synthetic = "<synthetic>"

// callOf returns the call of a turn of session s, made in w; ok is false for a turn that
// is no call of a model.
func callOf(s *api.Session, t *api.Turn, w turns.WorkContext) (c Call, ok bool) {
	c = Call{
		Session: t.Session, Turn: t.ID, Depth: t.Depth, Time: time.Time(t.Recorded), Agent: s.Agent, Source: w.Source, Project: w.Cwd,
		Model: cmp.Or(t.Model, s.Model), Usage: t.Usage, Details: turns.UsageDetailsOf(t.Meta), Message: messageID(t.Meta),
	}
	if t.Time != nil {
		c.Time = time.Time(*t.Time)
	}
	if k := t.Compaction; k != nil {
		c.Model, c.Usage = cmp.Or(k.Model, c.Model), k.Usage
		c.Recorded, c.HasRecorded = times(k.CostMicros, picosInMicro), k.CostMicros > 0
		return c, k.Usage != nil || k.CostMicros > 0
	}
	if dollars, ok := turns.CostOf(t.Meta); ok {
		c.Recorded, c.HasRecorded = picosOf(dollars), true
	}
	return c, !t.Pending && c.Model != synthetic
}

// messageID returns the provider's id of a response, as the importer of Claude Code
// writes it into meta.
func messageID(meta turns.Raw) string {
	var m struct {
		Message turns.Raw `json:"message_id"`
	}
	if meta.Kind() != '{' || json.Unmarshal(meta, &m) != nil {
		return ""
	}
	id, _ := m.Message.Text()
	return id
}

const (
	picosInMicro  = 1_000_000
	picosInDollar = 1_000_000 * picosInMicro
)

// picosOf returns dollars in picodollars. An amount that does not fit is the largest.
func picosOf(dollars float64) uint64 {
	p := math.Round(dollars * picosInDollar)
	if p >= math.MaxUint64 {
		return math.MaxUint64
	}
	return uint64(p)
}

// times returns a·b, the largest number where that does not fit.
func times(a, b uint64) uint64 {
	if a > math.MaxUint64/b {
		return math.MaxUint64
	}
	return a * b
}

// plus returns a + b, the largest number where that does not fit.
func plus(a, b uint64) uint64 { return a + min(b, math.MaxUint64-a) }
