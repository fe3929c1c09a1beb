package claude

import (
	"nexus/turns"
	"nexus/turns/internal/values"
	"nexus/turns/transcript/claude/record"
)

// workContext is where an agent worked.
type workContext struct {
	Cwd     string `json:"cwd,omitzero"`
	Branch  string `json:"git_branch,omitzero"`
	Version string `json:"version,omitzero"`
}

func contextOf(rec *record.Line) workContext { return workContext{rec.Cwd, rec.Branch, rec.Version} }

// stepMeta is the meta object of a step. Context is on sessions, and on
// turns where it changed.
type stepMeta struct {
	Source        string             `json:"source,omitzero"`
	Session       string             `json:"session_id,omitzero"`
	Agent         string             `json:"agent_id,omitzero"`
	Sidechain     bool               `json:"sidechain,omitzero"`
	SpawnedByTurn string             `json:"spawned_by_turn,omitzero"` // the turn with the call, in the session of SpawnedBy
	Restarts      string             `json:"restarts,omitzero"`        // the session whose first prompt was rewound
	ForkedFrom    string             `json:"forked_from,omitzero"`     // sessionId of the session that it goes on from
	UUID          string             `json:"uuid,omitzero"`            // of a compaction's or fork's line
	Messages      []string           `json:"messages,omitempty"`       // uuids of the lines in the messages half
	Response      []string           `json:"response,omitempty"`       // uuids of the lines in the response
	Message       string             `json:"message_id,omitzero"`      // the provider's id of the response
	Metadata      turns.Raw          `json:"metadata,omitempty"`       // compactMetadata or microcompactMetadata
	Cost          turns.Raw          `json:"cost,omitempty"`           // in dollars, as older versions wrote it
	Usage         turns.UsageDetails `json:"usage,omitzero"`
	Calls         []turns.ModelCall  `json:"calls,omitempty"`
	workContext   `json:",inline"`
}

func (m stepMeta) raw() turns.Raw {
	return values.Encoded(m)
}
