// Package socket serves WebSocket connections on which a client sends requests and gets
// events: one request at work at a time, the others wait in order.
//
// It bounds what a client can take: how many connections there are, how long one lives, how
// large a message is, how many bytes wait, how long a peer may take to send a message or to
// read an event. It knows nothing of what the messages say. It imports no package of the
// module.
//
// Begin at [Server.Serve].
package socket
