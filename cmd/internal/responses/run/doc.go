// Package run makes responses: a [Flight] asks the model, keeps the events for who follows it,
// and stores the answer; a [Runner] has those under way, and the memory that they share. What
// a crash leaves is in the package comment of responses, whose order [Flight.run] has.
package run
