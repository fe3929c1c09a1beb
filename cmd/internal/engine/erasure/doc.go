// Package erasure makes the content of a session unreadable for ever, wherever this daemon keeps some.
//
// The event on the session's chain, of kind state, is the commit. It has no body: that would go with
// the key. Behind it everything follows from it, and can be done again:
//
//	before the event   nothing is erased
//	behind it          the session takes no event. The next start destroys the key, as [Erasure.Finish] does
//	key destroyed      no body opens. What is kept in the clear beside the log (the index of words, files,
//	                   events of answers without an end) goes by itself, each store from what it knows of
//	                   the log or of the key; a receipt says which are not done
//
// The key first, then the rest: the rest is made from what the key opens, and would come again.
//
// A redaction takes less: the event that redacts another has its body without what was taken, and is the commit as well. Behind it
// the key of the other event is taken from that of the session, and reads have the new body from the commit on.
//
// It is above the rooms that read and write a session, and below natsapi. Begin at [Erasure.Erase] and [Erasure.Redact].
package erasure
