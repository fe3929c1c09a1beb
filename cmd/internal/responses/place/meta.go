package place

import (
	"nexus/cmd/internal/responses/wire"
	"nexus/turns"
)

func (b *Placing) meta(in *wire.Input) *wire.RequestMeta {
	r := b.Request
	m := &wire.RequestMeta{Version: wire.MetaVersion, Server: b.svc.ID, Digest: r.Digest, Echo: r.Echo("", b.svc.Now()), Items: in.Marks(), Left: b.Left, Tips: b.Tips, Encrypt: r.Includes("reasoning.encrypted_content")}
	if !r.SessionID.IsZero() {
		m.Echo.Conversation = &wire.ConversationRef{ID: wire.ConversationPrefix + r.SessionID.String()}
	}
	size := 0
	for _, t := range m.Echo.Tools {
		size += len(t)
	}
	if size > wire.MaxEchoTools {
		m.Echo.Tools, m.CutTools = []turns.Raw{}, true
	}
	if r.Instructions != nil && len(*r.Instructions) > wire.MaxEchoText {
		m.Echo.Instructions, m.CutText = nil, true
	}
	for i := range m.Items {
		if s := m.Items[i].Said; s != nil && len(*s) > wire.MaxKeptSaid {
			m.Items[i].Said = nil
		}
	}
	return m
}
