// Package fork decides which fork is legal at a turn, and which summary the child
// may reuse there.
//
// The engine's package forks calls it and does the I/O. It is pure: it reads nodes
// through a lineage.Reader, and imports packages turns and lineage only.
//
// Begin at [At]; then [Reusable].
package fork
