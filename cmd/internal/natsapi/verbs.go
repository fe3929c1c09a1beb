package natsapi

import (
	"context"
	"errors"
	"strings"

	"nexus/ledger/api"
	"nexus/turns"
)

// verb is one call of the contract.
type verb struct {
	name    string // noun.verb, as in the subject
	session bool   // the subject ends with a session id
	ordered bool   // calls for one session run in the order in which they came
	changes bool   // it stores something, or nothing without an error
	stores  bool   // it is a read that may store something, if the request says so
	summary string
	request any // zero value, for the schema
	reply   any
	serve   func(context.Context, *call) (any, error)
}

// mayStore returns a verb whose answer says that something may be stored, where it fails
// in the middle.
func mayStore(v verb) verb {
	v.stores = true
	return v
}

// noun returns the first part of a verb's name.
func noun(name string) string {
	n, _, _ := strings.Cut(name, ".")
	return n
}

// endpoint returns the verb of a typed function.
func endpoint[Req, Rep any](name string, session bool, summary string, f func(context.Context, *call, Req) (*Rep, error)) verb {
	var req Req
	var rep Rep
	return verb{name: name, session: session, summary: summary, request: req, reply: rep,
		serve: func(ctx context.Context, c *call) (any, error) {
			var r Req
			if err := turns.DecodeRequest(c.data, &r); err != nil {
				return nil, wholeBody(err)
			}
			if err := c.checkRequired(); err != nil {
				return nil, err
			}
			out, err := f(ctx, c, r)
			if err != nil {
				return nil, err
			}
			return out, nil
		}}
}

// wholeBody returns the error of a request's reading. One of no member is of the body, as that of a body that is no JSON.
func wholeBody(err error) error {
	if fe := (*turns.FieldError)(nil); errors.As(err, &fe) && fe.Field == "" {
		return &turns.FieldError{Field: "body", Reason: fe.Reason, Kind: fe.Kind}
	}
	return err
}

// change returns the verb of a function that stores the digest of its request. f
// gets the call with its canonical form, which costs more than decoding it.
func change[Req, Rep any](name string, session bool, summary string, f func(context.Context, *call, Req) (*Rep, error)) verb {
	return storing(endpoint(name, session, summary, func(ctx context.Context, c *call, r Req) (_ *Rep, err error) {
		if c.canonical, err = canonical(c.data); err != nil {
			return nil, err
		}
		return f(ctx, c, r)
	}))
}

// storing marks a verb that stores something.
func storing(v verb) verb {
	v.changes = true
	return v
}

// requiring returns a verb that refuses a request without one of the members: their zero
// value is a decision, and must not be taken for a caller who forgot to say.
func requiring(v verb, members ...string) verb {
	serve := v.serve
	v.serve = func(ctx context.Context, c *call) (any, error) {
		c.required = members
		return serve(ctx, c)
	}
	return v
}

// checkRequired names the first member that the request lacks. The request is valid JSON.
func (c *call) checkRequired() error {
	if len(c.required) == 0 {
		return nil
	}
	var have map[string]turns.Raw
	if err := turns.DecodeJSON(c.data, &have); err != nil {
		return err
	}
	for _, m := range c.required {
		if _, ok := have[m]; !ok {
			return api.FieldErrorf("/"+m, "missing")
		}
	}
	return nil
}

// class returns the class of a request of v with a number of bytes.
func (v verb) class(bytes int) class {
	switch {
	case bytes >= largeRequest:
		return large
	case v.changes:
		return changes
	}
	return reads
}

// inOrder marks a verb that changes a session and waits for no model. So a client's
// requests are stored in the order in which it sent them, without waiting for each
// ack.
func inOrder(v verb) verb {
	v.ordered = true
	return v
}

// verbs is the table of the contract. docs/API.md has the request and the reply of each
// that is not for later.
var verbs = []verb{
	change("session.create", false, "open a session", func(ctx context.Context, c *call, r api.CreateSession) (*api.Session, error) {
		return c.engine.Sessions.Create(ctx, c.caller, r, c.canonical)
	}),
	endpoint("session.get", true, "a session by id", func(ctx context.Context, c *call, r api.GetSession) (*api.Session, error) {
		return c.engine.History.GetAbout(ctx, c.caller, c.session, r)
	}),
	endpoint("session.list", false, "the agent's sessions", func(ctx context.Context, c *call, r api.ListSessions) (*api.SessionList, error) {
		return c.engine.History.List(ctx, c.caller, r)
	}),
	endpoint("session.resolve", false, "the session that a label stands for", func(ctx context.Context, c *call, r api.Resolve) (*api.Session, error) {
		return c.engine.Sessions.Resolve(ctx, c.caller, r.Label)
	}),
	inOrder(change("session.set", true, "change settings", func(ctx context.Context, c *call, r api.SetSession) (*api.Session, error) {
		return c.engine.Sessions.Set(ctx, c.caller, c.session, r, c.canonical)
	})),
	inOrder(change("session.close", true, "take no more turns", func(ctx context.Context, c *call, r api.CloseSession) (*api.Session, error) {
		return c.engine.Sessions.CloseSession(ctx, c.caller, c.session, r, c.canonical)
	})),
	inOrder(change("session.reset", true, "close, and go on in a fresh successor", func(ctx context.Context, c *call, r api.ResetSession) (*api.Session, error) {
		return c.engine.Sessions.Reset(ctx, c.caller, c.session, r, c.canonical)
	})),
	inOrder(change("session.hide", true, "leave it out of lists", func(ctx context.Context, c *call, r api.HideSession) (*api.Session, error) {
		return c.engine.Sessions.Hide(ctx, c.caller, c.session, true, r, c.canonical)
	})),
	inOrder(change("session.unhide", true, "show it in lists again", func(ctx context.Context, c *call, r api.HideSession) (*api.Session, error) {
		return c.engine.Sessions.Hide(ctx, c.caller, c.session, false, r, c.canonical)
	})),
	inOrder(change("session.describe", true, "a title, tags and a project of one's own", func(ctx context.Context, c *call, r api.DescribeSession) (*api.Session, error) {
		return c.engine.Sessions.Describe(ctx, c.caller, c.session, r, c.canonical)
	})),
	requiring(inOrder(change("session.move", true, "move the head to another turn", func(ctx context.Context, c *call, r api.MoveSession) (*api.Session, error) {
		return c.engine.Sessions.Move(ctx, c.caller, c.session, r, c.canonical)
	})), "to"),
	storing(endpoint("session.erase", true, "make its content unreadable for ever", func(ctx context.Context, c *call, r api.EraseSession) (*api.Receipt, error) {
		return c.engine.Erasure.Erase(ctx, c.caller, c.session, r)
	})),
	endpoint("session.export", true, "raw events with ancestor chains", func(ctx context.Context, c *call, r api.ExportSession) (*api.Exported, error) {
		return c.engine.Transfer.Export(ctx, c.caller, c.session, r)
	}),
	storing(endpoint("session.import", false, "store an export's events", func(ctx context.Context, c *call, r api.ImportRecords) (*api.Imported, error) {
		return c.engine.Transfer.Import(ctx, c.caller, r)
	})),
	inOrder(change("turn.append", true, "append a turn", func(ctx context.Context, c *call, r api.AppendTurn) (*api.Appended, error) {
		return c.engine.Sessions.Append(ctx, c.caller, c.session, r, c.canonical)
	})),
	endpoint("turn.get", true, "a turn by id", func(ctx context.Context, c *call, r api.GetTurn) (*api.Turn, error) {
		return c.engine.Reader.GetTurn(ctx, c.caller, c.session, r)
	}),
	requiring(inOrder(change("turn.note", true, "a person's note on a turn", func(ctx context.Context, c *call, r api.NoteTurn) (*api.Turn, error) {
		return c.engine.Sessions.Note(ctx, c.caller, c.session, r, c.canonical)
	})), "turn", "text"),
	change("turn.redact", true, "take a turn, parts of it, or a text out for ever", func(ctx context.Context, c *call, r api.RedactTurn) (*api.Redacted, error) {
		return c.engine.Erasure.Redact(ctx, c.caller, c.session, r, c.canonical)
	}),
	endpoint("turn.list", true, "the path of the head", func(ctx context.Context, c *call, r api.ListTurns) (*api.TurnList, error) {
		return c.engine.History.ListTurns(ctx, c.caller, c.session, r)
	}),
	endpoint("context.get", true, "the messages for the next model call", func(ctx context.Context, c *call, r api.GetContext) (*api.Context, error) {
		return c.engine.Contexts.Context(ctx, c.caller, c.session, r)
	}),
	change("context.overflow", true, "the provider refused the context as too long", func(ctx context.Context, c *call, r api.Overflow) (*api.Context, error) {
		return c.engine.Contexts.Overflow(ctx, c.caller, c.session, r, c.canonical)
	}),
	change("compaction.run", true, "compact now", func(ctx context.Context, c *call, r api.RunCompaction) (*api.CompactionRun, error) {
		return c.engine.Compactions.Compact(ctx, c.caller, c.session, r, c.canonical)
	}),
	endpoint("compaction.list", true, "compactions in force, newest first", func(ctx context.Context, c *call, r api.ListCompactions) (*api.TurnList, error) {
		return c.engine.History.ListCompactions(ctx, c.caller, c.session, r)
	}),
	endpoint("compaction.get", true, "a compaction by id", func(ctx context.Context, c *call, r api.GetTurn) (*api.Turn, error) {
		return c.engine.History.GetCompaction(ctx, c.caller, c.session, r)
	}),
	endpoint("compaction.expand", true, "the turns that a compaction stands for", func(ctx context.Context, c *call, r api.ExpandCompaction) (*api.Expanded, error) {
		return c.engine.Covered.Expand(ctx, c.caller, c.session, r)
	}),
	endpoint("compaction.lost", true, "facts of covered turns that the context does not hold", func(ctx context.Context, c *call, r api.ListLost) (*api.LostList, error) {
		return c.engine.Covered.Lost(ctx, c.caller, c.session, r)
	}),
	endpoint("compaction.take", true, "what the agent needs to summarize by itself", func(ctx context.Context, c *call, r api.TakeCompaction) (*api.TakenCompaction, error) {
		return c.engine.Compactions.Take(ctx, c.caller, c.session, r)
	}),
	change("compaction.submit", true, "a summary that the agent made", func(ctx context.Context, c *call, r api.SubmitCompaction) (*api.Turn, error) {
		return c.engine.Compactions.Submit(ctx, c.caller, c.session, r, c.canonical)
	}),
	inOrder(change("compaction.record", true, "record a compaction that another system made", func(ctx context.Context, c *call, r api.RecordCompaction) (*api.Turn, error) {
		return c.engine.Compactions.Record(ctx, c.caller, c.session, r, c.canonical)
	})),
	change("flush.begin", true, "begin the memory flush of a cycle", func(ctx context.Context, c *call, r api.BeginFlush) (*api.BegunFlush, error) {
		return c.engine.Compactions.BeginFlush(ctx, c.caller, c.session, r, c.canonical)
	}),
	requiring(change("flush.done", true, "how the memory flush went", func(ctx context.Context, c *call, r api.DoneFlush) (*api.EndedFlush, error) {
		return c.engine.Compactions.DoneFlush(ctx, c.caller, c.session, r, c.canonical)
	}), "cycle", "saved"),
	change("fork.create", true, "a new session from a turn", func(ctx context.Context, c *call, r api.CreateFork) (*api.Session, error) {
		return c.engine.Forks.Fork(ctx, c.caller, c.session, r, forkCanonical(c))
	}),
	endpoint("lineage.path", true, "turn ids with depth, root first", func(ctx context.Context, c *call, r api.GetPath) (*api.Path, error) {
		return c.engine.History.Path(ctx, c.caller, c.session, r)
	}),
	endpoint("lineage.base", true, "the last turn that two paths have in common", func(ctx context.Context, c *call, r api.GetBase) (*api.Base, error) {
		return c.engine.History.Base(ctx, c.caller, c.session, r)
	}),
	endpoint("lineage.find", false, "the sessions and turns that a name may mean", func(ctx context.Context, c *call, r api.FindNames) (*api.Names, error) {
		return c.engine.Sessions.FindNames(ctx, c.caller, r)
	}),
	endpoint("lineage.tree", true, "the tree of forks", func(ctx context.Context, c *call, r api.GetTree) (*api.Tree, error) {
		return c.engine.History.Tree(ctx, c.caller, c.session, r)
	}),
	storing(endpoint("blob.put", false, "store content for turns to come", func(ctx context.Context, c *call, r api.PutBlob) (*api.BlobInfo, error) {
		return c.engine.Writer.PutBlob(ctx, c.caller, r)
	})),
	endpoint("blob.get", false, "the content of a blob", func(ctx context.Context, c *call, r api.GetBlob) (*api.BlobData, error) {
		return c.engine.Reader.GetBlob(ctx, c.caller, r)
	}),
	endpoint("policy.list", false, "the policies that a session can be given", func(ctx context.Context, c *call, r api.ListPolicies) (*api.PolicyList, error) {
		return c.engine.Policies.ListPolicies(ctx, c.caller, r)
	}),
	endpoint("policy.get", false, "a policy with its settings", func(ctx context.Context, c *call, r api.GetPolicy) (*api.PolicyInfo, error) {
		return c.engine.Policies.GetPolicy(ctx, c.caller, r)
	}),
	change("policy.put", false, "a policy of the agent's own", func(ctx context.Context, c *call, r api.PutPolicy) (*api.PolicyInfo, error) {
		return c.engine.Policies.PutPolicy(ctx, c.caller, r, c.canonical)
	}),
	change("event.append", false, "store an external event on a channel", func(ctx context.Context, c *call, r api.AppendEvent) (*api.AppendedEvent, error) {
		return c.engine.Events.AppendEvent(ctx, c.caller, r, c.canonical)
	}),
	endpoint("event.get", false, "an external event, and the turns that name it", func(ctx context.Context, c *call, r api.GetEvent) (*api.Event, error) {
		return c.engine.Events.GetEvent(ctx, c.caller, r)
	}),
	endpoint("event.list", false, "the events of a channel", func(ctx context.Context, c *call, r api.ListEvents) (*api.EventList, error) {
		return c.engine.Events.ListEvents(ctx, c.caller, r)
	}),
	endpoint("event.channels", false, "the agent's channels of external events", func(ctx context.Context, c *call, r api.ListChannels) (*api.ChannelList, error) {
		return c.engine.Events.ListChannels(ctx, c.caller, r)
	}),
	change("memory.save", false, "remember something", func(ctx context.Context, c *call, r api.SaveMemory) (*api.Memory, error) {
		return c.engine.Memories.Save(ctx, c.caller, r, c.canonical)
	}),
	change("memory.withdraw", false, "take a memory, and what derives from it, out of later contexts", func(ctx context.Context, c *call, r api.WithdrawMemory) (*api.WithdrawnMemory, error) {
		return c.engine.Memories.Withdraw(ctx, c.caller, r, c.canonical)
	}),
	change("memory.promote", false, "accept a memory, and show it on every path", func(ctx context.Context, c *call, r api.PromoteMemory) (*api.Memory, error) {
		return c.engine.Memories.Promote(ctx, c.caller, r, c.canonical)
	}),
	storing(endpoint("memory.redact", false, "take a text out of what an agent saved, for ever", func(ctx context.Context, c *call, r api.RedactMemories) (*api.RedactedMemories, error) {
		return c.engine.Memories.Redact(ctx, c.caller, r)
	})),
	endpoint("memory.list", false, "the agent's memories, newest first", func(ctx context.Context, c *call, r api.ListMemories) (*api.MemoryList, error) {
		return c.engine.Memories.List(ctx, c.caller, r)
	}),
	endpoint("memory.search", false, "the agent's memories by words", func(ctx context.Context, c *call, r api.SearchMemories) (*api.MemoryHits, error) {
		return c.engine.Memories.Search(ctx, c.caller, r)
	}),
	// It is no change, so that the document can be read while the disk takes no writes.
	mayStore(endpoint("memory.document", false, "the agent's document: read, or replace", func(ctx context.Context, c *call, r api.MemoryDocument) (_ *api.Document, err error) {
		if r.Text != nil {
			if c.canonical, err = canonical(c.data); err != nil {
				return nil, err
			}
		}
		return c.engine.Memories.Document(ctx, c.caller, r, c.canonical)
	})),
	endpoint("search.query", false, "everything that is stored, by words", func(ctx context.Context, c *call, r api.Search) (*api.SearchHits, error) {
		return c.engine.Search.Query(ctx, c.caller, r)
	}),
	endpoint("ui.open", false, "a link that logs a browser in", func(_ context.Context, c *call, r api.OpenPages) (*api.OpenedPages, error) {
		if c.open == nil {
			return nil, &api.Error{Code: api.Unsupported, Message: "this daemon serves no pages: its HTTP is off"}
		}
		return c.open(c.user, c.caller.Tenant, c.caller.Agent, r)
	}),
	endpoint("audit.verify", false, "check everything that is stored", func(ctx context.Context, c *call, r api.Verify) (*api.Verified, error) {
		return c.engine.Audit.Verify(ctx, c.caller, r)
	}),
	endpoint("audit.checkpoint", false, "a signed checkpoint of all that is stored", func(ctx context.Context, c *call, r api.GetCheckpoint) (*api.Checkpoint, error) {
		return c.engine.Proofs.Checkpoint(ctx, c.caller, r)
	}),
	endpoint("audit.key", false, "the public key of the checkpoints", func(ctx context.Context, c *call, r api.GetKey) (*api.CheckpointKey, error) {
		return c.engine.Proofs.Key(ctx, c.caller, r)
	}),
	endpoint("audit.consistency", false, "that the newest checkpoint continues an older one", func(ctx context.Context, c *call, r api.GetConsistency) (*api.Consistency, error) {
		return c.engine.Proofs.Consistency(ctx, c.caller, r)
	}),
	endpoint("audit.proof", true, "that a turn is below a checkpoint, and what is shown of it", func(ctx context.Context, c *call, r api.GetProof) (*api.TurnProof, error) {
		return c.engine.Proofs.Proof(ctx, c.caller, c.session, r)
	}),
	endpoint("backup.state", false, "what a backup must hold", func(ctx context.Context, c *call, _ api.GetBackup) (*api.BackupState, error) {
		return c.engine.Backup.State(ctx, c.caller, c.everyTenant)
	}),
	endpoint("backup.read", false, "records as they are stored", func(ctx context.Context, c *call, r api.ReadBackup) (*api.BackupRecords, error) {
		return c.engine.Backup.Read(ctx, c.caller, c.everyTenant, r)
	}),
	endpoint("backup.keys", false, "content keys", func(ctx context.Context, c *call, r api.BackupKeys) (*api.BackedUpKeys, error) {
		return c.engine.Backup.Keys(ctx, c.caller, c.everyTenant, r)
	}),
}

// forkCanonical returns the canonical form of a fork, with its parent's session from
// the subject.
func forkCanonical(c *call) []byte {
	return append([]byte(c.session.String()+" "), c.canonical...)
}
