package plan_test

import (
	"nexus/compactor/compactortest"
	"nexus/turns/tokens"
)

var (
	testID, must, builtin           = compactortest.NewID, compactortest.Must, compactortest.Builtin
	user, says, result, tool, words = compactortest.User, compactortest.Says, compactortest.Result, compactortest.Tool, compactortest.Words
)

var approx = tokens.Approx{}
