package cost

import (
	"cmp"
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"nexus/ledger/api"
	"nexus/turns"
)

// Kind is what a model was asked for.
type Kind string

// The kinds.
const (
	Answer     Kind = "answer"     // the response of a turn
	Compaction Kind = "compaction" // the summary of one
	Flush      Kind = "flush"      // memory flushes before compactions, by the agent's own model
	Extraction Kind = "extraction" // the memories of a session that was reset
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Answer, Compaction, Flush, Extraction} }

// Call is a model call, as a turn or another record of the ledger has it.
type Call struct {
	Kind    Kind
	Session turns.ID
	Turn    turns.ID // zero: of a flush or an extraction
	Depth   uint64
	Time    time.Time       // when it was said; else when it was stored
	Bound   turns.TimeBound // of Time, where the source does not state it
	Agent   string
	Source  string // the program whose transcript it is from, such as claude-code; "": none
	Project string // the repository, or what a person says; "": not known
	Folder  string // the working folder; "": not stated
	Branch  string // of git; "": not stated
	Model   string
	Asked   string       // the model that the client asked for, where another one answered; "": the same
	Message string       // the provider's id of the response; "": not stated
	Direct  string       // the id that /v1 gave the response; "": it did not come through /v1
	Usage   *turns.Usage // nil: not stated
	Details turns.UsageDetails
	// Recorded is the cost that the source has, in picodollars, if HasRecorded is set.
	Recorded    uint64
	HasRecorded bool
	// Flushes is how many flushes the call stands for: the ledger has the sum of their usage.
	Flushes uint64
	// Missing counts the answers that were asked for through /v1 and did not arrive.
	Missing uint64
	// Uncounted counts calls whose tokens an import could give to no turn; the call is nothing
	// else then.
	Uncounted uint64
	// Step is set where the call is a further step of a response, which is counted as the
	// call of that response.
	Step bool
	// Unanswered is set where the call is such an answer itself, and nothing else.
	Unanswered bool
	// Added is set where a person or another program appended the answer to the history of a
	// program, without a model and tokens. It is no call of that program.
	Added bool
}

// callOf returns the call of a turn of session s, made in w; ok is false for a turn that
// is no call of a model.
func callOf(s *api.Session, t *api.Turn, w turns.WorkContext) (c Call, ok bool) {
	c = Call{
		Kind: Answer, Session: t.Session, Turn: t.ID, Depth: t.Depth, Time: time.Time(t.Recorded), Agent: s.Agent, Source: w.Source, Project: cmp.Or(s.Project, w.Cwd), Folder: w.Cwd, Branch: w.Branch,
		Model: cmp.Or(t.Model, s.Model), Usage: counted(t.Usage), Details: turns.UsageDetailsOf(t.Meta), Message: messageID(t.Meta),
	}
	if t.Time != nil {
		c.Time, c.Bound = time.Time(*t.Time), turns.TimeBoundOf(t.Meta)
	}
	if k := t.Compaction; k != nil {
		c.Kind, c.Message, c.Model, c.Usage = Compaction, "", k.Model, counted(k.Usage)
		if k.Model == "" && (k.Tier == agentTier || k.Provenance == turns.Imported.String()) {
			c.Model = s.Model // the agent's own model wrote it
		}
		c.Recorded, c.HasRecorded = times(k.CostMicros, picosInMicro), k.CostMicros > 0
		asked := k.Model != "" || k.Tier == agentTier
		return c, c.Usage != nil || k.CostMicros > 0 || asked && k.Provenance != turns.Imported.String()
	}
	if dollars, ok := turns.CostOf(t.Meta); ok && (dollars > 0 || c.Usage != nil) {
		c.Recorded, c.HasRecorded = picosOf(dollars), true
	}
	r := requestOf(t.Meta)
	if c.Missing = r.Lost; r.Status != "" {
		c.Direct, c.Asked = r.ID, r.requested
	}
	c.Added = c.Usage == nil && !c.HasRecorded && t.Model == "" && t.Time == nil && w.Source != "" && turns.WorkContextOf(t.Meta).Source == "" && r == request{} && c.Message == ""
	return c, !t.Pending && c.Model != turns.Synthetic
}

// counted returns the usage of an answer, nil where it has no token. No answer uses none:
// programs write zeros for a call that failed or was aborted, whose tokens they don't know.
func counted(u *turns.Usage) *turns.Usage {
	if u == nil || *u == (turns.Usage{}) {
		return nil
	}
	return u
}

// furtherCalls returns the calls that the turn of c states besides c: of other models, and
// steps of the provider before the last one. Where the source has the cost of c, that is
// the cost of all.
func furtherCalls(c *Call, meta turns.Raw) (out []Call) {
	for i, x := range turns.ModelCallsOf(meta) {
		f := Call{Kind: c.Kind, Session: c.Session, Turn: c.Turn, Depth: c.Depth, Time: c.Time, Bound: c.Bound, Agent: c.Agent, Source: c.Source, Project: c.Project, Folder: c.Folder, Branch: c.Branch,
			Model: cmp.Or(x.Model, c.Model), Usage: &x.Usage, Details: turns.UsageDetails{CacheHour: x.CacheHour}, HasRecorded: c.HasRecorded}
		if c.Message != "" {
			f.Message = c.Message + "#" + strconv.Itoa(i)
		}
		if x.Model == "" {
			f.Step, f.Details.Tier, f.Details.Geo = x.Kind == "message", c.Details.Tier, c.Details.Geo
		}
		out = append(out, f)
	}
	return out
}

// agentTier is the tier of a summary that the agent submitted.
const agentTier = "agent"

// request is what the door /v1 writes into the meta of the turns of a response.
type request struct {
	Digest string `json:"digest"` // in the turn of the request
	Lost   uint64 `json:"lost"`   // in the turn of the answer: how many were lost before it
	Status string `json:"status"` // in the turn of the answer
	ID     string `json:"id"`     // in the turn of the answer: of the response

	requested string // the model that was asked for, where another one answered
}

// requestOf returns what a turn's meta has of a response. A meta belongs to the client and
// may hold anything; then the result is zero.
func requestOf(meta turns.Raw) request {
	var m struct {
		Responses turns.Raw `json:"responses"`
		Requested turns.Raw `json:"requested_model"`
	}
	var r request
	if meta.Kind() != '{' || json.Unmarshal(meta, &m) != nil || m.Responses.Kind() != '{' || json.Unmarshal(m.Responses, &r) != nil || r.Lost > maxLost {
		return request{}
	}
	r.requested, _ = m.Requested.Text()
	return r
}

// maxLost is above what any request is tried.
const maxLost = 1 << 20

// messageID returns the provider's id of a response, as importers and /v1 write it into
// meta: as message_id, or response_id where the source calls it so.
func messageID(meta turns.Raw) string {
	var m struct {
		Message  turns.Raw `json:"message_id"`
		Response turns.Raw `json:"response_id"`
	}
	if meta.Kind() != '{' || json.Unmarshal(meta, &m) != nil {
		return ""
	}
	for _, raw := range []turns.Raw{m.Message, m.Response} {
		if id, ok := raw.Text(); ok && id != "" {
			return id
		}
	}
	return ""
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
