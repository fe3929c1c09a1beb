package api

import "nexus/turns"

// AppendEvent is event.append: an external event, such as a mail or a webhook call.
type AppendEvent struct {
	ID      turns.ID  `json:"id,omitzero"`
	Channel string    `json:"channel"`
	Kind    string    `json:"kind"`
	Body    turns.Raw `json:"body"` // any JSON value
	Time    *Time     `json:"time,omitempty,omitzero"`
	Meta    turns.Raw `json:"meta,omitzero"` // an object
}

// AppendedEvent is event.append's reply.
type AppendedEvent struct {
	ID        turns.ID   `json:"id"`
	Channel   string     `json:"channel"`
	ChannelID string     `json:"channel_id"` // names the channel in the subjects of notifications
	Index     uint64     `json:"index"`      // ordinal on the channel, from 0
	Hash      turns.Hash `json:"hash"`
	Position  string     `json:"position"`
	Duplicate bool       `json:"duplicate,omitempty,omitzero"` // the id was stored before; nothing was stored now
}

// ListEvents is event.list.
type ListEvents struct {
	Channel string `json:"channel"`
	Page           // after is the next of a page, or the id of an event
	Order   string `json:"order,omitempty,omitzero"` // asc (default), desc
	Kind    string `json:"kind,omitempty,omitzero"`
	From    *Time  `json:"from,omitempty,omitzero"` // events at this time or later: that of the event, else when it was recorded
	To      *Time  `json:"to,omitempty,omitzero"`   // events before this time
	Raw     bool   `json:"raw,omitempty,omitzero"`  // with the stored bytes, which have the hash
	Read
}

// GetEvent is event.get.
type GetEvent struct {
	Channel string   `json:"channel"`
	ID      turns.ID `json:"id"`
	Raw     bool     `json:"raw,omitempty,omitzero"` // with the stored bytes, which have the hash
	Read
}

// Event is an external event.
type Event struct {
	ID       turns.ID       `json:"id"`
	Channel  string         `json:"channel"`
	Kind     string         `json:"kind"`
	Index    uint64         `json:"index"`                   // ordinal on the channel, from 0
	Time     *Time          `json:"time,omitempty,omitzero"` // as the client claimed it
	Recorded Time           `json:"recorded"`                // by the daemon's clock
	Body     turns.Raw      `json:"body,omitzero"`           // a list leaves out a body that is in a blob
	Ref      *turns.BlobRef `json:"ref,omitempty,omitzero"`  // of the JSON text of a body that is in a blob
	Meta     turns.Raw      `json:"meta,omitzero"`
	Turns    []EventTurn    `json:"turns,omitempty,omitzero"` // event.get only: turns whose meta.event names it, at most 100
	Hash     turns.Hash     `json:"hash"`
	PrevHash turns.Hash     `json:"prev_hash,omitzero"` // of the event before it on the channel
	Position string         `json:"position"`
	Payload  []byte         `json:"payload,omitempty,omitzero"` // with raw: the stored bytes, in base64
	Error    Code           `json:"error,omitempty,omitzero"`   // lists only: why the content can't be read

	MissingKey turns.ID `json:"missing_key,omitzero"` // lists only, with error: the content key that is not in the key store
}

// EventTurn names a turn.
type EventTurn struct {
	Session turns.ID `json:"session"`
	Turn    turns.ID `json:"turn"`
}

// EventList is event.list's reply. A page may have no events and a next: those that
// were looked at are of another kind or time.
type EventList struct {
	Channel   string  `json:"channel"`
	ChannelID string  `json:"channel_id"` // names the channel in the subjects of notifications
	Events    []Event `json:"events"`
	Next      string  `json:"next,omitempty,omitzero"`
}

// ListChannels is event.channels.
type ListChannels struct {
	Page
	Read
}

// Channel is a channel of external events.
type Channel struct {
	ID       string     `json:"id"`                         // names the channel in the subjects of notifications
	Channel  string     `json:"channel,omitempty,omitzero"` // empty if it can't be read, with error
	Agent    string     `json:"agent"`
	Count    uint64     `json:"count"`
	Updated  Time       `json:"updated"`
	Hash     turns.Hash `json:"hash"` // of the last event
	Position string     `json:"position"`
	Error    Code       `json:"error,omitempty,omitzero"`

	MissingKey turns.ID `json:"missing_key,omitzero"`
}

// ChannelList is event.channels' reply.
type ChannelList struct {
	Channels []Channel `json:"channels"`
	Next     string    `json:"next,omitempty,omitzero"`
}
