package reader

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
)

// TurnCursor is a place in a list of turns. It pins the head of the first page, so
// that all pages are of one path even if turns are appended or the head moves in
// between.
type TurnCursor struct {
	Head   lineage.Node
	Lo, Hi uint64 // depths still to list
	desc   bool
}

// Next returns the next of a page that ends with the turn at depth.
func (c TurnCursor) Next(depth uint64) string {
	return fmt.Sprintf("%d~%s~%s", depth, c.Head.Ref.Session, c.Head.Ref.Turn)
}

// ParseTurnCursor parses after: the next of a page, or the id of a turn on the path.
func (rd *Reader) ParseTurnCursor(s *ledger.Session, head lineage.Node, after string, desc bool) (TurnCursor, error) {
	c := TurnCursor{Head: head, Lo: 1, Hi: head.Depth, desc: desc}
	if after == "" {
		return c, nil
	}
	bad := api.FieldErrorf("/after", "neither a turn of the path nor what a page gave as next")
	depth, ref, paged := strings.Cut(after, "~")
	var at uint64
	if paged {
		sess, turn, _ := strings.Cut(ref, "~")
		sid, err1 := turns.ParseID(sess)
		tid, err2 := turns.ParseID(turn)
		d, err3 := strconv.ParseUint(depth, 10, 64)
		if errors.Join(err1, err2, err3) != nil {
			return c, bad
		}
		n, err := rd.FindTurn(s, tid)
		if err != nil || n.Ref.Session != sid {
			return c, bad
		}
		c.Head, c.Hi, at = n, n.Depth, d
	} else {
		id, err := turns.ParseID(after)
		if err != nil {
			return c, bad
		}
		n, err := rd.FindTurn(s, id)
		if err != nil {
			return c, err
		}
		if ok, err := lineage.IsAncestor(rd.Projections, n, head); err != nil || !ok {
			return c, errors.Join(bad, err)
		}
		at = n.Depth
	}
	if at < 1 || at > c.Hi {
		return c, bad
	}
	if desc {
		c.Hi = at - 1
	} else {
		c.Lo = at + 1
	}
	return c, nil
}
