// Package place says which turn of which session a request follows, and stores it there: at
// the head, after another turn, on a fork, or in a new session. Which turn that is follows from
// what the ledger says by a pure function ([Plan]); [Placing] asks the ledger and does it.
//
// target.go finds the session, store.go the head and what it waits for, known.go how much of
// the input the session has; manage.go compacts where the request asks for it, settings.go
// makes the settings in force those of the request.
package place
