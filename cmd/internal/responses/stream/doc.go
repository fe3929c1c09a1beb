// Package stream makes the events of a response of what a provider sends, and makes them again
// of a stored turn ([Emitter]); folds events into a response ([Fold]); and keeps them in a
// sealed file as long as the answer is not stored ([Spools]).
package stream
