package api

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
)

// Time is RFC 3339 in UTC, to the nanosecond, on the wire.
type Time time.Time

// MarshalText writes RFC 3339 with as many digits as needed.
func (t Time) MarshalText() ([]byte, error) {
	return []byte(time.Time(t).UTC().Format(time.RFC3339Nano)), nil
}

// UnmarshalText reads RFC 3339, with any offset.
func (t *Time) UnmarshalText(b []byte) error {
	v, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil {
		return &turns.FieldError{Reason: "not a time (RFC 3339)", Kind: turns.ErrMalformed}
	}
	*t = Time(v)
	return nil
}

// UnixNano is t in ns since 1970, as events hold a claimed time. ok is false
// for what they can't hold: times before 1678 or after 2261, and the first
// instant of 1970, whose zero stands for no time.
func (t Time) UnixNano() (ns int64, ok bool) {
	ns = time.Time(t).UnixNano()
	return ns, ns != 0 && time.Unix(0, ns).Equal(time.Time(t))
}

// UnixTime is ns since 1970 as a Time.
func UnixTime(ns int64) Time { return Time(time.Unix(0, ns).UTC()) }

// Policy is a policy by name, or by name with overrides.
type Policy struct {
	Name string    `json:"name"`
	Set  turns.Raw `json:"set,omitzero"`
}

// UnmarshalJSONFrom takes a string for the name alone.
func (p *Policy) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() == '"' {
		return json.UnmarshalDecode(d, &p.Name)
	}
	type plain Policy
	return json.UnmarshalDecode(d, (*plain)(p))
}

// System is the system part: a string, or named sections.
type System []turns.Section

// UnmarshalJSONFrom takes a string for one section without a name.
func (s *System) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() == '"' {
		var text string
		if err := json.UnmarshalDecode(d, &text); err != nil {
			return err
		}
		*s = System{{Content: text}}
		return nil
	}
	return json.UnmarshalDecode(d, (*[]turns.Section)(s))
}

// SessionSettings are the settings that create and set share. A nil field is
// left as it is.
type SessionSettings struct {
	Label  *string       `json:"label,omitempty,omitzero"`
	Policy *Policy       `json:"policy,omitempty,omitzero"`
	Model  *string       `json:"model,omitempty,omitzero"`
	System *System       `json:"system,omitempty,omitzero"`
	Tools  *[]turns.Raw  `json:"tools,omitzero"`
	Limits *turns.Limits `json:"limits,omitempty,omitzero"`
	User   *string       `json:"user,omitempty,omitzero"`
	Meta   turns.Raw     `json:"meta,omitzero"`
	Reset  turns.Raw     `json:"reset,omitzero"`
}

// CreateSession is session.create.
type CreateSession struct {
	ID        turns.ID          `json:"id,omitzero"`
	Kind      turns.SessionKind `json:"kind,omitempty,omitzero"`
	SpawnedBy *SpawnedBy        `json:"spawned_by,omitempty,omitzero"`
	SessionSettings
}

// SpawnedBy names the session, and its turn if there is one, that a sub-session serves.
type SpawnedBy struct {
	Session turns.ID `json:"session"`
	Turn    turns.ID `json:"turn,omitzero"`
}

// SetSession is session.set.
type SetSession struct {
	ID turns.ID `json:"id,omitzero"`
	SessionSettings
}

// ForkedFrom names a fork point.
type ForkedFrom struct {
	Session turns.ID   `json:"session"`
	Turn    turns.ID   `json:"turn"`
	Hash    turns.Hash `json:"hash"`
	Mode    string     `json:"mode"`
}

// PolicyInForce is a policy with the digest of its content.
type PolicyInForce struct {
	Name   string     `json:"name"`
	Set    turns.Raw  `json:"set,omitzero"`
	Digest turns.Hash `json:"digest"`
}

// Session is a session as every session call returns it.
type Session struct {
	ID          turns.ID          `json:"id"`
	Label       string            `json:"label,omitempty,omitzero"`
	Agent       string            `json:"agent"`
	Kind        turns.SessionKind `json:"kind"`
	State       string            `json:"state"`
	Head        *turns.ID         `json:"head"`                  // null: no turn yet
	HeadSession turns.ID          `json:"head_session,omitzero"` // where the head is inherited from, if it is
	Depth       uint64            `json:"depth"`                 // turns on the path of the head
	Turns       uint64            `json:"turns"`                 // normal turns of the session's own
	Compactions uint64            `json:"compactions"`           // of the session's own
	Tokens      uint64            `json:"tokens"`                // of the context, without overhead
	Overhead    uint64            `json:"overhead"`              // of system and tools
	Budget      uint64            `json:"budget"`                // what tokens and overhead may take together
	Pressure    float64           `json:"pressure"`              // (tokens + overhead) / budget
	ForkedFrom  *ForkedFrom       `json:"forked_from,omitempty,omitzero"`
	SpawnedBy   *SpawnedBy        `json:"spawned_by,omitempty,omitzero"`
	Policy      PolicyInForce     `json:"policy"`
	Model       string            `json:"model,omitempty,omitzero"`
	Limits      turns.Limits      `json:"limits,omitzero"`
	User        string            `json:"user,omitempty,omitzero"`
	Meta        turns.Raw         `json:"meta,omitzero"`
	Successor   turns.ID          `json:"successor,omitzero"`
	Usage       turns.Usage       `json:"usage_total"`
	Created     Time              `json:"created"`
	Updated     Time              `json:"updated"`
	Hash        turns.Hash        `json:"hash"` // of the chain's last event
	Position    string            `json:"position"`
	Mode        string            `json:"mode,omitempty,omitzero"`  // fork.create only
	Error       Code              `json:"error,omitempty,omitzero"` // lists only: why the session can't be read; then nothing that its content says is here
}

// Page asks for a stretch of a list.
type Page struct {
	After string `json:"after,omitempty,omitzero"`
	Limit int    `json:"limit,omitempty,omitzero"`
}

// SessionList is session.list's reply.
type SessionList struct {
	Sessions []Session `json:"sessions"`
	Next     string    `json:"next,omitempty,omitzero"`
}

// Resolve is session.resolve.
type Resolve struct {
	Label string `json:"label"`
}

// Read is what every read may say about freshness.
type Read struct {
	MinPosition string `json:"min_position,omitempty,omitzero"`
	StaleOK     bool   `json:"stale_ok,omitempty,omitzero"`
}

// MoveSession is session.move. To is a turn of the session's own or inherited
// path, or null for the start.
type MoveSession struct {
	ID     turns.ID  `json:"id,omitzero"`
	To     *turns.ID `json:"to"`
	IfHead turns.ID  `json:"if_head,omitzero"`
	Note   string    `json:"note,omitempty,omitzero"`
}

// CloseSession is session.close.
type CloseSession struct {
	ID    turns.ID `json:"id,omitzero"`
	Cause string   `json:"cause,omitempty,omitzero"`
}

// ResetSession is session.reset.
type ResetSession struct {
	ID    turns.ID `json:"id,omitzero"`
	Cause string   `json:"cause,omitempty,omitzero"`
}

// ContextUsed says what context a call was made with.
type ContextUsed struct {
	Recipe      turns.Raw `json:"recipe,omitzero"`
	Fingerprint string    `json:"fingerprint,omitempty,omitzero"`
}

// AppendTurn is turn.append.
type AppendTurn struct {
	ID       turns.ID        `json:"id,omitzero"`
	Parent   turns.ID        `json:"parent,omitzero"`
	Messages []turns.Message `json:"messages"`
	Response *turns.Message  `json:"response,omitempty,omitzero"`
	Model    string          `json:"model,omitempty,omitzero"`
	Usage    *turns.Usage    `json:"usage,omitempty,omitzero"`
	Time     *Time           `json:"time,omitempty,omitzero"`
	Meta     turns.Raw       `json:"meta,omitzero"`
	Context  *ContextUsed    `json:"context,omitempty,omitzero"`
}

// Gauge is how full the context is.
type Gauge struct {
	Tokens    uint64  `json:"tokens"`
	Budget    uint64  `json:"budget"`
	Pressure  float64 `json:"pressure"`
	Estimated bool    `json:"estimated"`
}

// CompactionState is idle, due, preparing, ready or paused.
type CompactionState struct {
	State string `json:"state"`
}

// FlushState says whether a memory flush is due, and in which cycle. The zero
// value: the session's policy has none.
type FlushState struct {
	Due   bool   `json:"due"`
	Cycle uint64 `json:"cycle"`
}

// Appended is turn.append's reply.
type Appended struct {
	ID         turns.ID        `json:"id"`
	Session    turns.ID        `json:"session"`
	Parent     *turns.ID       `json:"parent"`
	Depth      uint64          `json:"depth"`
	Hash       turns.Hash      `json:"hash"`
	Position   string          `json:"position"`
	Context    Gauge           `json:"context"`
	Compaction CompactionState `json:"compaction"`
	Flush      FlushState      `json:"flush,omitzero"`
	Open       []string        `json:"open_calls,omitempty,omitzero"` // tool calls that wait for their response
	Abandoned  []string        `json:"abandoned_calls,omitempty,omitzero"`
	Late       []string        `json:"late_calls,omitempty,omitzero"`
	CallsCut   bool            `json:"calls_cut,omitempty,omitzero"` // the lists of calls are longer than a reply may be
	Duplicate  bool            `json:"duplicate,omitempty,omitzero"` // the id was stored before; nothing was stored now
}

// GetTurn is turn.get; also compaction.get.
type GetTurn struct {
	ID turns.ID `json:"id"`
	Read
}

// ListTurns is turn.list.
type ListTurns struct {
	At turns.ID `json:"at,omitzero"` // list the path of this turn; default: the head
	Page
	Order string `json:"order,omitempty,omitzero"` // asc (default), desc
	Full  bool   `json:"full,omitempty,omitzero"`  // with messages and responses
	Read
}

// Turn is a turn or compaction; section 4 of the contract. A list without full
// leaves messages and response out.
type Turn struct {
	ID            turns.ID        `json:"id"`
	Session       turns.ID        `json:"session"`
	Parent        *turns.ID       `json:"parent"`
	ParentSession turns.ID        `json:"parent_session,omitzero"` // where it is not the turn's own
	Type          string          `json:"type"`                    // normal, compaction
	Depth         uint64          `json:"depth"`
	Time          *Time           `json:"time,omitempty,omitzero"` // as the client claimed it
	Recorded      Time            `json:"recorded"`
	Model         string          `json:"model,omitempty,omitzero"`
	Messages      []turns.Message `json:"messages,omitempty,omitzero"`
	Response      *turns.Message  `json:"response"`
	Usage         *turns.Usage    `json:"usage,omitempty,omitzero"`
	TokenCount    uint64          `json:"token_count"`
	ToolCalls     uint64          `json:"tool_call_count"`
	Pending       bool            `json:"pending,omitempty,omitzero"`
	OpenCalls     uint64          `json:"open_call_count,omitempty,omitzero"`
	HasChildren   bool            `json:"has_children"`
	Meta          turns.Raw       `json:"meta,omitzero"`
	Context       *ContextUsed    `json:"context,omitempty,omitzero"`
	Hash          turns.Hash      `json:"hash"`
	PrevHash      turns.Hash      `json:"prev_hash"`
	Position      string          `json:"position"`
	Compaction    *Compaction     `json:"compaction"`
	Duplicate     bool            `json:"duplicate,omitempty,omitzero"` // compaction.record: the id was stored before; nothing was stored now
	Error         Code            `json:"error,omitempty,omitzero"`     // turn.list only: why the turn's content can't be read
}

// TurnList is turn.list's and compaction.expand's reply.
type TurnList struct {
	Turns []Turn `json:"turns"`
	Next  string `json:"next,omitempty,omitzero"`
}

// Compaction is the compaction part of a turn.
type Compaction struct {
	Policy        string          `json:"policy"`
	PolicyDigest  turns.Hash      `json:"policy_digest,omitzero"`
	Trigger       turns.Trigger   `json:"trigger"`
	Mode          string          `json:"mode"`
	Tier          string          `json:"tier,omitempty,omitzero"`
	Provenance    string          `json:"provenance"`
	Scope         string          `json:"scope,omitempty,omitzero"` // lineage, or call: until a turn brings text of the user
	Replacement   []turns.Message `json:"replacement"`
	Nudge         []turns.Message `json:"nudge,omitempty,omitzero"` // shown after the newest message that it saw
	Summary       *string         `json:"summary"`
	Through       *turns.ID       `json:"summarized_through"`
	FirstKept     *turns.ID       `json:"first_kept"`
	Split         bool            `json:"split"`
	SawThrough    *turns.ID       `json:"saw_through"`
	Elisions      []Elision       `json:"elisions,omitempty,omitzero"` // the first ones
	Elided        uint64          `json:"elided,omitempty,omitzero"`   // how many there are
	Dropped       bool            `json:"dropped,omitempty,omitzero"`
	Covered       uint64          `json:"covered"`
	TokensBefore  uint64          `json:"tokens_before"`
	TokensAfter   uint64          `json:"tokens_after"`
	Survival      turns.Raw       `json:"survival,omitzero"`
	Memories      turns.Raw       `json:"memories,omitzero"` // [{kind?, text, source?: [{session, turn}]}]
	Usage         *turns.Usage    `json:"usage,omitempty,omitzero"`
	CostMicros    uint64          `json:"cost_micros,omitempty,omitzero"`
	Focus         string          `json:"focus,omitempty,omitzero"`
	FromOriginals bool            `json:"from_originals,omitempty,omitzero"`
	Flush         string          `json:"flush,omitempty,omitzero"` // what became of the flush before it: done, silent, failed, expired, skipped
	DurationMS    uint64          `json:"duration_ms"`
}

// Elision is one part that is shown shortened.
type Elision struct {
	Turn    turns.ID `json:"turn"`
	Half    string   `json:"half"`
	Message uint64   `json:"message"`
	Part    uint64   `json:"part"`
	Method  string   `json:"method"`
	Before  uint64   `json:"chars_before"`
	After   uint64   `json:"chars_after"`
}

// GetContext is context.get.
type GetContext struct {
	At      turns.ID `json:"at,omitzero"`
	Format  string   `json:"format,omitempty,omitzero"` // otel (default), openai, anthropic, gemini
	Policy  *Policy  `json:"policy,omitempty,omitzero"`
	Budget  uint64   `json:"budget,omitempty,omitzero"`
	Query   string   `json:"query,omitempty,omitzero"`
	Explain bool     `json:"explain,omitempty,omitzero"`
	Inline  bool     `json:"inline,omitempty,omitzero"`
	Page
	Read
}

// Source says where a part of a context comes from.
type Source struct {
	Turn    turns.ID `json:"turn,omitzero"`    // none: a compaction that a view shows and nobody stored
	Session turns.ID `json:"session,omitzero"` // where it is not the session asked for
	Half    string   `json:"half"`
	Status  string   `json:"status"`
	Tokens  uint64   `json:"tokens"`
	Why     string   `json:"why,omitempty,omitzero"`
}

// PreamblePart is a section of the system part, or all tools, by its tokens.
type PreamblePart struct {
	Type   string `json:"type"` // system, tools
	Name   string `json:"name,omitempty,omitzero"`
	Tokens uint64 `json:"tokens"`
}

// Context is context.get's reply.
type Context struct {
	Messages    []turns.Raw     `json:"messages"`
	Partial     string          `json:"partial,omitempty,omitzero"`     // a piece of the JSON of a message larger than a page
	PartialEnd  bool            `json:"partial_end,omitempty,omitzero"` // it is the last piece
	System      turns.Raw       `json:"system"`                         // in the format's own form; null where there is none
	Tools       []turns.Raw     `json:"tools,omitzero"`
	Tokens      uint64          `json:"tokens"`
	Budget      uint64          `json:"budget"`
	Overhead    uint64          `json:"overhead"`
	Fingerprint string          `json:"fingerprint"`
	Recipe      turns.Raw       `json:"recipe"`
	Sources     []Source        `json:"sources"`
	Preamble    []PreamblePart  `json:"preamble,omitempty,omitzero"` // with explain: what each part of overhead takes
	Compaction  CompactionState `json:"compaction"`
	Compacted   *turns.ID       `json:"compacted,omitempty,omitzero"` // the compaction that this call committed
	Flush       FlushState      `json:"flush,omitzero"`
	Position    string          `json:"position"`
	Next        string          `json:"next,omitempty,omitzero"`
}

// Overflow is context.overflow.
type Overflow struct {
	ID     turns.ID `json:"id,omitzero"`
	Error  string   `json:"error"` // the provider's body or message
	Status int      `json:"status,omitempty,omitzero"`
	Model  string   `json:"model,omitempty,omitzero"`
	WaitMS int      `json:"wait_ms,omitempty,omitzero"`
	Format string   `json:"format,omitempty,omitzero"`
	Page
}

// RunCompaction is compaction.run.
type RunCompaction struct {
	ID            turns.ID `json:"id,omitzero"`
	Policy        *Policy  `json:"policy,omitempty,omitzero"`
	At            turns.ID `json:"at,omitzero"`
	DryRun        bool     `json:"dry_run,omitempty,omitzero"`
	FromOriginals bool     `json:"from_originals,omitempty,omitzero"`
	Focus         string   `json:"focus,omitempty,omitzero"`
	WaitMS        int      `json:"wait_ms,omitempty,omitzero"`
}

// CompactionRun is compaction.run's reply: the turn, or for a dry run the plan.
type CompactionRun struct {
	ID         turns.ID `json:"id,omitzero"` // of the compaction that is running
	Compaction *Turn    `json:"compaction,omitempty,omitzero"`
	Plan       *Plan    `json:"plan,omitempty,omitzero"`
	State      string   `json:"state"` // done, planned, running
}

// Plan is a compaction that was not made.
type Plan struct {
	Digest       turns.Hash    `json:"digest"`
	Policy       string        `json:"policy"`
	Trigger      turns.Trigger `json:"trigger"`
	Through      *turns.ID     `json:"summarized_through"`
	FirstKept    *turns.ID     `json:"first_kept"`
	Split        bool          `json:"split"`
	Covered      uint64        `json:"covered"`
	Kept         uint64        `json:"kept"` // half turns kept
	TokensBefore uint64        `json:"tokens_before"`
	TokensTarget uint64        `json:"tokens_target"`
	TokensKept   uint64        `json:"tokens_kept"`
	Shortened    uint64        `json:"shortened,omitempty,omitzero"` // parts that it would show shortened, where it covers nothing
	SummaryMax   uint64        `json:"summary_max"`
}

// ListCompactions is compaction.list.
type ListCompactions struct {
	Page
	Read
}

// ExpandCompaction is compaction.expand.
type ExpandCompaction struct {
	ID     turns.ID  `json:"id"`
	Levels turns.Raw `json:"levels,omitzero"` // 1 (default) or "all"
	Full   bool      `json:"full,omitempty,omitzero"`
	Page
	Read
}

// TakeCompaction is compaction.take.
type TakeCompaction struct {
	Policy        *Policy `json:"policy,omitempty,omitzero"`
	Focus         string  `json:"focus,omitempty,omitzero"`
	FromOriginals bool    `json:"from_originals,omitempty,omitzero"`
	Page
	Read
}

// TakenCompaction is compaction.take's reply: what a model of the agent's own
// needs to write the summary. Content comes in pages, to be joined.
type TakenCompaction struct {
	Plan      string `json:"plan"` // to be given back with the summary
	Prompt    string `json:"prompt,omitempty,omitzero"`
	Content   string `json:"content"`
	MaxTokens uint64 `json:"max_tokens"`
	Details   *Plan  `json:"details"`
	Next      string `json:"next,omitempty,omitzero"`
}

// SubmitCompaction is compaction.submit.
type SubmitCompaction struct {
	ID         turns.ID     `json:"id,omitzero"`
	Plan       string       `json:"plan"`
	Text       string       `json:"text"`
	Usage      *turns.Usage `json:"usage,omitempty,omitzero"`
	SawThrough turns.ID     `json:"saw_through,omitzero"` // last turn that the agent had in view, if that is later than the plan's
}

// BeginFlush is flush.begin.
type BeginFlush struct {
	ID    turns.ID `json:"id,omitzero"`
	Cycle uint64   `json:"cycle"` // as an ack or a context said
}

// BegunFlush is flush.begin's reply: what the agent's own model is asked, behind
// the context and with the agent's tools.
type BegunFlush struct {
	ID          turns.ID `json:"id"`
	Cycle       uint64   `json:"cycle"`
	Try         uint64   `json:"try"`
	Prompt      string   `json:"prompt"`
	SilentToken string   `json:"silent_token"`
	Model       string   `json:"model"` // of the session; empty: it names none
	Lease       Time     `json:"lease"` // until when nobody else begins it
	Position    string   `json:"position"`
	Duplicate   bool     `json:"duplicate,omitempty,omitzero"` // the id was stored before; nothing was stored now
}

// DoneFlush is flush.done.
type DoneFlush struct {
	ID       turns.ID     `json:"id,omitzero"`
	Cycle    uint64       `json:"cycle"`
	Response string       `json:"response,omitempty,omitzero"` // text of the last reply
	Saved    uint64       `json:"saved"`                       // memories
	Usage    *turns.Usage `json:"usage,omitempty,omitzero"`
	Error    string       `json:"error,omitempty,omitzero"` // why it failed
}

// EndedFlush is flush.done's reply.
type EndedFlush struct {
	ID        turns.ID `json:"id"`
	Cycle     uint64   `json:"cycle"`
	State     string   `json:"state"` // silent, done (the response is kept and shown to nobody), failed
	Position  string   `json:"position"`
	Duplicate bool     `json:"duplicate,omitempty,omitzero"`
}

// GetPolicy is policy.get.
type GetPolicy struct {
	Name   string     `json:"name"`
	Set    turns.Raw  `json:"set,omitzero"`    // overrides
	Digest turns.Hash `json:"digest,omitzero"` // of a version that is pinned; default: the newest
}

// PolicyInfo is a policy. A list leaves its settings out.
type PolicyInfo struct {
	Name     string     `json:"name"`
	Version  uint64     `json:"version"`
	Mode     string     `json:"mode"` // before_call, background, manual
	Digest   turns.Hash `json:"digest"`
	Settings turns.Raw  `json:"settings,omitzero"` // every number; each can be overridden by its name
}

// PolicyList is policy.list's reply.
type PolicyList struct {
	Policies []PolicyInfo `json:"policies"`
}

// RecordCompaction is compaction.record: a compaction that another system made,
// brought in by an importer. Its provenance is "imported".
type RecordCompaction struct {
	ID           turns.ID        `json:"id,omitzero"`
	Parent       turns.ID        `json:"parent,omitzero"`
	Time         *Time           `json:"time,omitempty,omitzero"`
	Trigger      string          `json:"trigger,omitempty,omitzero"`
	Replacement  []turns.Message `json:"replacement,omitempty,omitzero"`
	Summary      string          `json:"summary,omitempty,omitzero"`
	FirstKept    turns.ID        `json:"first_kept,omitzero"`
	TokensBefore uint64          `json:"tokens_before,omitempty,omitzero"`
	Dropped      bool            `json:"dropped,omitempty,omitzero"`
	Cleared      []ClearedResult `json:"cleared,omitempty,omitzero"`
	Meta         turns.Raw       `json:"meta,omitzero"`
}

// ClearedResult names a tool result that is shown cleared.
type ClearedResult struct {
	Turn turns.ID `json:"turn"`
	Call string   `json:"call"`
}

// CreateFork is fork.create.
type CreateFork struct {
	ID     turns.ID  `json:"id,omitzero"`
	Turn   turns.ID  `json:"turn"`
	Mode   string    `json:"mode,omitempty,omitzero"`
	Label  *string   `json:"label,omitempty,omitzero"`
	Policy *Policy   `json:"policy,omitempty,omitzero"`
	Meta   turns.Raw `json:"meta,omitzero"`
}

// GetPath is lineage.path.
type GetPath struct {
	At turns.ID `json:"at,omitzero"`
	Page
	Read
}

// PathTurn is one turn of a path.
type PathTurn struct {
	ID      turns.ID `json:"id"`
	Session turns.ID `json:"session"`
	Depth   uint64   `json:"depth"`
	Type    string   `json:"type"`
}

// Path is lineage.path's reply, root first.
type Path struct {
	Turns []PathTurn `json:"turns"`
	Next  string     `json:"next,omitempty,omitzero"`
}

// PutBlob is blob.put: a piece of content, or pieces to put together.
type PutBlob struct {
	Session turns.ID     `json:"session"`
	Data    []byte       `json:"data,omitempty,omitzero"`   // base64
	Pieces  []turns.Hash `json:"pieces,omitempty,omitzero"` // digests that earlier calls returned, in order
}

// BlobInfo is blob.put's reply: what a part's ref says.
type BlobInfo struct {
	Digest turns.Hash `json:"digest"`
	Size   uint64     `json:"size"` // bytes
}

// GetBlob is blob.get.
type GetBlob struct {
	Session turns.ID   `json:"session"`
	Digest  turns.Hash `json:"digest"`
	Offset  uint64     `json:"offset,omitempty,omitzero"` // bytes
}

// BlobData is blob.get's reply.
type BlobData struct {
	Digest turns.Hash `json:"digest"`
	Size   uint64     `json:"size"` // of the whole, bytes
	Offset uint64     `json:"offset"`
	Data   []byte     `json:"data"`                    // base64
	Next   uint64     `json:"next,omitempty,omitzero"` // offset of what follows; absent at the end
}

// GetBase is lineage.base: the last turn that two paths have in common. Each is
// the path of a session's head, or of a turn.
type GetBase struct {
	At    turns.ID `json:"at,omitzero"`
	Other Place    `json:"other"`
	Read
}

// Place is a session's head, or a turn on its path.
type Place struct {
	Session turns.ID `json:"session"`
	Turn    turns.ID `json:"turn,omitzero"`
}

// Base is lineage.base's reply.
type Base struct {
	Base  *PathTurn `json:"base"`  // null: the two are of different trees
	Here  *PathTurn `json:"here"`  // where the first path ends; null: at no turn
	Other *PathTurn `json:"other"` // where the other one does
}

// GetTree is lineage.tree.
type GetTree struct {
	Page
	Read
}

// TreeSession is one session of a tree of forks.
type TreeSession struct {
	ID         turns.ID    `json:"id"`
	Error      Code        `json:"error,omitempty,omitzero"` // why the session can't be read
	Label      string      `json:"label,omitempty,omitzero"`
	State      string      `json:"state"`
	ForkedFrom *ForkedFrom `json:"forked_from,omitempty,omitzero"`
	ForkDepth  uint64      `json:"fork_depth"` // depth of the fork point; 0: the root session
	Head       *turns.ID   `json:"head"`
	Depth      uint64      `json:"depth"`
	Turns      uint64      `json:"turns"`
	Branches   []Branch    `json:"branches"` // the first ones

	BranchCount uint64 `json:"branch_count"` // all of them
}

// Branch is one segment of a session.
type Branch struct {
	Segment     turns.ID   `json:"segment"`
	Parent      *turns.ID  `json:"parent"`
	From        uint64     `json:"from"` // depths, inclusive
	To          uint64     `json:"to"`
	Compactions []PathTurn `json:"compactions,omitempty,omitzero"` // the first ones

	CompactionCount uint64 `json:"compaction_count"` // all of them
}

// Tree is lineage.tree's reply: parents before their forks.
type Tree struct {
	Root     turns.ID      `json:"root"`
	Sessions []TreeSession `json:"sessions"`
	Next     string        `json:"next,omitempty,omitzero"`
}

// Verify is audit.verify.
type Verify struct {
	Sessions []turns.ID `json:"sessions,omitempty,omitzero"` // none: everything
}

// Verified is audit.verify's reply.
type Verified struct {
	OK          bool      `json:"ok"`
	Events      uint64    `json:"events"`
	Sessions    uint64    `json:"sessions"`
	Turns       uint64    `json:"turns"`
	Compactions uint64    `json:"compactions"`
	Blobs       uint64    `json:"blobs"`
	Last        uint64    `json:"last,string"` // log position verified through
	Problems    []Problem `json:"problems"`
	DurationMS  uint64    `json:"duration_ms"`
}

// Problem is something that verification found.
type Problem struct {
	Code    Code     `json:"code"`
	Session turns.ID `json:"session,omitzero"`
	Event   turns.ID `json:"event,omitzero"`
	Seq     uint64   `json:"seq,omitempty,omitzero"`
	Message string   `json:"message"`
}

// ExportSession is session.export: raw events, each session's ancestors first.
type ExportSession struct {
	Page
	Read
}

// Exported is one page of an export.
type Exported struct {
	Records []ExportRecord `json:"records"`
	Next    string         `json:"next,omitempty,omitzero"`
}

// ExportRecord is one line of an export; exactly one field is set. Lines come
// in an order in which they can be imported.
type ExportRecord struct {
	Ledger *ExportHeader `json:"nexus_export,omitempty,omitzero"`
	Key    *ExportKey    `json:"key,omitempty,omitzero"`
	Piece  *ExportPiece  `json:"piece,omitempty,omitzero"`
	Blob   *ExportBlob   `json:"blob,omitempty,omitzero"`
	Event  *ExportEvent  `json:"event,omitempty,omitzero"`
}

// ExportHeader opens an export.
type ExportHeader struct {
	Version int      `json:"version"`
	Ledger  string   `json:"ledger"`
	Session turns.ID `json:"session"`
}

// ExportKey is a content key. Whoever has the export can read it.
type ExportKey struct {
	ID  turns.ID `json:"id"`
	Key []byte   `json:"key"`
}

// ExportBlob is a sealed blob.
type ExportBlob struct {
	Root   turns.ID     `json:"root"` // root session of the tree, whose key opens it
	Digest turns.Hash   `json:"digest"`
	Sealed []byte       `json:"sealed,omitempty,omitzero"`
	Pieces []turns.Hash `json:"pieces,omitempty,omitzero"` // in place of Sealed: pieces that came before, in order
}

// ExportPiece is a piece of a sealed blob, or of an event, that is too large for
// one message.
type ExportPiece struct {
	Sealed []byte `json:"sealed"`
}

// ExportEvent is an event's exact payload and its hash.
type ExportEvent struct {
	Payload []byte       `json:"payload,omitempty,omitzero"`
	Pieces  []turns.Hash `json:"pieces,omitempty,omitzero"` // in place of Payload: pieces that came before, in order
	Hash    turns.Hash   `json:"hash"`
}

// ImportRecords is session.import.
type ImportRecords struct {
	Records []ExportRecord `json:"records"`
}

// Imported is session.import's reply.
type Imported struct {
	Stored   uint64 `json:"stored"`
	Existing uint64 `json:"existing"`
}

// Notification is what notify subjects carry: a hint, with a position to read from.
type Notification struct {
	What     string    `json:"what"`
	Session  turns.ID  `json:"session"`
	Turn     turns.ID  `json:"turn,omitzero"`
	Position string    `json:"position"`
	Detail   turns.Raw `json:"detail,omitzero"`
}
