// Package transcripttest has the samples and the helpers that tests of several formats use.
// No program imports it.
package transcripttest
