// Package events keeps the channels of external events: mails, webhook calls, alarms and
// whatever else reached an agent from outside.
//
// A channel is a chain of its own, sealed under a key of its own, and belongs to one
// agent. Its events are never compacted. The room appends to channels ([Events.AppendEvent])
// and lists them; it knows nothing of sessions but that a turn can name an event.
//
// natsapi calls it. It imports writer and reader, and no room of sessions. Begin at
// [Events.AppendEvent].
package events
