// Package history lists what is stored, a page at a time: sessions, the turns of
// a path, compactions, trees of forks, merge bases.
//
// natsapi calls it. It writes nothing. Begin at turns.go.
package history
