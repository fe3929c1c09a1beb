// Command release makes a release of Nexus: programs for each platform, archives, packages of
// Debian, the parts of an image for containers, lists of what is inside, and checksums.
//
// .ci/release calls it with the version and a folder. It runs go for the programs, and needs
// no network but the proxy of Go modules. Equal commits make equal bytes: times are that of
// the commit, and the toolchain is that of go.mod.
//
// It is a module of its own, so that what makes packages is in no program that is released.
//
// Begin at run in main.go.
package main
