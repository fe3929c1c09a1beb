package turnview

import (
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/secrets"
)

// MaskMessages masks the credentials in messages.
func MaskMessages(all []turns.Message) {
	for _, m := range all {
		for j := range m.Parts {
			p := &m.Parts[j]
			if p.Ref != nil {
				p.Ref.Preview = secrets.Mask(p.Ref.Preview)
				continue
			}
			text := string(p.ContentBytes())
			if masked := secrets.Mask(text); masked != text {
				p.SetContent([]byte(masked))
			}
		}
	}
}

// Mask masks the credentials in what a turn says.
func Mask(t *api.Turn) {
	MaskMessages(t.Messages)
	if t.Response != nil {
		MaskMessages([]turns.Message{*t.Response})
	}
	k := t.Compaction
	if k == nil {
		return
	}
	MaskMessages(k.Replacement)
	MaskMessages(k.Nudge)
	if k.Summary != nil {
		masked := secrets.Mask(*k.Summary)
		k.Summary = &masked
	}
}
