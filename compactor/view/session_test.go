package view_test

import (
	"nexus/compactor/compactortest"
	"nexus/turns/tokens"
)

var (
	testID, must, checkPairs        = compactortest.NewID, compactortest.Must, compactortest.CheckPairs
	user, says, result, tool, words = compactortest.User, compactortest.Says, compactortest.Result, compactortest.Tool, compactortest.Words
)

var approx = tokens.Approx{}
