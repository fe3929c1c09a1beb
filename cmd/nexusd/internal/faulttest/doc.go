// Package faulttest starts real processes, nexusd and NATS servers, and breaks them: it kills and
// pauses them, and loses what they reply. Only tests import it.
//
// The runs are its own tests. docs/TESTING.md has the command of each and its last figures:
//
//   - TestEveryCall kills nexusd at every system call by which an operation changes its files;
//   - TestExactlyOnceR1 and TestExactlyOnceR3 lose replies and retry with the same ids;
//   - TestLinearizable records what several clients saw of a session, and looks for an order that
//     explains it;
//   - TestSoak runs for an hour and compares its last quarter with its second.
//
// Begin reading at process.go. TestKill9 and TestPowerCut of cmd/nexusd use it too.
package faulttest
