// Package ledgertest is what every [ledger.Log] and [ledger.Blobs] must pass:
// [TestLog], [TestBlobs], and [TestFaults] for a log whose way to the store can
// fail. Each test ends with [CheckLog], which reads the whole log again.
package ledgertest
