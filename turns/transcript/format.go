package transcript

import (
	"crypto/sha256"
	"io"
	"nexus/turns"
)

// Format is a format of transcripts.
type Format struct {
	Name  string
	Sniff func(head []byte) bool // reports whether a file that begins with head is of it
	Open  func(io.Reader, Options) *Reader
	// Version is that of the reader, from 1. It is raised with a change after which files
	// read differently, so that what was imported before can be read again.
	Version int

	// SharesIDs says that a turn has the same id in each file that has it: files that copy
	// each other are joined at the turns which they share.
	SharesIDs bool

	// RelatedByID says that a file has to do with another one only where an id is in the steps
	// of both. Of other formats two files may also have to do with each other by what they call
	// their sessions.
	RelatedByID bool

	// Lines reads a file of one object a line, which only grows; nil: the format has none.
	// IsLines reports whether a file is one of those; nil: each is.
	Lines   func(io.Reader, Options) *Reader
	IsLines func(head []byte) bool

	Write func(WrittenSession) Writer // nil: the format is not written
}

// Follow returns a follower of a transcript of format f, nil if no file of f only grows.
// [Options].Final has no meaning for it.
func (f Format) Follow(opt Options) *Follower {
	if f.Lines == nil {
		return nil
	}
	opt.Final = false
	x := &Follower{Early: make(map[turns.ID][sha256.Size]byte)}
	x.r = f.Lines(&x.in, opt)
	return x
}

// Grows reports whether a file that begins with head is one object a line and only grows,
// so that [Format.Follow] reads it. Other files are written anew as a whole.
func (f Format) Grows(head []byte) bool {
	return f.Lines != nil && (f.IsLines == nil || f.IsLines(head))
}
