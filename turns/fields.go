package turns

import "nexus/turns/internal/cbor"

// The members of the format, each named once: see coder.go. The tags of the types say the
// same to the library that the tests compare with.

// fields are those of the header.
func (e *Event) fields(c *cbor.Coder) {
	m := c.Begin()
	if c.Must(1) {
		c.Number(&e.Version)
	}
	if c.Must(2) {
		cbor.Octet(c, &e.Kind)
	}
	if c.Must(3) {
		c.Fixed(e.ID[:])
	}
	if c.Must(4) {
		c.Array(2)
		cbor.Text(c, &e.Chain.Entity)
		cbor.Text(c, &e.Chain.ID)
	}
	if c.Must(5) {
		c.Number(&e.Index)
	}
	c.Opaque(6, e.Prev[:])
	c.Time(7, &e.Claimed)
	if c.Must(8) {
		c.Signed(&e.Recorded)
	}
	cbor.Str(c, 9, &e.Actor)
	c.Opaque(10, e.Digest[:])
	ref(c, 11, &e.Parent)
	c.Count(12, &e.Depth)
	c.Opaque(13, e.Segment[:])
	cbor.Small(c, 14, &e.Halves)
	c.Count(15, &e.Calls)
	if c.Member(16, !e.Tokens.IsZero()) {
		e.Tokens.values(c)
		c.Set(16, e.Tokens.IsZero())
	}
	object(c, 17, &e.Span)
	object(c, 18, &e.Usage)
	c.Count(19, &e.Open)
	if c.Member(20, e.Origin != nil) {
		e.Origin = some(c, e.Origin)
		c.Array(3)
		c.Fixed(e.Origin.Ledger[:])
		cbor.Text(c, &e.Origin.Tenant)
		c.Fixed(e.Origin.Session[:])
	}
	if c.Member(21, e.ForkOf != nil) {
		e.ForkOf = some(c, e.ForkOf)
		c.Array(3)
		pair(c, &e.ForkOf.At)
		c.Fixed(e.ForkOf.Hash[:])
		cbor.Octet(c, &e.ForkOf.Mode)
	}
	c.Opaque(22, e.Root[:])
	cbor.Str(c, 23, &e.Agent)
	cbor.Str(c, 24, &e.Role)
	ref(c, 25, &e.SpawnedBy)
	c.Count(26, &e.Late)
	c.Count(27, &e.Abandoned)
	c.Count(28, &e.UserTexts)
	ref(c, 30, &e.To)
	cbor.Small(c, 31, &e.State)
	c.Opaque(32, e.Successor[:])
	object(c, 33, &e.Flush)
	object(c, 34, &e.Policy)
	c.Bool(35, &e.Timed)
	object(c, 36, &e.Memory)
	object(c, 37, &e.Document)
	learned := cbor.List(c, 38, &e.Learned, 36)
	for i := range learned {
		c.Array(2)
		cbor.Octet(c, &learned[i].Kind)
		c.Fixed(learned[i].Text[:])
	}
	if c.Member(39, e.External != nil) {
		e.External = some(c, e.External)
		c.Array(2)
		cbor.Text(c, &e.External.Channel)
		c.Fixed(e.External.ID[:])
	}
	blobs := cbor.List(c, 40, &e.Blobs, 36) // a digest with its head, the array's, a size
	for i := range blobs {
		c.Array(2)
		c.Fixed(blobs[i].Address[:])
		c.Number(&blobs[i].Size)
	}
	cbor.Small(c, 41, &e.Encoding)
	ids(c, 42, &e.Keys)
	c.Opaque(43, e.Commitment[:])
	cbor.Str(c, 44, &e.Sender)
	c.Bool(45, &e.Hidden)
	c.End(m, 45)
}

// some is v, or a new value to read into.
func some[T any](c *cbor.Coder, v *T) *T {
	if c.Reading() {
		return new(T)
	}
	return v
}

func ids(c *cbor.Coder, k byte, v *[]ID) {
	s := cbor.List(c, k, v, 17)
	for i := range s {
		c.Fixed(s[i][:])
	}
}

func (t *Tokens) values(c *cbor.Coder) {
	c.Array(3)
	cbor.Text(c, &t.Counter)
	c.Number(&t.Messages)
	c.Number(&t.Response)
}

func (s *Span) fields(c *cbor.Coder) {
	m := c.Begin()
	ref(c, 1, &s.Through)
	ref(c, 2, &s.FirstKept)
	c.Bool(3, &s.Split)
	ref(c, 4, &s.SawThrough)
	ref(c, 5, &s.Previous)
	if c.Must(6) {
		cbor.Octet(c, &s.Provenance)
	}
	c.Bool(7, &s.Dropped)
	elisions := cbor.List(c, 8, &s.Elisions, 39)
	for i := range elisions {
		x := &elisions[i]
		c.Array(4)
		pair(c, &x.Turn)
		cbor.Octet(c, &x.Half)
		c.Number(&x.Message)
		c.Number(&x.Part)
	}
	c.Count(9, &s.Covered)
	c.Bool(10, &s.Call)
	c.End(m, 10)
}

func (u *Usage) fields(c *cbor.Coder) {
	m := c.Begin()
	c.Count(1, &u.InputTokens)
	c.Count(2, &u.OutputTokens)
	c.Count(3, &u.CacheRead)
	c.Count(4, &u.CacheCreation)
	c.End(m, 4)
}

func (f *Flush) fields(c *cbor.Coder) {
	m := c.Begin()
	if c.Must(1) {
		cbor.Octet(c, &f.State)
	}
	if c.Must(2) {
		c.Number(&f.Cycle)
	}
	ref(c, 3, &f.After)
	if c.Must(4) {
		c.Number(&f.Try)
	}
	c.Time(5, &f.Lease)
	c.End(m, 5)
}

func (p *StoredPolicy) fields(c *cbor.Coder) {
	m := c.Begin()
	if c.Must(1) {
		c.Fixed(p.Digest[:])
	}
	c.Opaque(2, p.Name[:])
	c.Count(3, &p.Version)
	c.End(m, 3)
}

func (x *Memory) fields(c *cbor.Coder) {
	m := c.Begin()
	if c.Must(1) {
		cbor.Octet(c, &x.State)
	}
	cbor.Small(c, 2, &x.Kind)
	cbor.Small(c, 3, &x.Trust)
	c.Opaque(4, x.Text[:])
	c.Bool(5, &x.Private)
	ref(c, 6, &x.Branch)
	sources(c, 7, &x.Sources)
	ids(c, 8, &x.From)
	c.Opaque(9, x.Supersedes[:])
	c.Opaque(10, x.Of[:])
	c.Time(11, &x.ValidFrom)
	c.End(m, 11)
}

func sources(c *cbor.Coder, k byte, v *[]Source) {
	s := cbor.List(c, k, v, 70)
	for i := range s {
		c.Array(2)
		pair(c, &s[i].Turn)
		c.Fixed(s[i].Hash[:])
	}
}

func (d *StoredDocument) fields(c *cbor.Coder) {
	m := c.Begin()
	if c.Must(1) {
		c.Number(&d.Version)
	}
	if c.Must(2) {
		c.Fixed(d.Text[:])
	}
	sources(c, 3, &d.Sources)
	c.End(m, 3)
}

// The bodies.

func (b *OpenedBody) fields(c *cbor.Coder) {
	m := c.Begin()
	cbor.Str(c, 1, &b.Label)
	if c.Must(2) {
		b.Settings.fields(c)
	}
	c.End(m, 2)
}

func (b *ChangedBody) fields(c *cbor.Coder) { (*OpenedBody)(b).fields(c) }

func (s *Settings) fields(c *cbor.Coder) {
	m := c.Begin()
	if c.Must(1) {
		s.Policy.fields(c)
	}
	cbor.Str(c, 2, &s.Model)
	if c.Must(3) {
		s.Preamble.fields(c)
	}
	if c.Must(4) {
		s.Limits.fields(c)
	}
	rawOf(c, 5, &s.Meta, '{')
	cbor.Str(c, 6, &s.User)
	rawOf(c, 7, &s.Reset, '{')
	object(c, 8, &s.PreambleBlob)
	ref(c, 9, &s.SpawnedBy)
	if s.SpawnedBy.Session.IsZero() && !s.SpawnedBy.IsZero() {
		c.Fail(ErrMalformed, "spawned by a turn without a session")
	}
	c.End(m, 9)
}

func (p *PolicyRef) fields(c *cbor.Coder) {
	m := c.Begin()
	if c.Must(1) {
		cbor.Text(c, &p.Name)
	}
	rawOf(c, 2, &p.Set, '{')
	c.Opaque(3, p.Digest[:])
	c.End(m, 3)
}

func (p *Preamble) fields(c *cbor.Coder) {
	m := c.Begin()
	objects(c, 1, &p.System)
	tools := cbor.List(c, 2, &p.Tools, 1)
	for i := range tools {
		jsonValue(c, &tools[i], '{')
	}
	c.End(m, 2)
}

func (s *Section) fields(c *cbor.Coder) {
	m := c.Begin()
	cbor.Str(c, 1, &s.Name)
	if c.Must(2) {
		cbor.Text(c, &s.Content)
	}
	c.End(m, 2)
}

func (l *Limits) fields(c *cbor.Coder) {
	m := c.Begin()
	c.Count(1, &l.ContextWindow)
	c.Count(2, &l.MaxOutputTokens)
	c.Count(3, &l.SafetyMargin)
	c.End(m, 3)
}

func (b *TurnBody) fields(c *cbor.Coder) {
	m := c.Begin()
	objects(c, 1, &b.Messages)
	object(c, 2, &b.Response)
	cbor.Str(c, 3, &b.Model)
	rawOf(c, 5, &b.Meta, '{')
	object(c, 6, &b.Context)
	c.Opaque(7, b.Preamble[:])
	c.End(m, 7)
}

func (r *ContextRef) fields(c *cbor.Coder) {
	m := c.Begin()
	raw(c, 1, &r.Recipe)
	cbor.Str(c, 2, &r.Fingerprint)
	c.End(m, 2)
}

func (x *Message) fields(c *cbor.Coder) {
	m := c.Begin()
	if c.Must(1) {
		cbor.Text(c, &x.Role)
	}
	objects(c, 2, &x.Parts)
	cbor.Str(c, 3, &x.Name)
	cbor.Str(c, 4, &x.FinishReason)
	c.End(m, 4)
}

func (p *Part) fields(c *cbor.Coder) {
	m := c.Begin()
	if c.Must(1) {
		cbor.Text(c, &p.Type)
		if c.Reading() && !p.Type.known() {
			c.Fail(ErrUnsupported, "a part of type %q", clip(string(p.Type), 40)) // a later build's
		}
	}
	cbor.Str(c, 2, &p.Content)
	cbor.Str(c, 3, &p.ID)
	cbor.Str(c, 4, &p.Name)
	raw(c, 5, &p.Arguments)
	raw(c, 6, &p.Response)
	c.Bool(7, &p.IsError)
	cbor.Str(c, 8, &p.Modality)
	cbor.Str(c, 9, &p.MimeType)
	c.Bytes(10, &p.Data)
	object(c, 11, &p.Ref)
	rawOf(c, 12, &p.Ext, '{')
	c.End(m, 12)
}

func (r *BlobRef) fields(c *cbor.Coder) {
	m := c.Begin()
	if c.Must(1) {
		c.Fixed(r.Digest[:])
	}
	if c.Must(2) {
		c.Number(&r.Size)
	}
	cbor.Str(c, 3, &r.MimeType)
	cbor.Str(c, 4, &r.Preview)
	pieces := cbor.List(c, 5, &r.Pieces, 34)
	for i := range pieces {
		c.Fixed(pieces[i][:])
	}
	c.End(m, 5)
}

func (b *CompactionBody) fields(c *cbor.Coder) {
	m := c.Begin()
	if c.Must(1) {
		b.Policy.fields(c)
	}
	if c.Must(2) {
		b.Trigger.fields(c)
	}
	if c.Must(3) {
		cbor.Text(c, &b.Mode)
	}
	cbor.Str(c, 4, &b.Tier)
	c.Opaque(5, b.Plan[:])
	objects(c, 6, &b.Replacement)
	cbor.Str(c, 7, &b.Summary)
	objects(c, 8, &b.Elided)
	c.Count(9, &b.TokensBefore)
	c.Count(10, &b.TokensAfter)
	rawOf(c, 11, &b.Survival, '{')
	c.Count(13, &b.CostMicros)
	c.Count(14, &b.DurationMS)
	cbor.Str(c, 15, &b.Focus)
	c.Bool(16, &b.FromOriginals)
	rawOf(c, 17, &b.Memories, '[')
	cbor.Str(c, 18, &b.Flush)
	raw(c, 19, &b.Meta)
	objects(c, 20, &b.Nudge)
	cbor.Str(c, 21, &b.Model)
	c.End(m, 21)
}

func (t *Trigger) fields(c *cbor.Coder) {
	m := c.Begin()
	if c.Must(1) {
		cbor.Text(c, &t.Kind)
	}
	raw(c, 2, &t.Detail)
	c.End(m, 2)
}

func (x *ElidedPart) fields(c *cbor.Coder) {
	m := c.Begin()
	if c.Must(1) {
		cbor.Text(c, &x.Method)
	}
	cbor.Str(c, 2, &x.Show)
	if c.Must(3) {
		c.Number(&x.Before)
	}
	if c.Must(4) {
		c.Number(&x.After)
	}
	cbor.Str(c, 5, &x.Tool)
	c.End(m, 5)
}

func (b *MovedBody) fields(c *cbor.Coder) {
	m := c.Begin()
	cbor.Str(c, 1, &b.Note)
	c.End(m, 1)
}

func (b *StateBody) fields(c *cbor.Coder) {
	m := c.Begin()
	cbor.Str(c, 1, &b.Cause)
	c.Time(2, &b.Due)
	c.End(m, 2)
}

func (b *HiddenBody) fields(c *cbor.Coder) {
	m := c.Begin()
	cbor.Str(c, 1, &b.Cause)
	c.End(m, 1)
}

func (b *DescribedBody) fields(c *cbor.Coder) {
	m := c.Begin()
	cbor.Str(c, 1, &b.Title)
	tags := cbor.List(c, 2, &b.Tags, 1)
	for i := range tags {
		cbor.Text(c, &tags[i])
	}
	cbor.Str(c, 3, &b.Project)
	c.End(m, 3)
}

func (b *NotedBody) fields(c *cbor.Coder) {
	m := c.Begin()
	if c.Must(1) {
		cbor.Text(c, &b.Text)
	}
	c.End(m, 1)
}

func (b *RedactedBody) fields(c *cbor.Coder) {
	m := c.Begin()
	if c.Must(1) {
		cbor.Octet(c, &b.Kind)
	}
	if c.Must(2) {
		c.Binary(&b.Body)
	}
	leaves := cbor.List(c, 3, &b.Leaves, 36)
	for i := range leaves {
		c.Array(2)
		cbor.Octet(c, &leaves[i].State)
		c.Fixed(leaves[i].Value[:])
	}
	c.End(m, 3)
}

func (b *FlushBody) fields(c *cbor.Coder) {
	m := c.Begin()
	c.Count(1, &b.Saved)
	cbor.Str(c, 2, &b.Response)
	cbor.Str(c, 3, &b.Error)
	c.End(m, 3)
}

func (b *PolicyBody) fields(c *cbor.Coder) {
	m := c.Begin()
	if c.Must(1) {
		cbor.Text(c, &b.Name)
	}
	if c.Must(2) {
		c.Number(&b.Version)
	}
	if c.Must(3) {
		c.Binary(&b.Content)
	}
	c.End(m, 3)
}

func (b *ReceivedBody) fields(c *cbor.Coder) {
	m := c.Begin()
	if c.Must(1) {
		cbor.Text(c, &b.Channel)
	}
	if c.Must(2) {
		cbor.Text(c, &b.Kind)
	}
	raw(c, 3, &b.Body)
	object(c, 4, &b.Blob)
	rawOf(c, 5, &b.Meta, '{')
	c.End(m, 5)
}

func (b *ClaimedBody) fields(c *cbor.Coder) {
	m := c.Begin()
	if c.Must(1) {
		cbor.Text(c, &b.Label)
	}
	c.End(m, 1)
}

func (b *MemoryBody) fields(c *cbor.Coder) {
	m := c.Begin()
	if c.Must(1) {
		cbor.Text(c, &b.Text)
	}
	cbor.Str(c, 2, &b.Zone)
	cbor.Str(c, 3, &b.User)
	c.Bool(4, &b.Extracted)
	c.End(m, 4)
}

func (b *MemoryChangedBody) fields(c *cbor.Coder) {
	m := c.Begin()
	cbor.Str(c, 1, &b.Reason)
	c.End(m, 1)
}

func (b *DocumentBody) fields(c *cbor.Coder) {
	m := c.Begin()
	cbor.Str(c, 1, &b.Text)
	c.End(m, 1)
}
