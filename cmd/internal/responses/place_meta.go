package responses

import "nexus/turns"

func (b *placing) meta(in *input) *requestMeta {
	r := b.request
	m := &requestMeta{Version: metaVersion, Door: b.svc.ID, Digest: r.digest, Echo: r.echo("", b.svc.Now()), Items: in.marks(), Left: b.Left, Tips: b.Tips, Encrypt: r.includes("reasoning.encrypted_content")}
	if !r.session.IsZero() {
		m.Echo.Conversation = &conversationRef{conversationPrefix + r.session.String()}
	}
	size := 0
	for _, t := range m.Echo.Tools {
		size += len(t)
	}
	if size > maxEchoTools {
		m.Echo.Tools, m.CutTools = []turns.Raw{}, true
	}
	if r.Instructions != nil && len(*r.Instructions) > maxEchoText {
		m.Echo.Instructions, m.CutText = nil, true
	}
	for i := range m.Items {
		if s := m.Items[i].Said; s != nil && len(*s) > maxKeptSaid {
			m.Items[i].Said = nil
		}
	}
	return m
}
