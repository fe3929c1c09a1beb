// Package local starts a daemon of a command's own, in a folder, without a network address
// that others know.
//
// quickstart works on one; compare reads exports of ours through one. It imports the wiring
// of the daemon.
package local
