// Package responses serves the Open Responses API, /v1/responses, to any client library of
// it. A response is two turns of a session: the request's, which is pending, and the
// answer's, whose id follows from the first. previous_response_id names the turn that the
// next one follows; one that is not the head is forked.
//
// A [Server] is a client of the service like every other: it appends through a [client.Client],
// and asks models through [provider.Client]. The daemon gives it both, and puts
// [Server.Handler] behind the guard of package web. It imports neither the engine nor a
// projection.
//
// # What a crash leaves
//
// The order is: the key's claim, turns that hold the beginning of a long input, the request's
// turn, its settings, the compaction that it asked for, the file of events, the event response.created, each further event (file first, then clients), the answer's turn,
// the last event, the end of the file. So a kill leaves one of these:
//
//	before the request's turn    nothing, or a session without turns. No client has an id.
//	                             The key's claim stands: a retry stores the turn.
//	after it, before the file    a pending turn. No client has its id. A retry with the key
//	                             asks the model; without, the next continuation forks.
//	after the beginning of a     a new session with a few turns. No client has its id, and a
//	long input                   retry with the key stores each of them once.
//	after the compaction         the head is the compaction of the pending turn. A retry with
//	                             the key finds it by its id, and makes the same item.
//	after the file               a pending turn and the events that clients saw, or a few
//	                             more. GET tells them, then response.failed, answer_lost.
//	                             A retry with the key asks the model again and says so in
//	                             nexus.lost_answers. With store: false the file has no
//	                             events: it says that the answer will not come, so the next
//	                             request of the session steps over the turn.
//	after the answer's turn      the answer. GET and a retry make its stream again of the
//	                             turn; a file that is left is removed.
//
// No event of a completed response is sent before its answer is durable, and the answer's id
// is one for all tries, so it is stored once. A failed or cancelled response has no answer:
// its file keeps how it ended for 30 days, and the head of the session goes back to the turn
// before.
//
// # Rooms
//
// Lowest first: wire (requests, items, errors), stream (events and their file), place (which
// turn a request follows, and its storing), run (the model's answer). Each imports only those
// before it. socket (WebSockets) and window (compaction items) stand beside them. This package
// is the HTTP on top: begin at [Server.Handler] in server.go, then begin.go, where a request gets
// its place, its turn and its flight. get.go reads a response.
package responses
