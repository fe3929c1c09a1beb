package turns

import "fmt"

// Version is the version of the event format that this package writes.
// Number 1 is frozen: see docs/FORMAT.md and testdata/golden.
const Version = 1

// Kind says what an event records. Numbers are never reused.
type Kind uint8

// The kinds of events. 1 to 15 stand on a session's chain.
const (
	KindOpened     Kind = 1 // first event of a session's chain
	KindTurn       Kind = 2
	KindCompaction Kind = 3  // a turn too: it has parent, depth and children
	KindMoved      Kind = 4  // the head went to another turn of the session's own or inherited path
	KindChanged    Kind = 5  // settings
	KindState      Kind = 6  // closed, and later paused, reset, erased
	KindFlush      Kind = 7  // a memory flush before a compaction was begun or ended
	KindHidden     Kind = 8  // lists leave the session out, or show it again
	KindDescribed  Kind = 9  // a title, tags and a project that a person gave the session
	KindNoted      Kind = 10 // a person's note on a turn
	KindRedacted   Kind = 11 // the body of an event of the chain again, without what was taken out of it
	KindClaimed    Kind = 16 // on a label's chain: the session that the label resolves to
	KindPolicy     Kind = 17 // on a tenant's chain: the content of a compaction policy

	// On an agent's chain.
	KindMemory        Kind = 18 // a memory was saved
	KindMemoryChanged Kind = 19 // a memory was promoted or withdrawn
	KindDocument      Kind = 20 // the agent's document was replaced
	KindReceived      Kind = 24 // on a channel's chain: an external event, such as a mail or a webhook call
)

var kindNames = map[Kind]string{
	KindOpened: "opened", KindTurn: "turn", KindCompaction: "compaction", KindMoved: "moved",
	KindChanged: "changed", KindState: "state", KindFlush: "flush", KindClaimed: "claimed", KindPolicy: "policy",
	KindMemory: "memory", KindMemoryChanged: "memory changed", KindDocument: "document",
	KindReceived: "received", KindHidden: "hidden", KindDescribed: "described", KindNoted: "noted",
	KindRedacted: "redacted",
}

// String is the kind's word, or "kind(N)" for one this build does not know.
func (k Kind) String() string {
	if s, ok := kindNames[k]; ok {
		return s
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// defined reports whether this build knows what an event of kind k means.
func (k Kind) defined() bool {
	_, named := kindNames[k]
	return named
}

// IsRemark reports whether the event says something of the session that no context shows. It
// may follow the end of a session, except an erasure.
func (k Kind) IsRemark() bool { return k >= KindHidden && k <= KindRedacted }

// IsTurn reports whether the event is a node of the lineage.
func (k Kind) IsTurn() bool { return k == KindTurn || k == KindCompaction }

// Entity is what a chain belongs to: its token in the subject.
type Entity string

// The entities that have chains.
const (
	SessionEntity Entity = "s"
	AgentEntity   Entity = "a"
	LabelEntity   Entity = "l"
	TenantEntity  Entity = "t"
	ChannelEntity Entity = "c"
)

// Chain names the chain an event stands on. ID is the text that stands in the
// subject: a session's ULID, an agent's or tenant's name, a label's keyed digest.
type Chain struct {
	_      struct{} `cbor:",toarray"`
	Entity Entity
	ID     string
}

// SessionChain is the chain of session s.
func SessionChain(s ID) Chain { return Chain{Entity: SessionEntity, ID: s.String()} }

// Session is the session a chain belongs to; ok is false for other chains.
func (c Chain) Session() (id ID, ok bool) {
	if c.Entity != SessionEntity {
		return ID{}, false
	}
	id, err := ParseID(c.ID)
	return id, err == nil
}

// String is "s/01J…".
func (c Chain) String() string { return string(c.Entity) + "/" + c.ID }

// Half is one half of a turn.
type Half uint8

// The halves. As bits they form [Halves].
const (
	MessagesHalf Half = 1 // what was newly sent since the parent
	ResponseHalf Half = 2 // what came back
)

// String is the name of the field that the half is in protocol JSON.
func (h Half) String() string {
	switch h {
	case MessagesHalf:
		return "messages"
	case ResponseHalf:
		return "response"
	}
	return fmt.Sprintf("half(%d)", uint8(h))
}

// Halves is the set of halves that a turn has: bit 1 messages, bit 2 response.
type Halves uint8

// Has reports whether h is in the set.
func (s Halves) Has(h Half) bool { return s&Halves(h) != 0 }

// Event is one immutable record: a clear header and an opaque body. The field
// tags are the integer keys of the encoding; docs/FORMAT.md has them as a table.
// A zero field that is marked omitzero is absent from the bytes.
//
// The header holds only what daemons decide and count. Everything that a
// person or a model wrote is in Body, which is sealed (see package seal).
type Event struct {
	Version  uint64 `cbor:"1,keyasint"`
	Kind     Kind   `cbor:"2,keyasint"`
	ID       ID     `cbor:"3,keyasint"`
	Chain    Chain  `cbor:"4,keyasint"`
	Index    uint64 `cbor:"5,keyasint"`           // ordinal on the chain, from 0
	Prev     Hash   `cbor:"6,keyasint,omitzero"`  // hash of the event at Index-1
	Claimed  int64  `cbor:"7,keyasint,omitzero"`  // Unix ns, as the client says
	Recorded int64  `cbor:"8,keyasint"`           // Unix ns, the daemon's clock
	Actor    string `cbor:"9,keyasint,omitempty"` // "tenant/agent", set by the daemon
	Digest   Hash   `cbor:"10,keyasint,omitzero"` // request digest: HMAC-SHA-256 under the content key

	// Turns and compactions.
	Parent    Ref    `cbor:"11,keyasint,omitzero"` // none: the turn is a root
	Depth     uint64 `cbor:"12,keyasint,omitzero"` // turns on the root path, this one included: a root has 1
	Segment   ID     `cbor:"13,keyasint,omitzero"` // the turn that opened the segment, on this chain
	Halves    Halves `cbor:"14,keyasint,omitzero"`
	Calls     uint64 `cbor:"15,keyasint,omitzero"` // tool calls in the response
	Tokens    Tokens `cbor:"16,keyasint,omitzero"`
	Span      *Span  `cbor:"17,keyasint,omitempty"` // compactions only
	Usage     *Usage `cbor:"18,keyasint,omitempty"` // as the provider reported it
	Open      uint64 `cbor:"19,keyasint,omitzero"`  // tool calls that wait for their response after this turn
	Late      uint64 `cbor:"26,keyasint,omitzero"`  // responses in it to calls that were no longer open
	Abandoned uint64 `cbor:"27,keyasint,omitzero"`  // open calls that it abandoned
	UserTexts uint64 `cbor:"28,keyasint,omitzero"`  // messages of the user in it that hold text

	// Opened.
	Origin    *Origin     `cbor:"20,keyasint,omitempty"`
	ForkOf    *ForkOf     `cbor:"21,keyasint,omitempty"`
	Root      ID          `cbor:"22,keyasint,omitzero"`  // root session of the tree of forks; the session itself if no fork
	Agent     string      `cbor:"23,keyasint,omitempty"` // opened, claimed; policy: the agent that put the version; received: the channel's agent
	Role      SessionKind `cbor:"24,keyasint,omitempty"`
	SpawnedBy Ref         `cbor:"25,keyasint,omitzero"`

	// Moved, state, claimed.
	To        Ref    `cbor:"30,keyasint,omitzero"` // moved: the new head (none: before the first turn); claimed: the session, Turn zero; noted: the turn
	State     State  `cbor:"31,keyasint,omitzero"`
	Successor ID     `cbor:"32,keyasint,omitzero"`
	Flush     *Flush `cbor:"33,keyasint,omitempty"` // flush events only

	Policy *StoredPolicy `cbor:"34,keyasint,omitempty"` // policy events only

	Timed bool `cbor:"35,keyasint,omitempty"` // opened, changed: a rule in the settings resets the session by time

	Memory   *Memory         `cbor:"36,keyasint,omitempty"` // memory events only
	Document *StoredDocument `cbor:"37,keyasint,omitempty"` // document events only
	Learned  []Learned       `cbor:"38,keyasint,omitempty"` // compactions: the memories in the body, in their order
	External *ExternalLink   `cbor:"39,keyasint,omitempty"` // turns only: the external event that the turn answers

	Blobs      []BlobLink `cbor:"40,keyasint,omitempty"` // what the body refers to, sorted by address, so that it can be checked without a key
	Encoding   Encoding   `cbor:"41,keyasint,omitzero"`
	Keys       []ID       `cbor:"42,keyasint,omitempty"` // content keys: that of the chain, then others, sorted; more than one: a key derived from all
	Commitment Hash       `cbor:"43,keyasint,omitzero"`  // to the body and each of its parts; see package seal
	Sender     string     `cbor:"44,keyasint,omitempty"` // public NKey of the user whose request it follows from; "": not known

	Hidden bool `cbor:"45,keyasint,omitempty"` // hidden: true, lists leave the session out; absent, they show it again

	Body []byte `cbor:"-"` // beside the header in the payload
}

// SessionKind is a session's role. The empty kind is "peer".
type SessionKind string

// The kinds of sessions.
const (
	Peer SessionKind = "peer"
	Main SessionKind = "main"
	Task SessionKind = "task"
)

// State is what a state event puts a session in.
type State uint8

// The states of a session. Open is the zero value.
const (
	Open   State = 0
	Paused State = 1
	Reset  State = 2
	Closed State = 3
	Erased State = 4
)

// String is the word of protocol JSON.
func (s State) String() string {
	switch s {
	case Open:
		return "open"
	case Paused:
		return "paused"
	case Reset:
		return "reset"
	case Closed:
		return "closed"
	case Erased:
		return "erased"
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// Tokens counts the two halves of a turn by the counter named. On a compaction
// Messages is what it shows instead of the covered part, and Response what its
// elisions take off the halves that are kept.
type Tokens struct {
	_        struct{} `cbor:",toarray"`
	Counter  string   // which counter, e.g. "approx-1"
	Messages uint64
	Response uint64
}

// IsZero reports whether nothing was counted.
func (t Tokens) IsZero() bool { return t == Tokens{} }

// Origin binds a chain to where it was first written. Export and import keep
// it, and so the hashes.
type Origin struct {
	_       struct{} `cbor:",toarray"`
	Ledger  [16]byte // UUID of the ledger
	Tenant  string
	Session ID
}

// ForkMode says what a fork sees of the turns above its fork point.
type ForkMode uint8

// The fork modes.
const (
	AsSeen  ForkMode = 1 // what the fork point's next call would see
	Full    ForkMode = 2 // every turn: compactions above are ignored
	Summary ForkMode = 3 // as seen, and starts from a summary at the fork point
)

// String is the mode's word in protocol JSON.
func (m ForkMode) String() string {
	switch m {
	case AsSeen:
		return "as_seen"
	case Full:
		return "full"
	case Summary:
		return "summary"
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// ParseForkMode is the inverse of String; "" is AsSeen.
func ParseForkMode(s string) (ForkMode, error) {
	switch s {
	case "", "as_seen":
		return AsSeen, nil
	case "full":
		return Full, nil
	case "summary":
		return Summary, nil
	}
	return 0, malformed("/mode", "%q is not one of as_seen, full, summary", clip(s, 40))
}

// ForkOf names the turn that a session was forked from, and binds its bytes.
type ForkOf struct {
	_    struct{} `cbor:",toarray"`
	At   Ref
	Hash Hash // of the event that holds the turn
	Mode ForkMode
}

// Provenance says who made a compaction.
type Provenance uint8

// The provenances.
const (
	ByNexus  Provenance = 1
	Imported Provenance = 2 // recorded by another system; it may drop what it does not summarize
)

// String is the word of protocol JSON.
func (p Provenance) String() string {
	switch p {
	case ByNexus:
		return "nexus"
	case Imported:
		return "imported"
	}
	return fmt.Sprintf("provenance(%d)", uint8(p))
}

// Span says which part of its root path a compaction replaces.
//
// Of the path halves from the previous first kept position on, those before
// the cut are covered by this compaction's replacement; those from the cut on
// stay. The cut is before the messages of FirstKept, or, where Split is set,
// between the messages and the response of FirstKept, which then is also
// Through. With no Through nothing is covered (a pass of elisions only);
// with no FirstKept nothing of the path is kept.
type Span struct {
	Through    Ref        `cbor:"1,keyasint,omitzero"`  // last turn with a covered half
	FirstKept  Ref        `cbor:"2,keyasint,omitzero"`  // first turn with a kept half
	Split      bool       `cbor:"3,keyasint,omitempty"` // the cut is inside that turn
	SawThrough Ref        `cbor:"4,keyasint,omitzero"`  // last position any input of the summarizer came from
	Previous   Ref        `cbor:"5,keyasint,omitzero"`  // the compaction that was in force
	Provenance Provenance `cbor:"6,keyasint"`
	Dropped    bool       `cbor:"7,keyasint,omitempty"`  // imported only: covered halves are not in the replacement
	Elisions   []Elision  `cbor:"8,keyasint,omitempty"`  // every elision in force, path order
	Covered    uint64     `cbor:"9,keyasint,omitzero"`   // normal turns newly covered, a split one included
	Call       bool       `cbor:"10,keyasint,omitempty"` // in force only until a turn brings text of the user; it covers nothing
}

// Elision names a part that is shown shortened. What is shown instead is in
// the body, at the same position of the list.
type Elision struct {
	_       struct{} `cbor:",toarray"`
	Turn    Ref
	Half    Half
	Message uint64 // index in the half; 0 in a response
	Part    uint64
}

// Flush says what became of the memory flush of a cycle: the stretch from one
// compaction that covers turns to the next. The agent is asked once in it to
// save what it wants to keep.
type Flush struct {
	State FlushState `cbor:"1,keyasint"`
	Cycle uint64     `cbor:"2,keyasint"`          // from 1: the compactions in force at the head that cover turns, and one
	After Ref        `cbor:"3,keyasint,omitzero"` // the last of those compactions; none: the first cycle
	Try   uint64     `cbor:"4,keyasint"`          // from 1; a second one where the first was given up
	Lease int64      `cbor:"5,keyasint,omitzero"` // begun only: Unix ns until which nobody else begins it
}

// SameCycle reports whether both are of one cycle.
func (f *Flush) SameCycle(o *Flush) bool { return f.Cycle == o.Cycle && f.After == o.After }

// MaxFlushTries is how often the flush of a cycle is begun at most.
const MaxFlushTries = 2

// FlushState is what a flush event puts the flush of its cycle in.
type FlushState uint8

// The states of a flush. Begun ends in one of the others, or with its lease.
const (
	FlushBegun  FlushState = 1
	FlushDone   FlushState = 2 // with a reply that was recorded, and shown to nobody
	FlushSilent FlushState = 3 // with the policy's silent token as the reply
	FlushFailed FlushState = 4
)

// String is the word of protocol JSON.
func (s FlushState) String() string {
	switch s {
	case FlushBegun:
		return "begun"
	case FlushDone:
		return "done"
	case FlushSilent:
		return "silent"
	case FlushFailed:
		return "failed"
	}
	return fmt.Sprintf("flush(%d)", uint8(s))
}

// StoredPolicy names the policy in the body of a policy event. It has no name if the
// policy was stored for a session (a built-in policy, or one with overrides), or as the
// answer to a put of the settings that a name has already. It has a
// name if an agent put the policy as a version of that name.
type StoredPolicy struct {
	Digest  Hash   `cbor:"1,keyasint"`           // of the content
	Name    Hash   `cbor:"2,keyasint,omitzero"`  // keyed digest of the name
	Version uint64 `cbor:"3,keyasint,omitempty"` // of the name, from 1
}

// ExternalLink names an external event: the id of its channel's chain, and its own id.
// The event need not be stored.
type ExternalLink struct {
	_       struct{} `cbor:",toarray"`
	Channel string
	ID      ID
}

// BlobLink says where a blob that a body refers to is stored. The body has the digest, which
// opens it; see package seal.
type BlobLink struct {
	_       struct{} `cbor:",toarray"`
	Address Hash
	Size    uint64
}

// Encoding says how Body was made from the body's bytes, in this order.
type Encoding uint8

// The bits of an encoding.
const (
	Zstd   Encoding = 1 // compressed
	Sealed Encoding = 2 // AES-256-GCM; the 12-byte nonce stands first
)

// Ref is the name of a turn event.
func (e *Event) Ref() Ref {
	s, _ := e.Chain.Session()
	return Ref{Session: s, Turn: e.ID}
}
