// Package ledgertest is the suite that every [ledger.Log] and [ledger.Blobs] must
// pass: [TestLog], [TestBlobs], and [TestFaults] for a log whose connection to the
// store can fail. Each test ends with [CheckLog], which reads the whole log again.
//
// The tests of memlog and jetstream call it. It knows neither: a test gets a
// function that opens an empty log.
package ledgertest
