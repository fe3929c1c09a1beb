package natsapi

import (
	"testing"

	"github.com/nats-io/nats.go/micro"
)

// A request has one header with its sender, the server's. Beside a client's own, by which it
// could say that it is another connection, it names nobody.
func TestARequestWithTwoSendersIsDenied(t *testing.T) {
	s := &Service{users: func(account string) (User, bool) { return User{Name: "alice"}, account == "A" }}
	server, forged := `{"acc":"A","id":7}`, `{"acc":"A","id":99}`
	if _, connection, err := s.sender(micro.Headers{accountHeader: {server}}); err != nil || connection != "7" {
		t.Errorf("the server's header alone: connection %s, %v", connection, err)
	}
	for _, values := range [][]string{nil, {forged, server}, {server, forged}, {"x"}} {
		if _, connection, err := s.sender(micro.Headers{accountHeader: values}); err == nil {
			t.Errorf("%q is taken for connection %s", values, connection)
		}
	}
}
