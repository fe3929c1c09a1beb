package turns

import (
	"bytes"

	"github.com/go-json-experiment/json"
)

// ExternalEvent returns the external event that the meta of a turn names in its member
// event: the name of its channel and its id. ok is false for any other meta.
func ExternalEvent(meta Raw) (channel string, id ID, ok bool) {
	if !bytes.Contains(meta, []byte(`"event"`)) {
		return "", ID{}, false
	}
	var m struct {
		Event struct {
			Channel string `json:"channel"`
			ID      ID     `json:"id"`
		} `json:"event"`
	}
	if err := json.Unmarshal(meta, &m); err != nil || m.Event.ID.IsZero() || ValidateLabel("", m.Event.Channel) != nil {
		return "", ID{}, false
	}
	return m.Event.Channel, m.Event.ID, true
}
