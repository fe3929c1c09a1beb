// Package pi reads and writes sessions of pi: one entry a line, in a tree by parentId. Begin
// at [Read]. entry.go reads an entry, write.go is the other direction.
package pi
