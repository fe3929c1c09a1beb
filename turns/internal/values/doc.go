// Package values reads and makes the JSON values that transcripts and providers' messages
// have in common: members of an object in their order, times, the metadata of a turn.
package values
