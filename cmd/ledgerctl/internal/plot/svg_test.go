package plot

import (
	"testing"
)

// What a session is called must neither end an element nor steer a terminal.
func TestPictureTextIsEscaped(t *testing.T) {
	if got, want := escaped("</text><script>&\"'\x1b[2J\u202e\x00\xff\ufffe"), "&lt;/text&gt;&lt;script&gt;&amp;&#34;&#39;\ufffd[2J\ufffd\ufffd\ufffd\ufffd"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
