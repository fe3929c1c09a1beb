package turns

// The members of the format, each named once: see [coder]. The tags of the types say the
// same to the library that the tests compare with.

// fields are those of the header.
func (e *Event) fields(c *coder) {
	m := c.begin()
	if c.must(1) {
		c.number(&e.Version)
	}
	if c.must(2) {
		octet(c, &e.Kind)
	}
	if c.must(3) {
		c.fixed(e.ID[:])
	}
	if c.must(4) {
		c.array(2)
		text(c, &e.Chain.Entity)
		text(c, &e.Chain.ID)
	}
	if c.must(5) {
		c.number(&e.Index)
	}
	c.hash(6, &e.Prev)
	c.time(7, &e.Claimed)
	if c.must(8) {
		c.signed(&e.Recorded)
	}
	str(c, 9, &e.Actor)
	c.hash(10, &e.Digest)
	c.ref(11, &e.Parent)
	c.count(12, &e.Depth)
	c.id(13, &e.Segment)
	small(c, 14, &e.Halves)
	c.count(15, &e.Calls)
	if c.member(16, !e.Tokens.IsZero()) {
		e.Tokens.values(c)
		c.set(16, e.Tokens.IsZero())
	}
	object(c, 17, &e.Span)
	object(c, 18, &e.Usage)
	c.count(19, &e.Open)
	if c.member(20, e.Origin != nil) {
		e.Origin = some(c, e.Origin)
		c.array(3)
		c.fixed(e.Origin.Ledger[:])
		text(c, &e.Origin.Tenant)
		c.fixed(e.Origin.Session[:])
	}
	if c.member(21, e.ForkOf != nil) {
		e.ForkOf = some(c, e.ForkOf)
		c.array(3)
		c.pair(&e.ForkOf.At)
		c.fixed(e.ForkOf.Hash[:])
		octet(c, &e.ForkOf.Mode)
	}
	c.id(22, &e.Root)
	str(c, 23, &e.Agent)
	str(c, 24, &e.Role)
	c.ref(25, &e.SpawnedBy)
	c.count(26, &e.Late)
	c.count(27, &e.Abandoned)
	c.count(28, &e.UserTexts)
	c.ref(30, &e.To)
	small(c, 31, &e.State)
	c.id(32, &e.Successor)
	object(c, 33, &e.Flush)
	object(c, 34, &e.Policy)
	c.bool(35, &e.Timed)
	object(c, 36, &e.Memory)
	object(c, 37, &e.Document)
	learned := list(c, 38, &e.Learned, 36)
	for i := range learned {
		c.array(2)
		octet(c, &learned[i].Kind)
		c.fixed(learned[i].Text[:])
	}
	if c.member(39, e.External != nil) {
		e.External = some(c, e.External)
		c.array(2)
		text(c, &e.External.Channel)
		c.fixed(e.External.ID[:])
	}
	blobs := list(c, 40, &e.Blobs, 36) // a digest with its head, the array's, a size
	for i := range blobs {
		c.array(2)
		c.fixed(blobs[i].Address[:])
		c.number(&blobs[i].Size)
	}
	small(c, 41, &e.Encoding)
	ids(c, 42, &e.Keys)
	c.hash(43, &e.Commitment)
	str(c, 44, &e.Sender)
	c.bool(45, &e.Hidden)
	c.end(m, 45)
}

// some is v, or a new value to read into.
func some[T any](c *coder, v *T) *T {
	if c.reading {
		return new(T)
	}
	return v
}

func ids(c *coder, k byte, v *[]ID) {
	s := list(c, k, v, 17)
	for i := range s {
		c.fixed(s[i][:])
	}
}

func (t *Tokens) values(c *coder) {
	c.array(3)
	text(c, &t.Counter)
	c.number(&t.Messages)
	c.number(&t.Response)
}

func (s *Span) fields(c *coder) {
	m := c.begin()
	c.ref(1, &s.Through)
	c.ref(2, &s.FirstKept)
	c.bool(3, &s.Split)
	c.ref(4, &s.SawThrough)
	c.ref(5, &s.Previous)
	if c.must(6) {
		octet(c, &s.Provenance)
	}
	c.bool(7, &s.Dropped)
	elisions := list(c, 8, &s.Elisions, 39)
	for i := range elisions {
		x := &elisions[i]
		c.array(4)
		c.pair(&x.Turn)
		octet(c, &x.Half)
		c.number(&x.Message)
		c.number(&x.Part)
	}
	c.count(9, &s.Covered)
	c.bool(10, &s.Call)
	c.end(m, 10)
}

func (u *Usage) fields(c *coder) {
	m := c.begin()
	c.count(1, &u.InputTokens)
	c.count(2, &u.OutputTokens)
	c.count(3, &u.CacheRead)
	c.count(4, &u.CacheCreation)
	c.end(m, 4)
}

func (f *Flush) fields(c *coder) {
	m := c.begin()
	if c.must(1) {
		octet(c, &f.State)
	}
	if c.must(2) {
		c.number(&f.Cycle)
	}
	c.ref(3, &f.After)
	if c.must(4) {
		c.number(&f.Try)
	}
	c.time(5, &f.Lease)
	c.end(m, 5)
}

func (p *StoredPolicy) fields(c *coder) {
	m := c.begin()
	if c.must(1) {
		c.fixed(p.Digest[:])
	}
	c.hash(2, &p.Name)
	c.count(3, &p.Version)
	c.end(m, 3)
}

func (x *Memory) fields(c *coder) {
	m := c.begin()
	if c.must(1) {
		octet(c, &x.State)
	}
	small(c, 2, &x.Kind)
	small(c, 3, &x.Trust)
	c.hash(4, &x.Text)
	c.bool(5, &x.Private)
	c.ref(6, &x.Branch)
	sources(c, 7, &x.Sources)
	ids(c, 8, &x.From)
	c.id(9, &x.Supersedes)
	c.id(10, &x.Of)
	c.time(11, &x.ValidFrom)
	c.end(m, 11)
}

func sources(c *coder, k byte, v *[]Source) {
	s := list(c, k, v, 70)
	for i := range s {
		c.array(2)
		c.pair(&s[i].Turn)
		c.fixed(s[i].Hash[:])
	}
}

func (d *StoredDocument) fields(c *coder) {
	m := c.begin()
	if c.must(1) {
		c.number(&d.Version)
	}
	if c.must(2) {
		c.fixed(d.Text[:])
	}
	sources(c, 3, &d.Sources)
	c.end(m, 3)
}

// The bodies.

func (b *OpenedBody) fields(c *coder) {
	m := c.begin()
	str(c, 1, &b.Label)
	if c.must(2) {
		b.Settings.fields(c)
	}
	c.end(m, 2)
}

func (b *ChangedBody) fields(c *coder) { (*OpenedBody)(b).fields(c) }

func (s *Settings) fields(c *coder) {
	m := c.begin()
	if c.must(1) {
		s.Policy.fields(c)
	}
	str(c, 2, &s.Model)
	if c.must(3) {
		s.Preamble.fields(c)
	}
	if c.must(4) {
		s.Limits.fields(c)
	}
	c.rawOf(5, &s.Meta, '{')
	str(c, 6, &s.User)
	c.rawOf(7, &s.Reset, '{')
	object(c, 8, &s.PreambleBlob)
	c.ref(9, &s.SpawnedBy)
	if s.SpawnedBy.Session.IsZero() && !s.SpawnedBy.IsZero() {
		c.fail(ErrMalformed, "spawned by a turn without a session")
	}
	c.end(m, 9)
}

func (p *PolicyRef) fields(c *coder) {
	m := c.begin()
	if c.must(1) {
		text(c, &p.Name)
	}
	c.rawOf(2, &p.Set, '{')
	c.hash(3, &p.Digest)
	c.end(m, 3)
}

func (p *Preamble) fields(c *coder) {
	m := c.begin()
	objects(c, 1, &p.System)
	tools := list(c, 2, &p.Tools, 1)
	for i := range tools {
		c.json(&tools[i], '{')
	}
	c.end(m, 2)
}

func (s *Section) fields(c *coder) {
	m := c.begin()
	str(c, 1, &s.Name)
	if c.must(2) {
		text(c, &s.Content)
	}
	c.end(m, 2)
}

func (l *Limits) fields(c *coder) {
	m := c.begin()
	c.count(1, &l.ContextWindow)
	c.count(2, &l.MaxOutputTokens)
	c.count(3, &l.SafetyMargin)
	c.end(m, 3)
}

func (b *TurnBody) fields(c *coder) {
	m := c.begin()
	objects(c, 1, &b.Messages)
	object(c, 2, &b.Response)
	str(c, 3, &b.Model)
	c.rawOf(5, &b.Meta, '{')
	object(c, 6, &b.Context)
	c.hash(7, &b.Preamble)
	c.end(m, 7)
}

func (r *ContextRef) fields(c *coder) {
	m := c.begin()
	c.raw(1, &r.Recipe)
	str(c, 2, &r.Fingerprint)
	c.end(m, 2)
}

func (x *Message) fields(c *coder) {
	m := c.begin()
	if c.must(1) {
		text(c, &x.Role)
	}
	objects(c, 2, &x.Parts)
	str(c, 3, &x.Name)
	str(c, 4, &x.FinishReason)
	c.end(m, 4)
}

func (p *Part) fields(c *coder) {
	m := c.begin()
	if c.must(1) {
		text(c, &p.Type)
		if c.reading && !p.Type.known() {
			c.fail(ErrUnsupported, "a part of type %q", clip(string(p.Type), 40)) // a later build's
		}
	}
	str(c, 2, &p.Content)
	str(c, 3, &p.ID)
	str(c, 4, &p.Name)
	c.raw(5, &p.Arguments)
	c.raw(6, &p.Response)
	c.bool(7, &p.IsError)
	str(c, 8, &p.Modality)
	str(c, 9, &p.MimeType)
	c.bytes(10, &p.Data)
	object(c, 11, &p.Ref)
	c.rawOf(12, &p.Ext, '{')
	c.end(m, 12)
}

func (r *BlobRef) fields(c *coder) {
	m := c.begin()
	if c.must(1) {
		c.fixed(r.Digest[:])
	}
	if c.must(2) {
		c.number(&r.Size)
	}
	str(c, 3, &r.MimeType)
	str(c, 4, &r.Preview)
	pieces := list(c, 5, &r.Pieces, 34)
	for i := range pieces {
		c.fixed(pieces[i][:])
	}
	c.end(m, 5)
}

func (b *CompactionBody) fields(c *coder) {
	m := c.begin()
	if c.must(1) {
		b.Policy.fields(c)
	}
	if c.must(2) {
		b.Trigger.fields(c)
	}
	if c.must(3) {
		text(c, &b.Mode)
	}
	str(c, 4, &b.Tier)
	c.hash(5, &b.Plan)
	objects(c, 6, &b.Replacement)
	str(c, 7, &b.Summary)
	objects(c, 8, &b.Elided)
	c.count(9, &b.TokensBefore)
	c.count(10, &b.TokensAfter)
	c.rawOf(11, &b.Survival, '{')
	c.count(13, &b.CostMicros)
	c.count(14, &b.DurationMS)
	str(c, 15, &b.Focus)
	c.bool(16, &b.FromOriginals)
	c.rawOf(17, &b.Memories, '[')
	str(c, 18, &b.Flush)
	c.raw(19, &b.Meta)
	objects(c, 20, &b.Nudge)
	str(c, 21, &b.Model)
	c.end(m, 21)
}

func (t *Trigger) fields(c *coder) {
	m := c.begin()
	if c.must(1) {
		text(c, &t.Kind)
	}
	c.raw(2, &t.Detail)
	c.end(m, 2)
}

func (x *ElidedPart) fields(c *coder) {
	m := c.begin()
	if c.must(1) {
		text(c, &x.Method)
	}
	str(c, 2, &x.Show)
	if c.must(3) {
		c.number(&x.Before)
	}
	if c.must(4) {
		c.number(&x.After)
	}
	str(c, 5, &x.Tool)
	c.end(m, 5)
}

func (b *MovedBody) fields(c *coder) {
	m := c.begin()
	str(c, 1, &b.Note)
	c.end(m, 1)
}

func (b *StateBody) fields(c *coder) {
	m := c.begin()
	str(c, 1, &b.Cause)
	c.time(2, &b.Due)
	c.end(m, 2)
}

func (b *HiddenBody) fields(c *coder) {
	m := c.begin()
	str(c, 1, &b.Cause)
	c.end(m, 1)
}

func (b *DescribedBody) fields(c *coder) {
	m := c.begin()
	str(c, 1, &b.Title)
	tags := list(c, 2, &b.Tags, 1)
	for i := range tags {
		text(c, &tags[i])
	}
	str(c, 3, &b.Project)
	c.end(m, 3)
}

func (b *NotedBody) fields(c *coder) {
	m := c.begin()
	if c.must(1) {
		text(c, &b.Text)
	}
	c.end(m, 1)
}

func (b *RedactedBody) fields(c *coder) {
	m := c.begin()
	if c.must(1) {
		octet(c, &b.Kind)
	}
	if c.must(2) {
		c.binary(&b.Body)
	}
	leaves := list(c, 3, &b.Leaves, 36)
	for i := range leaves {
		c.array(2)
		octet(c, &leaves[i].State)
		c.fixed(leaves[i].Value[:])
	}
	c.end(m, 3)
}

func (b *FlushBody) fields(c *coder) {
	m := c.begin()
	c.count(1, &b.Saved)
	str(c, 2, &b.Response)
	str(c, 3, &b.Error)
	c.end(m, 3)
}

func (b *PolicyBody) fields(c *coder) {
	m := c.begin()
	if c.must(1) {
		text(c, &b.Name)
	}
	if c.must(2) {
		c.number(&b.Version)
	}
	if c.must(3) {
		c.binary(&b.Content)
	}
	c.end(m, 3)
}

func (b *ReceivedBody) fields(c *coder) {
	m := c.begin()
	if c.must(1) {
		text(c, &b.Channel)
	}
	if c.must(2) {
		text(c, &b.Kind)
	}
	c.raw(3, &b.Body)
	object(c, 4, &b.Blob)
	c.rawOf(5, &b.Meta, '{')
	c.end(m, 5)
}

func (b *ClaimedBody) fields(c *coder) {
	m := c.begin()
	if c.must(1) {
		text(c, &b.Label)
	}
	c.end(m, 1)
}

func (b *MemoryBody) fields(c *coder) {
	m := c.begin()
	if c.must(1) {
		text(c, &b.Text)
	}
	str(c, 2, &b.Zone)
	str(c, 3, &b.User)
	c.bool(4, &b.Extracted)
	c.end(m, 4)
}

func (b *MemoryChangedBody) fields(c *coder) {
	m := c.begin()
	str(c, 1, &b.Reason)
	c.end(m, 1)
}

func (b *DocumentBody) fields(c *coder) {
	m := c.begin()
	str(c, 1, &b.Text)
	c.end(m, 1)
}
