package turns

// Bodies are what a person or a model wrote. Each kind of event has one body
// type; its deterministic CBOR, compressed and sealed, is the event's Body.

// Settings are what a session runs under. Changed events carry them whole, so
// that the settings in force are read from one event.
type Settings struct {
	Policy       PolicyRef `cbor:"1,keyasint"`
	Model        string    `cbor:"2,keyasint,omitempty"`
	Preamble     Preamble  `cbor:"3,keyasint"`
	Limits       Limits    `cbor:"4,keyasint"`
	Meta         Raw       `cbor:"5,keyasint,omitempty"` // a JSON object
	User         string    `cbor:"6,keyasint,omitempty"`
	Reset        Raw       `cbor:"7,keyasint,omitempty"` // a JSON object: the rule of its resets, in place of the policy's
	PreambleBlob *BlobRef  `cbor:"8,keyasint,omitempty"` // the preamble's encoding, where that is a blob of the tree; Preamble is empty then
	SpawnedBy    Ref       `cbor:"9,keyasint,omitzero"`  // what the session serves, where that was not known when it was opened; the turn may be zero
}

// PolicyRef names a policy and pins its content.
type PolicyRef struct {
	Name   string `cbor:"1,keyasint" json:"name"`
	Set    Raw    `cbor:"2,keyasint,omitempty" json:"set,omitempty"` // the overrides, a JSON object
	Digest Hash   `cbor:"3,keyasint,omitzero" json:"digest,omitzero"`
}

// Preamble is what stands before the messages of every call: the system part
// and the tools. It is counted apart, as overhead.
type Preamble struct {
	System []Section `cbor:"1,keyasint,omitempty"`
	Tools  []Raw     `cbor:"2,keyasint,omitempty"` // JSON objects, verbatim
}

// Section is one named piece of the system part.
type Section struct {
	Name    string `cbor:"1,keyasint,omitempty" json:"name,omitempty"`
	Content string `cbor:"2,keyasint" json:"content"`
}

// Limits are a model's limits in tokens. Zero means the default of the model
// or policy.
type Limits struct {
	ContextWindow   uint64 `cbor:"1,keyasint,omitzero" json:"context_window,omitzero"`
	MaxOutputTokens uint64 `cbor:"2,keyasint,omitzero" json:"max_output_tokens,omitzero"`
	SafetyMargin    uint64 `cbor:"3,keyasint,omitzero" json:"safety_margin,omitzero"`
}

// OpenedBody is the body of an opened event.
type OpenedBody struct {
	Label    string   `cbor:"1,keyasint,omitempty"`
	Settings Settings `cbor:"2,keyasint"`
}

// ChangedBody is the body of a changed event.
type ChangedBody struct {
	Label    string   `cbor:"1,keyasint,omitempty"`
	Settings Settings `cbor:"2,keyasint"`
}

// TurnBody is the body of a normal turn.
type TurnBody struct {
	Messages []Message   `cbor:"1,keyasint,omitempty"`
	Response *Message    `cbor:"2,keyasint,omitempty"`
	Model    string      `cbor:"3,keyasint,omitempty"`
	Meta     Raw         `cbor:"5,keyasint,omitempty"` // a JSON object
	Context  *ContextRef `cbor:"6,keyasint,omitempty"`
	Preamble Hash        `cbor:"7,keyasint,omitzero"` // digest of the preamble in force
}

// ContextRef is the context that the call was made with: its recipe, opaque
// here, and the fingerprint of the bytes that were served.
type ContextRef struct {
	Recipe      Raw    `cbor:"1,keyasint,omitempty"`
	Fingerprint string `cbor:"2,keyasint,omitempty"`
}

// CompactionBody is the body of a compaction.
type CompactionBody struct {
	Policy        PolicyRef    `cbor:"1,keyasint"`
	Trigger       Trigger      `cbor:"2,keyasint"`
	Mode          string       `cbor:"3,keyasint"`           // before_call, background, manual
	Tier          string       `cbor:"4,keyasint,omitempty"` // which summarizer made the text
	Plan          Hash         `cbor:"5,keyasint,omitzero"`  // digest of the plan: the same plan again changes nothing
	Replacement   []Message    `cbor:"6,keyasint,omitempty"` // nil: nothing stands for the covered part
	Summary       string       `cbor:"7,keyasint,omitempty"`
	Elided        []ElidedPart `cbor:"8,keyasint,omitempty"` // same length and order as Span.Elisions
	TokensBefore  uint64       `cbor:"9,keyasint,omitzero"`
	TokensAfter   uint64       `cbor:"10,keyasint,omitzero"`
	Survival      Raw          `cbor:"11,keyasint,omitempty"` // survival report, a JSON object
	CostMicros    uint64       `cbor:"13,keyasint,omitzero"`  // millionths of a US dollar
	DurationMS    uint64       `cbor:"14,keyasint,omitzero"`
	Focus         string       `cbor:"15,keyasint,omitempty"`
	FromOriginals bool         `cbor:"16,keyasint,omitempty"`
	Memories      Raw          `cbor:"17,keyasint,omitempty"` // extracted memories, a JSON array; see [Event.Learned]
	Flush         string       `cbor:"18,keyasint,omitempty"` // what became of the flush of its cycle: done, silent, failed, expired, skipped
	Meta          Raw          `cbor:"19,keyasint,omitempty"`
	Nudge         []Message    `cbor:"20,keyasint,omitempty"` // shown after the newest message that the compaction saw
	Model         string       `cbor:"21,keyasint,omitempty"` // that wrote the summary
}

// Trigger says why a compaction was made.
type Trigger struct {
	Kind   string `cbor:"1,keyasint" json:"kind"` // threshold, turns, large_output, manual, overflow, idle, reset
	Detail Raw    `cbor:"2,keyasint,omitempty" json:"detail,omitempty"`
}

// ElidedPart is what is shown instead of a part.
type ElidedPart struct {
	Method string `cbor:"1,keyasint"` // trimmed, cleared, elided
	Show   string `cbor:"2,keyasint,omitempty"`
	Before uint64 `cbor:"3,keyasint"` // characters (Unicode code points) of the original
	After  uint64 `cbor:"4,keyasint"`
	Tool   string `cbor:"5,keyasint,omitempty"` // of a tool result: the name of the tool
}

// MovedBody is the body of a head move.
type MovedBody struct {
	Note string `cbor:"1,keyasint,omitempty"`
}

// StateBody is the body of a state event.
type StateBody struct {
	Cause string `cbor:"1,keyasint,omitempty"` // of a reset by time: daily, idle
	Due   int64  `cbor:"2,keyasint,omitzero"`  // of a reset by time: when it was due, Unix ns
}

// HiddenBody is the body of a hidden event.
type HiddenBody struct {
	Cause string `cbor:"1,keyasint,omitempty"` // as the request says: an import that was undone
}

// DescribedBody is the body of a described event: all that a person says of the session, so that
// what is in force is read from one event. Nothing in it stands in a context.
type DescribedBody struct {
	Title   string   `cbor:"1,keyasint,omitempty"` // in place of the one that the session has without it
	Tags    []string `cbor:"2,keyasint,omitempty"` // sorted, each once
	Project string   `cbor:"3,keyasint,omitempty"` // in place of the one that follows from its folder
}

// NotedBody is the body of a noted event.
type NotedBody struct {
	Text string `cbor:"1,keyasint"` // "": what was noted on the turn before is taken back
}

// FlushBody is the body of a flush event: what the agent reported at its end.
// One that begins a flush has no body.
type FlushBody struct {
	Saved    uint64 `cbor:"1,keyasint,omitzero"`  // memories
	Response string `cbor:"2,keyasint,omitempty"` // where it was not silent; shown to nobody
	Error    string `cbor:"3,keyasint,omitempty"`
}

// PolicyBody is the body of a policy event. It is sealed under the ledger's key.
type PolicyBody struct {
	Name    string `cbor:"1,keyasint"` // as the content has it, for builds that can't read the content
	Version uint64 `cbor:"2,keyasint"`
	Content []byte `cbor:"3,keyasint"` // the policy's canonical bytes, JSON
}

// ReceivedBody is the body of an external event. It is sealed under the channel's key.
type ReceivedBody struct {
	Channel string   `cbor:"1,keyasint"`
	Kind    string   `cbor:"2,keyasint"`
	Body    Raw      `cbor:"3,keyasint,omitempty"` // any JSON value; absent if it is a blob
	Blob    *BlobRef `cbor:"4,keyasint,omitempty"` // the JSON text, where it is a blob of the channel
	Meta    Raw      `cbor:"5,keyasint,omitempty"` // a JSON object
}

// ClaimedBody is the body of a claimed event. It is sealed under the session's key.
type ClaimedBody struct {
	Label string `cbor:"1,keyasint"`
}

// MemoryBody is the body of a memory event. It is sealed under the agent's key and
// those of the sessions that it comes from.
type MemoryBody struct {
	Text string `cbor:"1,keyasint"`
	Zone string `cbor:"2,keyasint,omitempty"` // IANA name of the time zone in which it was learned
	User string `cbor:"3,keyasint,omitempty"` // who it is about, or who stated it
	// Extracted: a model found it in a session that was reset.
	Extracted bool `cbor:"4,keyasint,omitempty"`
}

// MemoryChangedBody is the body of a memory changed event.
type MemoryChangedBody struct {
	Reason string `cbor:"1,keyasint,omitempty"`
}

// DocumentBody is the body of a document event.
type DocumentBody struct {
	Text string `cbor:"1,keyasint,omitempty"`
}
