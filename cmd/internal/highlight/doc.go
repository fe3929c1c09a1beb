// Package highlight gives code colours: HTML in which words, strings, numbers and comments of a
// language stand in spans of classes that a style sheet colours. The explorer calls it for the
// fenced blocks of an answer.
//
// It reads letters, not grammars: a language is a row of what its comments, strings and words look
// like (languages.go). One pass reads a block, whatever is in it, so hostile code takes no longer
// than other code of its length; and what comes out is the text, so a wrong colour is the worst
// that can happen (decision 112). Begin reading at [Page.Code].
package highlight
