// Package sessions creates sessions, changes their settings, moves, resets and
// closes them, and appends their turns. It also keeps labels: names that lead to
// the session that claimed them last, and to its successors.
//
// forks and transfer call it, natsapi above them. Begin at append.go for a turn,
// create.go for a session, label.go for the rules of labels.
package sessions
