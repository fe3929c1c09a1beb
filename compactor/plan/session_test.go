package plan_test

import (
	"nexus/compactor/compactortest"
	"nexus/turns/tokens"
)

var (
	testID, must, builtin, checkPairs = compactortest.NewID, compactortest.Must, compactortest.Builtin, compactortest.CheckPairs
	user, says, result, tool, words   = compactortest.User, compactortest.Says, compactortest.Result, compactortest.Tool, compactortest.Words
)

var approx = tokens.Approx{}
