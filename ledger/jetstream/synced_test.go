package jetstream

import "testing"

func TestAHeaderTellsWhatWasOnTheDisk(t *testing.T) {
	for header, want := range map[string]uint64{
		"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: 7\r\nNexus-Hash: x\r\n\r\n":   7,
		"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: 0\r\nNexus-Synced: 9\r\n\r\n": 9,
		"NATS/1.0\r\nNexus-Hash: x\r\n\r\n":                                             0,
		"NATS/1.0\r\nNexus-Synced: -1\r\n\r\n":                                          0,
		"no header":                                                                     0,
	} {
		if got := SyncedBefore([]byte(header)); got != want {
			t.Errorf("%q: %d, want %d", header, got, want)
		}
	}
}
